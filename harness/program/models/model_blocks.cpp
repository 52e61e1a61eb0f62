#include "harness/program/models/model_blocks.hpp"

namespace shardbench {

namespace {

LinearSpec qkv_spec(ModelConfig const& m) {
  return {"attention.qkv",
          "attention.qkv",
          {{".q", m.query_width(), m.query_width(), m.heads, false},
           {".k", m.kv_width(), m.kv_width(), m.kv_heads, true},
           {".v", m.kv_width(), m.kv_width(), m.kv_heads, true}},
          m.hidden,
          m.qkv_bias,
          -1};
}

Value attention_branch(GraphBuilder& b, ModelConfig const& m, Value x, std::int64_t layer) {
  Value const attended = m.mla ? b.latent_attention(x, layer) : b.attention(b.linear(x, qkv_spec(m)), layer);
  std::int64_t const width = m.mla ? m.heads * m.mla->v_head_dim : m.query_width();
  return b.linear(
      attended,
      {"attention.out", "attention.out", {{"", m.hidden, m.hidden, 0, false}}, width, m.attention_out_bias, -1});
}

/// Routed experts, and the shared ones that every token meets beside them.
Value moe_branch(GraphBuilder& b, ModelConfig const& m, Value x) {
  Value const input = b.moe_input(x);
  Value const routed = b.moe(input);
  if (m.moe->shared_ffn_hidden == 0) return routed;
  Value shared = mlp_branch(b, m, x, m.moe->shared_ffn_hidden, "moe.shared");
  if (m.moe->shared_gate) shared = b.gate(shared, input, "moe.shared_gate");
  return b.add(routed, shared);
}

Value feed_forward(GraphBuilder& b, ModelConfig const& m, Value x, std::int64_t layer) {
  return m.is_moe_layer(layer) ? moe_branch(b, m, x) : mlp_branch(b, m, x, m.ffn_hidden, "mlp");
}

/// Gemma 2 norms what a branch gives before it joins the stream; a partial sum is settled first.
Value after_branch(GraphBuilder& b, ModelConfig const& m, Value branch, std::string const& name) {
  if (!m.post_norms) return branch;
  return b.norm(b.redistribute_to_block(branch, name + ".input"), {}, name, nullptr);
}

/// The next norm adds the branch, unless dropout or private channels have to come first.
void take_branch(GraphBuilder& b, Residual& stream, Value branch, std::string const& name) {
  if (b.joins_at_once())
    stream = {b.join(stream.base, branch, name), {}};
  else
    stream.pending = branch;
}

/// Both branches read the same stream, and their partial sums are one sum: one collective settles both.
void build_parallel_block(GraphBuilder& b, ModelConfig const& m, std::int64_t layer, Residual& stream) {
  Value const x = b.norm(stream.base, stream.pending, "norm1", &stream.base);
  Value const y = m.parallel_shared_norm ? x : b.norm(stream.base, {}, "norm2", nullptr);
  Value const attended = attention_branch(b, m, x, layer);
  take_branch(b, stream, b.add(attended, feed_forward(b, m, y, layer)), "block.join");
}

}  // namespace

Value mlp_branch(GraphBuilder& b, ModelConfig const& m, Value x, std::int64_t width, std::string const& name) {
  LinearSpec up{name + ".up", "mlp.up", {}, m.hidden, m.mlp_bias, -1};
  if (m.gated_mlp)
    up.sections = {{".gate", width, width, 0, false}, {".up", width, width, 0, false}};
  else
    up.sections = {{"", width, width, 0, false}};
  Value const hidden = b.activation(b.linear(x, up), width);
  return b.linear(hidden, {name + ".down", "mlp.down", {{"", m.hidden, m.hidden, 0, false}}, width, m.mlp_bias, -1});
}

void build_block(GraphBuilder& b, ModelConfig const& m, std::int64_t layer, Residual& stream) {
  b.set_layer(layer);
  if (m.parallel_block) {
    build_parallel_block(b, m, layer, stream);
    return;
  }
  Value const x = b.norm(stream.base, stream.pending, "norm1", &stream.base);
  take_branch(b, stream, after_branch(b, m, attention_branch(b, m, x, layer), "post_norm1"), "attention.join");
  Value const y = b.norm(stream.base, stream.pending, "norm2", &stream.base);
  take_branch(b, stream, after_branch(b, m, feed_forward(b, m, y, layer), "post_norm2"), "mlp.join");
}

}  // namespace shardbench

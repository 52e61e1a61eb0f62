#include "harness/program/models/model_blocks.hpp"

#include <optional>
#include <utility>

#include "harness/program/graph/attention.hpp"
#include "harness/program/graph/experts.hpp"
#include "harness/program/graph/latent_attention.hpp"
#include "harness/program/graph/linear.hpp"
#include "harness/program/graph/module_scope.hpp"
#include "harness/program/graph/norm.hpp"
#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/routing.hpp"
#include "harness/program/graph/unary.hpp"

namespace shardbench {

namespace {

LinearSpec qkv_spec(ModelConfig const& m) {
  LinearSpec qkv = whole_weight("attention.qkv", 0, m.hidden, m.qkv_bias);
  qkv.sections = {{".q", m.query_width(), m.query_width(), m.heads},
                  {".k", m.kv_width(), m.kv_width(), m.kv_heads, true},
                  {".v", m.kv_width(), m.kv_width(), m.kv_heads, true}};
  return qkv;
}

Value attention_branch(Tape& t, Value x) {
  ModelConfig const& m = t.model;
  Value const attended = m.mla ? latent_attention(t, x) : attention(t, linear(t, x, qkv_spec(m)));
  std::int64_t const width = m.mla ? m.heads * m.mla->v_head_dim : m.query_width();
  return linear(t, attended, whole_weight("attention.out", m.hidden, width, m.attention_out_bias));
}

/// The dense MLP of `width`, its weights named `name`.up and `name`.down ("mlp").
Value mlp_branch(Tape& t, Value x, std::int64_t width, std::string const& name) {
  ModelConfig const& m = t.model;
  LinearSpec up{name + ".up", "mlp.up", {{"", width, width}}, m.hidden, m.mlp_bias};
  if (m.gated_mlp) up.sections = {{".gate", width, width}, {".up", width, width}};
  Value const hidden = activation(t, linear(t, x, up), width);
  return linear(t, hidden, {name + ".down", "mlp.down", {{"", m.hidden, m.hidden}}, width, m.mlp_bias});
}

/// Routed experts, and the shared ones that every token meets beside them.
Value moe_branch(Tape& t, Value x) {
  ModuleScope const all(t, RecomputeModule::moe);
  MoeConfig const& experts = *t.model.moe;
  Value const input = moe_input(t, x);
  Value const routed = moe(t, input);
  if (experts.shared_ffn_hidden == 0) return routed;
  std::optional<ModuleScope> scope(std::in_place, t, RecomputeModule::shared_experts);
  Value shared = mlp_branch(t, x, experts.shared_ffn_hidden, "moe.shared");
  if (experts.shared_gate) shared = gate(t, shared, input, "moe.shared_gate");
  scope.reset();
  return add(t, routed, shared);
}

Value feed_forward(Tape& t, Value x) {
  if (t.model.is_moe_layer(t.layer())) return moe_branch(t, x);
  ModuleScope const scope(t, RecomputeModule::mlp);
  return mlp_branch(t, x, t.model.ffn_hidden, "mlp");
}

/// Gemma 2 norms what a branch gives before it joins the residual stream; a partial sum is settled first.
Value after_branch(Tape& t, Value branch, std::string const& name) {
  return t.model.post_norms ? norm(t, redistribute_to_block(t, branch, name + ".input"), name) : branch;
}

/// The next norm adds the branch, unless dropout or private channels have to come first.
void take_branch(Tape& t, Residual& residual, Value branch, std::string const& name) {
  if (joins_at_once(t))
    residual = {join(t, residual.base, branch, name), {}};
  else
    residual.pending = branch;
}

/// Both branches read the same residual stream, and their partial sums are one sum: one collective settles both.
void build_parallel_block(Tape& t, Residual& residual) {
  Value const x = norm(t, residual, "norm1");
  Value const y = t.model.parallel_shared_norm ? x : norm(t, residual.base, "norm2");
  Value const attended = attention_branch(t, x);
  take_branch(t, residual, add(t, attended, feed_forward(t, y)), "block.join");
}

}  // namespace

void build_block(Tape& t, std::int64_t layer, Residual& residual) {
  t.set_layer(layer);
  if (t.model.parallel_block) return build_parallel_block(t, residual);
  Value const x = norm(t, residual, "norm1");
  take_branch(t, residual, after_branch(t, attention_branch(t, x), "post_norm1"), "attention.join");
  Value const y = norm(t, residual, "norm2");
  take_branch(t, residual, after_branch(t, feed_forward(t, y), "post_norm2"), "mlp.join");
}

}  // namespace shardbench

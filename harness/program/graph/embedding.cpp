#include "harness/program/graph/embedding.hpp"

#include "harness/program/graph/parameters.hpp"
#include "harness/program/graph/redistribute.hpp"

namespace shardbench {

void embedding_backward(Tape& t, Value y, ParameterId table, EmbeddingShape const& shape, TensorRef ids,
                        std::string const& name) {
  t.writes_gradient(t.emit(OpKind::embedding_backward, shape, name, {ids, t.take_gradient(y)}, {t.gradient(table)}),
                    table, t[y].layout);
}

Value embedding(Tape& t, std::string const& name, std::int64_t rows, std::int64_t padded_rows, TensorId ids) {
  Placement const placement = weight_placement(t, name);
  ParameterId weight = t.find_parameter(name + ".weight");
  if (!weight.valid()) {
    Parameter table = lookup_table(t, {name, name, {{"", rows, padded_rows}}, t.model.hidden}, placement);
    table.tied = t.model.tied_embeddings || t.experiment.mtp > 0;
    table.copy = !t.chunk().has_embedding;
    weight = t.add_parameter(std::move(table));
  }
  Parameter const& p = t.program.parameters[weight];
  Layout layout = with(t.block_layout(), Axis::tp, Replicate{});
  if (is_shard(placement, 0)) layout[Axis::tp] = Partial{};
  if (is_shard(placement, 1)) layout[Axis::tp] = Shard{feature_dim};
  std::int64_t const tokens = t.program.local_seq * t.program.micro_batch;
  Value const y = t.value(name, tokens, p.cols, layout, t.model.hidden);
  EmbeddingShape const shape{tokens, p.rows, p.cols, p.sections[0].row_begin,
                             static_cast<float>(t.model.embedding_scale)};
  t.emit(OpKind::embedding_forward, shape, name, {{ids}, t.weight(weight)}, {t[y].ref});
  t.on_backward([=, &t] { embedding_backward(t, y, weight, shape, {ids}, name); });
  return y;
}

Value add_positions(Tape& t, Value x, std::string const& name, std::int64_t rows) {
  LinearSpec const spec = whole_weight(name, rows, t.model.hidden);
  ParameterId const weight = t.add_parameter(lookup_table(t, spec, Replicate{}));
  std::int64_t const tokens = t[x].rows;
  TensorRef const ids = own_part(t, t.program.inputs.token_positions, x, tokens);
  EmbeddingShape const shape{tokens, rows, t.model.hidden};
  t.emit(OpKind::embedding_forward, shape, name, {ids, t.weight(weight)}, {t[x].ref}).always_accumulate = true;
  t.on_backward([=, &t] { embedding_backward(t, x, weight, shape, ids, name); });
  return x;
}

}  // namespace shardbench

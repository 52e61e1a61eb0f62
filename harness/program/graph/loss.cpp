#include "harness/program/graph/loss.hpp"

#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/streams.hpp"

namespace shardbench {

void loss(Tape& t, Value logits, std::int64_t first_column, std::int64_t targets_of_sample, LossTerm const& term) {
  if (residual_streams(t) > 1) logits = select_blocks(t, logits, term.name + ".streams");
  // Targets and loss are of the whole sequence: where an uncut head left rows cut, they are gathered, and the gradient,
  // the same on every rank, is sliced again.
  logits = all_rows(t, logits);
  std::int64_t const tokens = t[logits].rows;
  auto const scale = static_cast<float>(term.weight / static_cast<double>(t.program.global_batch * targets_of_sample));
  std::string const name = term.name;
  CrossEntropyOpShape const shape{tokens, t[logits].cols, first_column, t.program.vocab, scale, t.model.logit_softcap};
  TensorRef const maximum = t.temporary(name + ".maximum", Dtype::f32, tokens, 1);
  TensorRef const sums = t.temporary(name + ".sums", Dtype::f32, 2, tokens);
  TensorRef const in = t[logits].ref, targets{term.targets, term.first_target};
  // Of a cut vocabulary each rank knows its columns' maximum and sums.
  auto const over_vocabulary = [&](std::int64_t count, PartialOp reduce, char const* what, TensorRef x) {
    if (!is_shard(t[logits].layout[Axis::tp], feature_dim)) return;
    Op op = t.make_collective(OpKind::all_reduce, id_of(GroupKind::tp), count, Dtype::f32, name + what, x, x);
    std::get<CollectiveShape>(op.shape).reduce = reduce;
    t.emit(std::move(op));
  };
  t.emit(OpKind::cross_entropy_max, shape, name + ".max", {in, targets}, {maximum});
  over_vocabulary(tokens, PartialOp::max, ".max", maximum);
  t.emit(OpKind::cross_entropy_sum, shape, name + ".sum", {in, targets, maximum}, {sums});
  over_vocabulary(2 * tokens, PartialOp::sum, ".sum", sums);
  Op& total = t.emit(OpKind::cross_entropy_loss, shape, name, {in, targets, sums}, {TensorRef{t.program.loss}});
  total.accumulate = !term.adds;
  total.always_accumulate = term.adds;
  t.on_backward([=, &t] {
    // In place: nobody reads the logits again.
    t.emit(OpKind::cross_entropy_backward, shape, name, {in, targets, maximum, sums}, {in});
    t.accumulate(logits, in);
  });
}

}  // namespace shardbench

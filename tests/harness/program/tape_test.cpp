// The tape itself: where values lie, what their gradients need, and which ops wait for which.
#include "harness/program/graph/tape.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/program/graph/redistribute.hpp"
#include "harness/program/graph/residual.hpp"

namespace shardbench::test {
namespace {

constexpr std::int64_t rows = 8, cols = 4;

/// A tape over two tensor-parallel ranks, with one chunk begun.
struct Tp2 {
  Tp2() {
    experiment.cut.tp = 2;
    program.degree.fill(1);
    program.degree[Axis::tp] = 2;
    program.groups = communication_groups(experiment, 0);
    program.chunks.resize(1);
    tape.begin_chunk(0);
  }
  static std::vector<OpKind> kinds(std::vector<Op> const& ops) {
    std::vector<OpKind> all;
    for (Op const& op : ops)
      if (op.kind != OpKind::copy_block) all.push_back(op.kind);
    return all;
  }
  static Layout along_tp(Placement const& placement) { return with(Layout{}, Axis::tp, placement); }

  Experiment experiment;
  StepProgram program;
  Strategy strategy;
  Tape tape{program, strategy, experiment};
};

using Kinds = std::vector<OpKind>;

TEST(Tape, BackwardOfARedistributionIsItsDual) {
  Shard const by_rows{sequence_dim}, by_columns{feature_dim};
  struct Case {
    Placement from, to, gradient;
    Kinds forward, backward;
  };
  std::vector<Case> const cases{
      {by_rows, Replicate{}, Partial{}, {OpKind::all_gather}, {OpKind::reduce_scatter}},
      {by_rows, Replicate{}, Replicate{}, {OpKind::all_gather}, {}},
      {Partial{}, Replicate{}, Replicate{}, {OpKind::all_reduce}, {}},
      {Partial{}, by_rows, by_rows, {OpKind::reduce_scatter}, {OpKind::all_gather}},
      {by_rows, by_columns, by_columns, {OpKind::all_to_all}, {OpKind::all_to_all}},
      {by_columns, by_rows, by_rows, {OpKind::all_to_all}, {OpKind::all_to_all}},
      {Replicate{}, by_columns, by_columns, {}, {OpKind::all_gather}},
  };
  for (Case const& c : cases) {
    SCOPED_TRACE(to_string(c.from) + " to " + to_string(c.to));
    Tp2 tp2;
    Tape& t = tp2.tape;
    Value const x = t.value("x", rows, cols, Tp2::along_tp(c.from));
    Value const y = redistribute_along(t, x, Axis::tp, c.to, "move");
    TensorRef const dy = t.temporary("dy", t[y].rows, t[y].cols);
    t.on_backward([&] { t.accumulate(y, dy, Tp2::along_tp(c.gradient)); });
    t.derive_backward();
    EXPECT_EQ(Tp2::kinds(t.take_forward()), c.forward);
    EXPECT_EQ(Tp2::kinds(t.take_backward()), c.backward);
    ASSERT_TRUE(t[x].gradient);
    EXPECT_EQ(t[x].gradient->layout, gradient_layout(t[x].layout));
    Tensor const& gradient = tp2.program.tensors[t[x].gradient->ref.id];
    EXPECT_EQ(gradient.rows * gradient.cols, rows * cols);
  }
}

TEST(Tape, TwoReadersShareOneRedistribution) {
  Tp2 tp2;
  Tape& t = tp2.tape;
  Value const x = t.value("x", rows, cols, Tp2::along_tp(Partial{}));
  Value const once = whole(t, x), twice = whole(t, x);
  EXPECT_EQ(once.index, twice.index);
  EXPECT_EQ(Tp2::kinds(t.take_forward()), Kinds{OpKind::all_reduce});
}

TEST(Tape, TermsOfAGradientAreAddedWhereItBelongs) {
  Tp2 tp2;
  Tape& t = tp2.tape;
  Layout const whole_rows = Tp2::along_tp(Replicate{});
  Value const x = t.value("x", rows, cols, whole_rows);
  t.accumulate(x, t.temporary("first", rows, cols), whole_rows);
  t.accumulate(x, t.temporary("second", rows, cols), whole_rows);
  t.accumulate(x, t.temporary("partial", rows, cols), Tp2::along_tp(Partial{}));
  EXPECT_EQ(Tp2::kinds(t.take_forward()), (Kinds{OpKind::add, OpKind::all_reduce, OpKind::add}));
  EXPECT_EQ(t[x].gradient->layout, whole_rows);
}

TEST(Tape, WhoUsesATensorWaitsForItsSlices) {
  Tp2 tp2;
  Tape& t = tp2.tape;
  TensorRef const whole = t.temporary("whole", rows, cols), other = t.temporary("other", rows, cols);
  TensorRef const top = t.slice_apart(whole, {0, rows / 2}), rest = t.slice_apart(whole, {rows / 2, rows / 2});
  EXPECT_TRUE(t.emit(OpKind::add, BlockShape{rows / 2, cols}, "slices", {top, rest}, {top}).after.empty());
  Op const& op = t.emit(OpKind::copy_block, BlockShape{rows, cols}, "whole", {whole}, {other});
  ASSERT_EQ(op.after.size(), 2u);
  EXPECT_EQ(op.after[0].id, top.id);
  EXPECT_EQ(op.after[1].id, rest.id);
}

TEST(Tape, TheFirstWriterOfAGradientOverwritesAndLaterOnesAdd) {
  Tp2 tp2;
  Tape& t = tp2.tape;
  Parameter weight;
  weight.name = "weight";
  weight.rows = rows, weight.cols = cols;
  ParameterId const id = t.add_parameter(weight);
  EXPECT_EQ(t.find_parameter("weight"), id);
  Op first, second;
  t.writes_gradient(first, id, Tp2::along_tp(Replicate{}));
  EXPECT_FALSE(t.gradient_partial[id][Axis::tp]);
  t.writes_gradient(second, id, Tp2::along_tp(Shard{sequence_dim}));
  EXPECT_TRUE(first.accumulate && !first.always_accumulate);
  EXPECT_TRUE(second.always_accumulate && !second.accumulate);
  EXPECT_TRUE(t.gradient_partial[id][Axis::tp]);
}

TEST(Tape, AChunkEndsInItsOutput) {
  for (bool const collective : {false, true}) {
    Tp2 tp2;
    Tape& t = tp2.tape;
    Value const x = t.value("x", rows, cols, Tp2::along_tp(collective ? Placement{Shard{sequence_dim}} : Replicate{}));
    Value const y = collective ? redistribute_along(t, x, Axis::tp, Replicate{}, "gather") : add(t, x, x);
    chunk_output(t, y);
    Op const last = t.take_forward().back();
    EXPECT_EQ(last.kind, collective ? OpKind::copy_block : OpKind::add);
    EXPECT_EQ(last.outputs[0].id, t.chunk().output);
  }
}

}  // namespace
}  // namespace shardbench::test

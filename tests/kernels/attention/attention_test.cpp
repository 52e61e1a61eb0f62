#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

struct Case {
  char const* name;
  std::int64_t seq_q, seq_k, batch, heads, kv_heads, head_dim, value_dim;
  AttentionMask mask = AttentionMask::causal;
  std::int64_t window = 0;
  float softcap = 0;
  bool positions = false;  ///< zigzag order: the first and the last quarter of a sequence of twice the length
  std::int64_t gap = 0;    ///< elements between the rows that belong to others
};

constexpr Case cases[] = {
    {"one token", 1, 1, 1, 1, 1, 4, 4},
    {"one query", 1, 300, 3, 4, 2, 16, 12},
    {"one query, wide head", 1, 37, 2, 2, 2, 192, 128},
    {"one query, window and cap", 1, 90, 2, 6, 2, 8, 8, AttentionMask::causal, 33, 0.7f},
    {"plain", 9, 9, 2, 3, 3, 8, 8},
    {"not causal", 7, 13, 1, 2, 2, 8, 8, AttentionMask::none},
    {"grouped, values narrower", 33, 33, 1, 6, 2, 12, 5},
    {"query blocks with a tail", 131, 131, 1, 2, 1, 16, 16},
    {"key blocks with a tail", 70, 530, 1, 1, 1, 8, 8},
    {"decode", 1, 77, 2, 4, 2, 16, 16},
    {"window", 150, 150, 1, 2, 2, 8, 8, AttentionMask::causal, 20},
    {"window, not causal", 40, 40, 1, 1, 1, 8, 8, AttentionMask::none, 5},
    {"softcap", 45, 45, 1, 2, 2, 8, 8, AttentionMask::causal, 0, 2.0f},
    {"softcap and window", 45, 45, 1, 2, 1, 8, 8, AttentionMask::causal, 7, 2.0f},
    {"zigzag", 140, 140, 1, 2, 2, 8, 8, AttentionMask::causal, 0, 0, true},
    {"slices", 20, 20, 2, 2, 2, 8, 8, AttentionMask::causal, 0, 0, false, 10},
    {"queries before every key", 12, 5, 1, 2, 2, 8, 8},
};

/// A whole problem: inputs in one dtype, forward and backward by any kernel set.
struct Problem {
  AttentionShape shape;
  std::int64_t gap;
  std::vector<std::int32_t> q_positions, k_positions;
  Tensor q, k, v, dout;

  Problem(Case const& c, Dtype dtype)
      : gap(c.gap),
        q(Tensor::random(dtype, c.seq_q * c.batch * (c.heads * c.head_dim + c.gap), 1)),
        k(Tensor::random(dtype, c.seq_k * c.batch * (c.kv_heads * c.head_dim + c.gap), 2)),
        v(Tensor::random(dtype, c.seq_k * c.batch * (c.kv_heads * c.value_dim + c.gap), 3)),
        dout(Tensor::random(dtype, c.seq_q * c.batch * (c.heads * c.value_dim + c.gap), 4)) {
    shape.seq_q = c.seq_q;
    shape.seq_k = c.seq_k;
    shape.batch = c.batch;
    shape.heads = c.heads;
    shape.kv_heads = c.kv_heads;
    shape.head_dim = c.head_dim;
    shape.value_dim = c.value_dim;
    shape.scale = 1.5f / std::sqrt(static_cast<float>(c.head_dim));
    shape.softcap = c.softcap;
    shape.window = c.window;
    shape.mask = c.mask;
    shape.dtype = dtype;
    if (c.positions) use_zigzag();
  }
  void use_zigzag() {
    for (std::int64_t i = 0; i < shape.seq_q; ++i) {
      q_positions.push_back(static_cast<std::int32_t>(i < shape.seq_q / 2 ? i : i + shape.seq_q));
    }
    k_positions = q_positions;
    shape.q_positions = q_positions.data();
    shape.k_positions = k_positions.data();
  }
  AttentionTensor view(Tensor const& tensor, std::int64_t heads, std::int64_t dim) const {
    return {const_cast<void*>(tensor.data()), heads * dim + gap};
  }
  AttentionTensor view_q(Tensor const& tensor) const { return view(tensor, shape.heads, shape.head_dim); }
  AttentionTensor view_k(Tensor const& tensor) const { return view(tensor, shape.kv_heads, shape.head_dim); }
  AttentionTensor view_v(Tensor const& tensor) const { return view(tensor, shape.kv_heads, shape.value_dim); }
  AttentionTensor view_out(Tensor const& tensor) const { return view(tensor, shape.heads, shape.value_dim); }
  std::int64_t gaps(std::int64_t seq) const { return seq * shape.batch * gap; }
};

struct Forward {
  Tensor out, log_sum_exp;
};

Forward forward(KernelSet const& kernels, Problem const& problem) {
  AttentionShape const& shape = problem.shape;
  Forward result{Tensor(shape.dtype, problem.dout.count()),
                 Tensor(Dtype::f32, shape.batch * shape.heads * shape.seq_q)};
  AttentionForwardArgs args;
  args.shape = shape;
  args.q = problem.view_q(problem.q);
  args.k = problem.view_k(problem.k);
  args.v = problem.view_v(problem.v);
  args.out = problem.view_out(result.out);
  args.log_sum_exp = result.log_sum_exp.floats();
  run(kernels.attention_forward, args);
  return result;
}

struct Backward {
  Tensor dq, dk, dv;
};

Backward backward(KernelSet const& kernels, Problem const& problem, Forward& given, Backward result, bool accumulate) {
  AttentionBackwardArgs args;
  args.shape = problem.shape;
  args.q = problem.view_q(problem.q);
  args.k = problem.view_k(problem.k);
  args.v = problem.view_v(problem.v);
  args.out = problem.view_out(given.out);
  args.dout = problem.view_out(problem.dout);
  args.dq = problem.view_q(result.dq);
  args.dk = problem.view_k(result.dk);
  args.dv = problem.view_v(result.dv);
  args.log_sum_exp = given.log_sum_exp.floats();
  args.accumulate_q = args.accumulate_kv = accumulate;
  run(kernels.attention_backward, args);
  return result;
}

Backward poisoned_gradients(Problem const& p) {
  return {Tensor(p.shape.dtype, p.q.count()), Tensor(p.shape.dtype, p.k.count()), Tensor(p.shape.dtype, p.v.count())};
}

TEST(Attention, ForwardEqualsReference) {
  for (Case const& c : cases) {
    for (Dtype const dtype : storage_dtypes) {
      Problem const problem(c, dtype);
      Forward const actual = forward(host_kernels(), problem), expected = forward(reference_kernels(), problem);
      double const limit = tolerance(dtype, c.seq_k + c.head_dim);
      EXPECT_TRUE(close(actual.out, expected.out, limit, problem.gaps(c.seq_q))) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.log_sum_exp, expected.log_sum_exp, tolerance(Dtype::f32, c.seq_k)))
          << c.name << ' ' << to_string(dtype);
    }
  }
}

TEST(Attention, BackwardEqualsReference) {
  for (Case const& c : cases) {
    if (c.seq_k == 1) continue;  // dq and dk are zero in exact arithmetic
    for (Dtype const dtype : storage_dtypes) {
      Problem const problem(c, dtype);
      Forward given = forward(reference_kernels(), problem);
      Backward const start = poisoned_gradients(problem);
      Backward const actual = backward(host_kernels(), problem, given, start, false);
      Backward const expected = backward(reference_kernels(), problem, given, start, false);
      double const limit = tolerance(dtype, 4 * (c.seq_q + c.seq_k));
      EXPECT_TRUE(close(actual.dq, expected.dq, limit, problem.gaps(c.seq_q))) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.dk, expected.dk, limit, problem.gaps(c.seq_k))) << c.name << ' ' << to_string(dtype);
      EXPECT_TRUE(close(actual.dv, expected.dv, limit, problem.gaps(c.seq_k))) << c.name << ' ' << to_string(dtype);
    }
  }
}

TEST(Attention, BackwardAccumulates) {
  Problem const problem({"grouped", 20, 20, 2, 4, 2, 8, 8}, Dtype::f32);
  Forward given = forward(reference_kernels(), problem);
  Backward const once = backward(host_kernels(), problem, given, poisoned_gradients(problem), false);
  Backward const twice = backward(host_kernels(), problem, given, once, true);
  for (std::int64_t i = 0; i < once.dk.count(); ++i) EXPECT_EQ(twice.dk.at(i), 2 * once.dk.at(i));
  for (std::int64_t i = 0; i < once.dq.count(); ++i) EXPECT_EQ(twice.dq.at(i), 2 * once.dq.at(i));
  for (std::int64_t i = 0; i < once.dv.count(); ++i) EXPECT_EQ(twice.dv.at(i), 2 * once.dv.at(i));
}

TEST(Attention, BackwardIsTheDerivativeOfForward) {
  for (Case const& c :
       {Case{"causal", 6, 6, 1, 4, 2, 4, 3}, Case{"softcap", 5, 7, 2, 2, 1, 4, 4, AttentionMask::causal, 3, 1.5f},
        Case{"zigzag", 6, 6, 1, 1, 1, 4, 4, AttentionMask::causal, 0, 0, true}}) {
    Problem exact(c, Dtype::f64);
    Problem const rounded(c, Dtype::f32);
    auto const loss = [&] { return inner_product(forward(reference_kernels(), exact).out, exact.dout); };
    Forward given = forward(host_kernels(), rounded);
    Backward const actual = backward(host_kernels(), rounded, given, poisoned_gradients(rounded), false);
    EXPECT_TRUE(close(actual.dq, finite_differences(exact.q, loss), gradient_tolerance)) << c.name;
    EXPECT_TRUE(close(actual.dk, finite_differences(exact.k, loss), gradient_tolerance)) << c.name;
    EXPECT_TRUE(close(actual.dv, finite_differences(exact.v, loss), gradient_tolerance)) << c.name;
  }
}

TEST(Attention, AQueryWithoutKeysGivesZeros) {
  Problem problem({"future keys", 3, 4, 1, 1, 1, 4, 4}, Dtype::f32);
  problem.q_positions = {0, 1, 2};
  problem.k_positions = {2, 3, 4, 5};
  problem.shape.q_positions = problem.q_positions.data();
  problem.shape.k_positions = problem.k_positions.data();
  Forward given = forward(host_kernels(), problem);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(given.out.at(i), 0);
  EXPECT_EQ(given.log_sum_exp.at(0), -std::numeric_limits<double>::infinity());
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_FLOAT_EQ(given.out.floats()[8 + d], problem.v.floats()[d]);
  Backward const gradient = backward(host_kernels(), problem, given, poisoned_gradients(problem), false);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(gradient.dq.at(i), 0);
  for (std::int64_t i = 4; i < 16; ++i) EXPECT_EQ(gradient.dv.at(i), 0);
}

/// A sequence as the blocks that a ring meets: three pieces, each pair of a query and a key piece on its own.
struct Pieces {
  std::int64_t seq, count = 3;
  std::int64_t size() const { return seq / count; }
  std::int64_t begin(std::int64_t piece) const { return piece * size(); }
};

AttentionTensor rows_from(AttentionTensor tensor, std::int64_t row, Dtype dtype) {
  tensor.data =
      static_cast<std::byte*>(tensor.data) + row * tensor.row_stride * static_cast<std::int64_t>(bytes_of(dtype));
  return tensor;
}

AttentionShape pair_shape(Problem const& problem, Pieces const& pieces, std::int64_t q, std::int64_t k) {
  AttentionShape shape = problem.shape;
  shape.seq_q = shape.seq_k = pieces.size();
  shape.q_offset = pieces.begin(q) - pieces.begin(k);
  return shape;
}

/// Forward in blocks: each block's output joins what its queries have so far.
Forward forward_in_blocks(KernelSet const& kernels, Problem const& problem, Pieces const& pieces) {
  AttentionShape const& whole = problem.shape;
  Forward result{Tensor(whole.dtype, problem.dout.count()),
                 Tensor(Dtype::f32, whole.batch * whole.heads * whole.seq_q)};
  for (std::int64_t q = 0; q < pieces.count; ++q)
    for (std::int64_t k = 0; k < pieces.count; ++k) {
      Forward block{Tensor(whole.dtype, problem.dout.count()),
                    Tensor(Dtype::f32, whole.batch * whole.heads * pieces.size())};
      std::int64_t const q_row = pieces.begin(q) * whole.batch, k_row = pieces.begin(k) * whole.batch;
      AttentionForwardArgs args;
      args.shape = pair_shape(problem, pieces, q, k);
      args.q = rows_from(problem.view_q(problem.q), q_row, whole.dtype);
      args.k = rows_from(problem.view_k(problem.k), k_row, whole.dtype);
      args.v = rows_from(problem.view_v(problem.v), k_row, whole.dtype);
      AttentionTensor const out = rows_from(problem.view_out(result.out), q_row, whole.dtype);
      args.out = k == 0 ? out : problem.view_out(block.out);
      args.log_sum_exp = k == 0 ? result.log_sum_exp.floats() + pieces.begin(q) : block.log_sum_exp.floats();
      args.shape.statistic_stride = k == 0 ? whole.seq_q : 0;
      run(kernels.attention_forward, args);
      if (k == 0) continue;
      AttentionMergeArgs merge{pieces.size(),
                               whole.batch,
                               whole.heads,
                               whole.value_dim,
                               out,
                               args.out,
                               result.log_sum_exp.floats() + pieces.begin(q),
                               args.log_sum_exp,
                               whole.seq_q,
                               whole.dtype};
      run(kernels.attention_merge, merge);
    }
  return result;
}

Backward backward_in_blocks(KernelSet const& kernels, Problem const& problem, Pieces const& pieces, Forward& given) {
  AttentionShape const& whole = problem.shape;
  Backward result = poisoned_gradients(problem);
  for (std::int64_t q = 0; q < pieces.count; ++q)
    for (std::int64_t k = 0; k < pieces.count; ++k) {
      std::int64_t const q_row = pieces.begin(q) * whole.batch, k_row = pieces.begin(k) * whole.batch;
      auto const at = [&](AttentionTensor tensor, std::int64_t row) { return rows_from(tensor, row, whole.dtype); };
      AttentionBackwardArgs args;
      args.shape = pair_shape(problem, pieces, q, k);
      args.shape.statistic_stride = whole.seq_q;
      args.q = at(problem.view_q(problem.q), q_row), args.dq = at(problem.view_q(result.dq), q_row);
      args.k = at(problem.view_k(problem.k), k_row), args.dk = at(problem.view_k(result.dk), k_row);
      args.v = at(problem.view_v(problem.v), k_row), args.dv = at(problem.view_v(result.dv), k_row);
      args.out = at(problem.view_out(given.out), q_row), args.dout = at(problem.view_out(problem.dout), q_row);
      args.log_sum_exp = given.log_sum_exp.floats() + pieces.begin(q);
      args.accumulate_q = k > 0;
      args.accumulate_kv = q > 0;
      run(kernels.attention_backward, args);
    }
  return result;
}

TEST(Attention, BlocksMergeToTheWhole) {
  for (Case const& c :
       {Case{"causal", 21, 21, 2, 4, 2, 8, 6}, Case{"window", 30, 30, 1, 2, 2, 8, 8, AttentionMask::causal, 7},
        Case{"not causal", 18, 18, 1, 2, 1, 8, 8, AttentionMask::none}})
    for (Dtype const dtype : storage_dtypes) {
      Problem const problem(c, dtype);
      Pieces const pieces{c.seq_q};
      Forward expected = forward(reference_kernels(), problem);
      Backward const gradient = backward(reference_kernels(), problem, expected, poisoned_gradients(problem), false);
      // Partial results are rounded to the storage dtype before each merge.
      double const limit = 4 * tolerance(dtype, 4 * (c.seq_q + c.seq_k));
      for (KernelSet const* kernels : {&host_kernels(), &reference_kernels()}) {
        Forward const actual = forward_in_blocks(*kernels, problem, pieces);
        EXPECT_TRUE(close(actual.out, expected.out, limit)) << c.name << ' ' << to_string(dtype);
        EXPECT_TRUE(close(actual.log_sum_exp, expected.log_sum_exp, tolerance(Dtype::f32, c.seq_k))) << c.name;
        Backward const blocks = backward_in_blocks(*kernels, problem, pieces, expected);
        EXPECT_TRUE(close(blocks.dq, gradient.dq, limit)) << c.name << ' ' << to_string(dtype);
        EXPECT_TRUE(close(blocks.dk, gradient.dk, limit)) << c.name << ' ' << to_string(dtype);
        EXPECT_TRUE(close(blocks.dv, gradient.dv, limit)) << c.name << ' ' << to_string(dtype);
      }
    }
}

TEST(Attention, MergingWithABlockThatShowsNoKeyChangesNothing) {
  for (KernelSet const* kernels : {&host_kernels(), &reference_kernels()}) {
    std::vector<float> out{1, 2, 3, 4}, block{5, 6, 7, 8};
    float own[] = {0.5f, -INFINITY}, none[] = {-INFINITY, -INFINITY};
    run(kernels->attention_merge,
        AttentionMergeArgs{1, 1, 2, 2, {out.data(), 4}, {block.data(), 4}, own, none, 0, Dtype::f32});
    EXPECT_EQ(out[0], 1);
    EXPECT_EQ(out[1], 2);
    EXPECT_EQ(own[0], 0.5f);
    EXPECT_EQ(own[1], -INFINITY);
  }
}

TEST(Attention, RefusesUnevenGroups) {
  Problem const problem({"3 over 2", 4, 4, 1, 2, 2, 4, 4}, Dtype::f32);
  AttentionForwardArgs args;
  args.shape = problem.shape;
  args.shape.heads = 3;
  EXPECT_THROW(run(host_kernels().attention_forward, args), Error);
}

}  // namespace
}  // namespace shardbench::test

#include <algorithm>
#include <set>

#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

constexpr std::int64_t tokens = 23;

struct Routed {
  Tensor weights;
  std::vector<std::int32_t> indices;
};

Routed forward(KernelSet const& kernels, RouterRule const& rule, Tensor const& logits, float const* bias = nullptr,
               PrescribedChoice const& prescribed = {}) {
  std::int64_t const count = logits.count() / rule.experts;
  Routed r{Tensor(Dtype::f32, count * rule.top_k),
           std::vector<std::int32_t>(static_cast<std::size_t>(count * rule.top_k), -1)};
  RouterForwardArgs args{rule,  prescribed,    logits.data(), bias, r.weights.floats(), r.indices.data(),
                         count, logits.dtype()};
  run(kernels.router_forward, args);
  return r;
}

Tensor backward(KernelSet const& kernels, RouterRule const& rule, Tensor const& logits,
                std::vector<std::int32_t> const& indices, Tensor& dweights) {
  Tensor dlogits(logits.dtype(), logits.count());
  RouterBackwardArgs args{
      rule,          logits.data(), indices.data(), dweights.floats(), dlogits.data(), logits.count() / rule.experts,
      logits.dtype()};
  run(kernels.router_backward, args);
  return dlogits;
}

/// Mixtral, Qwen1.5-MoE, DeepSeek-V2, DeepSeek-V3 in small, a gate (one expert), and more experts than lanes.
std::vector<RouterRule> rules() {
  return {{.experts = 8, .top_k = 2, .normalize = true},
          {.experts = 60, .top_k = 4},
          {.experts = 16, .top_k = 3, .groups = 4, .top_groups = 2, .scale = 16},
          {.experts = 32,
           .top_k = 8,
           .sigmoid = true,
           .normalize = true,
           .groups = 8,
           .top_groups = 4,
           .group_best = 2,
           .scale = 2.5f},
          {.experts = 1, .top_k = 1, .sigmoid = true},
          {.experts = 130, .top_k = 5, .normalize = true}};
}

TEST(Router, HostEqualsReference) {
  for (RouterRule const& rule : rules())
    for (Dtype const dtype : storage_dtypes) {
      Tensor const logits = Tensor::random(dtype, tokens * rule.experts, 1);
      Tensor bias = Tensor::random(Dtype::f32, rule.experts, 2, 0.3);
      Tensor dweights = Tensor::random(Dtype::f32, tokens * rule.top_k, 3);
      for (bool const biased : {false, true}) {
        SCOPED_TRACE(std::to_string(rule.experts) + " experts");
        Routed const ours = forward(host_kernels(), rule, logits, biased ? bias.floats() : nullptr);
        Routed const theirs = forward(reference_kernels(), rule, logits, biased ? bias.floats() : nullptr);
        EXPECT_EQ(ours.indices, theirs.indices);
        EXPECT_TRUE(close(ours.weights, theirs.weights, tolerance(Dtype::f32, rule.experts)));
        if (rule.experts == 130) continue;  // softmax over so many leaves gradients near zero nearly everywhere
        EXPECT_TRUE(close(backward(host_kernels(), rule, logits, theirs.indices, dweights),
                          backward(reference_kernels(), rule, logits, theirs.indices, dweights),
                          tolerance(dtype, 4 * rule.experts)));
      }
    }
}

TEST(Router, ReferenceKnowsASmallChoice) {
  Tensor logits(Dtype::f32, 4);
  for (std::int64_t e = 0; e < 4; ++e) logits.set(e, std::array{0.0, 2.0, 1.0, 2.0}[static_cast<std::size_t>(e)]);
  RouterRule rule{.experts = 4, .top_k = 2, .normalize = true};
  Routed r = forward(host_kernels(), rule, logits);
  EXPECT_EQ(r.indices, (std::vector<std::int32_t>{1, 3})) << "equals: the lower index first";
  EXPECT_NEAR(r.weights.at(0), 0.5, 1e-6);
  rule.sigmoid = true, rule.normalize = false, rule.scale = 3;
  r = forward(host_kernels(), rule, logits);
  EXPECT_NEAR(r.weights.at(1), 3 / (1 + std::exp(-2.0)), 1e-5);
  float const bias[] = {5, 0, 5, 0};  // the choice follows the bias, the weights do not
  r = forward(host_kernels(), rule, logits, bias);
  EXPECT_EQ(r.indices, (std::vector<std::int32_t>{2, 0}));
  EXPECT_NEAR(r.weights.at(1), 1.5, 1e-6);
}

TEST(Router, OnlyTheBestGroupsTakePart) {
  // By their best the first and third group win, by the sum of their best two the first and second.
  Tensor logits(Dtype::f32, 8);
  constexpr double values[] = {.95, .0, .5, .5, .8, .1, .1, .1};
  for (std::int64_t e = 0; e < 8; ++e) logits.set(e, std::log(values[e] / (1.0001 - values[e]) + 1e-9));
  RouterRule rule{.experts = 8, .top_k = 3, .sigmoid = true, .groups = 4, .top_groups = 2, .group_best = 1};
  for (KernelSet const* kernels : {&host_kernels(), &reference_kernels()}) {
    EXPECT_EQ(forward(*kernels, rule, logits).indices, (std::vector<std::int32_t>{0, 4, 5}));
    rule.group_best = 2;
    EXPECT_EQ(forward(*kernels, rule, logits).indices, (std::vector<std::int32_t>{0, 2, 3}));
    rule.group_best = 1;
  }
}

TEST(Router, BackwardIsTheDerivativeOfForward) {
  for (RouterRule const& rule : rules()) {
    if (rule.experts > 60) continue;
    Tensor logits = Tensor::random(Dtype::f64, 5 * rule.experts, 1);
    Tensor dweights = Tensor::random(Dtype::f32, 5 * rule.top_k, 3);
    std::vector<std::int32_t> const chosen = forward(reference_kernels(), rule, logits).indices;
    auto const loss = [&] { return inner_product(forward(reference_kernels(), rule, logits).weights, dweights); };
    Tensor const narrow = logits.as(Dtype::f32);
    Tensor const actual = backward(host_kernels(), rule, narrow, chosen, dweights);
    // Weights come out in fp32, so differences of 1e-5 are good to a few per cent only.
    Tensor const expected = finite_differences(logits, loss);
    double const dot = inner_product(actual, expected), squares = inner_product(expected, expected);
    EXPECT_NEAR(dot / squares, 1, 0.02) << rule.experts;
  }
}

TEST(Router, APrescribedChoiceGivesTheSharesWhateverTheLogits) {
  RouterRule const rule{.experts = 6, .top_k = 2, .normalize = true};
  std::vector<std::int32_t> numbers, shares{0, 8, 10, 12, 14, 15, 16};  // of a period of 8: expert 0 is in every choice
  for (std::int32_t t = 0; t < 24; ++t) numbers.push_back(t * 3 % 8);
  for (KernelSet const* kernels : {&host_kernels(), &reference_kernels()})
    for (std::int32_t const rotation : {0, 5}) {
      Routed const r = forward(*kernels, rule, Tensor::random(Dtype::f32, 24 * 6, 7), nullptr,
                               {numbers.data(), shares.data(), 8, rotation});
      std::vector<int> load(6, 0);
      for (std::size_t t = 0; t < 24; ++t) {
        EXPECT_LT(r.indices[2 * t], r.indices[2 * t + 1]) << "distinct, rising";
        for (std::size_t j = 0; j < 2; ++j) ++load[static_cast<std::size_t>(r.indices[2 * t + j])];
      }
      EXPECT_EQ(load, (std::vector<int>{24, 6, 6, 6, 3, 3}));
    }
}

TEST(Router, NoTokens) {
  RouterRule const rule{.experts = 8, .top_k = 2};
  RouterForwardArgs args;
  args.rule = rule;
  EXPECT_NO_THROW(run(host_kernels().router_forward, args));
  RouterBackwardArgs back;
  back.rule = rule;
  EXPECT_NO_THROW(run(host_kernels().router_backward, back));
}

}  // namespace
}  // namespace shardbench::test

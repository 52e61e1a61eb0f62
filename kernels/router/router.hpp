#pragma once
#include <cstdint>

#include "kernels/core/binding.hpp"
#include "kernels/core/cost.hpp"
#include "kernels/core/device.hpp"

namespace shardbench {

/// How a router scores experts and chooses among them.
struct RouterRule {
  std::int64_t experts = 0, top_k = 1;
  bool sigmoid = false;         ///< a score is the sigmoid of its logit, else the softmax over all experts
  bool normalize = false;       ///< the chosen scores are scaled to sum 1
  std::int64_t groups = 1;      ///< experts in equal groups, of which only the best `top_groups` take part
  std::int64_t top_groups = 1;  ///< groups are compared by the sum of their `group_best` best scores
  std::int64_t group_best = 1;
  float scale = 1;  ///< factor on every weight
};

/// A choice that does not depend on the logits: token t draws m = (numbers[t] + rotation) % period and visits expert e
/// when shares[e] <= m + i * period < shares[e + 1] for some i in [0, top_k). Loads are then shares, whatever is
/// learned.
struct PrescribedChoice {
  std::int32_t const* numbers = nullptr;  ///< [tokens], in [0, period)
  std::int32_t const* shares = nullptr;   ///< [experts + 1], from 0 to top_k * period, rising by at most `period`
  std::int32_t period = 1, rotation = 0;
};

/// The most experts that a router takes (what a GPU block keeps of them).
inline constexpr std::int64_t most_experts = 1024;

/// Tokens to route, and where a prescribed choice (PrescribedChoice) stands.
struct RouterShape {
  RouterRule rule;
  std::int64_t tokens = 0;
  std::int32_t period = 1, rotation = 0;  ///< of a prescribed choice (PrescribedChoice)
};

/// Chooses top_k experts a token by score (plus bias), the lowest index first among equals, and gives their weights:
/// scores without the bias. Chosen experts are in order of falling choice, or of rising index when prescribed.
struct RouterForwardArgs {
  using Shape = RouterShape;
  /// Scores of every expert and the choice.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static RouterForwardArgs bind(Shape const& shape, Binding const& binding);

  RouterRule rule;
  PrescribedChoice prescribed;   ///< by score when it has no numbers
  void const* logits = nullptr;  ///< [tokens, experts]
  float const* bias = nullptr;   ///< [experts], added for the choice only; or nullptr
  float* weights = nullptr;      ///< [tokens, top_k]
  std::int32_t* indices = nullptr;
  std::int64_t tokens = 0;
  Dtype dtype = Dtype::f32;
};

/// dlogits from the gradients of the chosen weights; the choice itself has none.
struct RouterBackwardArgs {
  using Shape = RouterShape;
  /// The same, and the logits' gradient is written too.
  static OpCost cost(Shape const& shape, CostContext const& context);
  static RouterBackwardArgs bind(Shape const& shape, Binding const& binding);

  RouterRule rule;
  void const* logits = nullptr;
  std::int32_t const* indices = nullptr;
  float const* dweights = nullptr;  ///< [tokens, top_k]
  void* dlogits = nullptr;          ///< [tokens, experts]
  std::int64_t tokens = 0;
  Dtype dtype = Dtype::f32;
};

}  // namespace shardbench

#include "harness/planner/screen.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace shardbench {
namespace {

/// A sample of a larger micro-batch may take that much less than the samples that were added last.
constexpr double least_share = 0.8;

/// What was met of the micro-batches of one LayerKey without its micro-batch.
struct Family {
  bool over = false;                  ///< larger micro-batches are left out
  bool costed = false, fits = false;  ///< some candidate of this round
  std::int32_t micro_batch = 0;       ///< of this round
  double pass_ms = 0;
  std::int32_t last_micro_batch = 0;  ///< of the round before
  double last_pass_ms = 0;
};

class Screen {
 public:
  Screen(PlanRequest const& request, PlanCoster& coster, double allowed,
         std::function<void(Candidate const&, PlanCost const*)> const& visit, double limit_ms)
      : round_(request), coster_(coster), allowed_(allowed), visit_(visit) {
    if (limit_ms > 0) best_ms_ = limit_ms;
  }

  ScreenCount run() {
    std::vector<std::int32_t> sizes = round_.axes.micro_batch;
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    for (std::int32_t const size : sizes) {
      round_.axes.micro_batch = {size};
      cost_round();
      judge();
    }
    return count_;
  }

 private:
  Family& family_of(LayerKey key) {
    key.micro_batch = 0;
    return families_[key];
  }

  void cost_round() {
    std::vector<LayerKey> keys;
    LayerKey key;
    Family* family = nullptr;
    auto const enter = [&](Candidate const& c) {
      LayerKey const mine = layer_key(c);
      if (family && mine == key) return false;
      key = mine;
      family = &family_of(mine);
      return true;
    };
    for_each_candidate(round_, [&](Candidate const& c) {
      if (enter(c) && !family->over) keys.push_back(key);
    });
    coster_.prepare(keys);
    family = nullptr;
    SpaceCount const space = for_each_candidate(round_, [&](Candidate const& c) {
      enter(c);
      if (family->over)
        ++count_.left_out;
      else
        visit_(c, cost(c, *family));
    });
    count_.space.legal += space.legal, count_.space.illegal += space.illegal;
  }

  PlanCost const* cost(Candidate const& c, Family& family) {
    PlanCost const* const cost = coster_.cost(c);
    if (!cost) return nullptr;
    if (!family.costed) family.micro_batch = c.micro_batch, family.pass_ms = coster_.pass_ms();
    family.costed = true;
    if (cost->memory_bytes > allowed_) return cost;
    family.fits = true;
    best_ms_ = std::min(best_ms_, cost->step_ms);
    return cost;
  }

  /// What is left out from the next round on.
  void judge() {
    for (auto& [key, f] : families_) {
      if (!f.costed) continue;
      f.over = !f.fits;
      if (f.last_micro_batch > 0) {
        double const sample_ms = (f.pass_ms - f.last_pass_ms) / (f.micro_batch - f.last_micro_batch);
        double const samples = static_cast<double>(round_.base.global_batch) * key.tp * key.cp;
        f.over |= least_share * samples * sample_ms / static_cast<double>(round_.devices) > best_ms_;
      }
      f.last_micro_batch = f.micro_batch, f.last_pass_ms = f.pass_ms;
      f.costed = f.fits = false;
    }
  }

  PlanRequest round_;
  PlanCoster& coster_;
  double allowed_;
  std::function<void(Candidate const&, PlanCost const*)> const& visit_;
  std::map<LayerKey, Family> families_;
  double best_ms_ = std::numeric_limits<double>::infinity();  ///< what is slower cannot win
  ScreenCount count_;
};

}  // namespace

ScreenCount for_each_cost(PlanRequest const& request, PlanCoster& coster, double allowed_bytes,
                          std::function<void(Candidate const&, PlanCost const*)> const& visit, double limit_ms) {
  return Screen(request, coster, allowed_bytes, visit, limit_ms).run();
}

}  // namespace shardbench

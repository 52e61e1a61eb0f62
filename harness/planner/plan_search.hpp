#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "harness/planner/plan.hpp"

namespace shardbench {

/// Finds the fastest of screened candidates in three steps, each dearer and closer than the one before: closed forms,
/// which are seldom above what follows; the schedule played by itself; the event simulation. A candidate takes the next
/// step when nothing else is expected to be faster, until what is left cannot win.
class PlanSearch {
 public:
  PlanSearch(PlanRequest const& request, CostModel const& model, PlanOptions const& options, PlanCoster& coster)
      : request_(request), model_(model), options_(options), coster_(coster) {}
  /// `candidates`: fastest by the closed forms first. Adds what was simulated and fits to the result, and counts what
  /// turned out to have no program.
  void run(std::vector<ScreenedPoint> candidates, PlanResult& result);

 private:
  /// What the played schedules leave out is much the same within a class.
  using Class = std::tuple<ScheduleKind, std::int8_t, bool, std::int32_t, std::int32_t>;
  struct Played {
    ScreenedPoint point;  ///< its time that of the played schedule
    std::size_t number;   ///< in the order of the closed forms
    double expected_ms;   ///< corrected by what its class has shown
  };
  struct Look {
    std::optional<PlannedPoint> point;
    std::string problem;
  };

  static Class class_of(Candidate const& c);
  static bool later(Played const& a, Played const& b);
  double expected_ms(ScreenedPoint const& s) const;
  /// Plays schedules until the fastest expected is one of the played.
  void play_until_sure();
  std::vector<ScreenedPoint> take_fastest(double best_ms, PlanResult const& result);
  std::vector<Look> simulate(std::vector<ScreenedPoint> const& now) const;
  void learn(ScreenedPoint const& s, double simulated_ms);
  bool has_twin(ScreenedPoint const& s) const;

  PlanRequest const& request_;
  CostModel const& model_;
  PlanOptions const& options_;
  PlanCoster& coster_;
  std::vector<ScreenedPoint> candidates_;
  std::size_t next_ = 0;               ///< of candidates_: those before it were played
  std::vector<Played> played_;         ///< a heap, the fastest expected at its top
  std::vector<ScreenedPoint> looked_;  ///< what was simulated
  std::size_t spare_looks_ = 0;        ///< simulated though expected to be a little slower than the best
  std::map<Class, double> ratio_;      ///< least simulated over played time seen
  std::map<std::pair<ScheduleKind, std::int8_t>, double> kind_ratio_;
  double least_ratio_ = 1;
};

}  // namespace shardbench

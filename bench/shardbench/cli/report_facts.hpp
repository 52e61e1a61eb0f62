#pragma once
#include <string>
#include <vector>

#include "harness/program/analysis/replay.hpp"
#include "harness/record/timeline.hpp"
#include "harness/report/comparison.hpp"
#include "harness/simulate/predict.hpp"

namespace shardbench {

/// What a report page shows beyond the columns of a row, as members of a JSON object; empty where there is nothing.
struct ReportFacts {
  std::string run_id;               ///< of the row that timeline and memory belong to
  std::string memory;               ///< of the fullest stage, by kind
  std::string device;               ///< its peaks
  std::vector<std::string> stages;  ///< of the timeline, one a rank or stage
  double step_ms = 0;               ///< of the timeline
  std::string what_ifs;             ///< what other hardware and other cuts would bring
  std::string comparison;           ///< configurations of two files, side by side
  /// The whole as JSON.
  std::string text() const;
};

/// A rank's part of the timeline: its runs of segments as blocks, what one of each kind is made of op by op, and when
/// it communicated along which axis.
std::string stage_fact(std::int64_t rank, StepProgram const& program, Replay const& replay,
                       std::vector<Span> const& spans, double step_ms);

/// Memory, device and timeline of a prediction.
ReportFacts facts_of(std::string const& run_id, Experiment const& experiment, Prediction const& prediction,
                     MemoryFit const& memory, SystemProfile const& system);

/// Configurations of the files a and b.
std::string comparison_fact(std::string const& a, std::string const& b, std::vector<ComparedRow> const& rows);

}  // namespace shardbench

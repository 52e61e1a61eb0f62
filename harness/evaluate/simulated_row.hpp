#pragma once
#include <vector>

#include "harness/evaluate/step_totals.hpp"
#include "harness/simulate/predict.hpp"

namespace shardbench {

/// A step as foretold: its times and what it needs as the stack runs it, and what it comes to by itself; its memory is
/// told by the fit alone.
struct PredictedStep {
  Prediction prediction;
  MemoryFit memory;
  StepTotals totals;
};
PredictedStep predict(LoweredStep const& step, CostModel const& model);

/// Times, rates, memory, traffic and place of a prediction; does not fit in memory: outcome failed, with the reason.
void set_prediction(ReportRow& row, Prediction const& prediction, MemoryFit const& memory, CostModel const& model,
                    StepTotals const& totals);

/// Time of one label on a stage: what it is, how often and how long.
struct LabelShare {
  OpLabel label;
  std::uint32_t index = 0;  ///< of the label in its program; past the last for transfers
  std::int64_t count = 0;
  double total_ms = 0;
};

/// The labels of a stage's spans, longest first.
std::vector<LabelShare> label_shares(StepProgram const& program, StageTimeline const& stage);

/// A row for each label of a prediction, merged over its stages as measured ones are over ranks, longest first: the
/// most calls on a stage, the mean time of a call, and total_ms as the mean over all stages.
std::vector<OpsRow> predicted_ops_rows(std::string const& run_id, Prediction const& prediction);

}  // namespace shardbench

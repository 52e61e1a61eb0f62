#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/shardbench/cli/commands.hpp"
#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/schedule/schedule_rules.hpp"
#include "harness/simulate/simulate.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr double forward_slots = 1, backward_slots = 2;  // the usual picture: a backward takes twice a forward
constexpr std::int64_t widest_grid = 200;
constexpr std::int64_t most_drawn = std::int64_t{1} << 16;

/// Work of one forward of a chunk, where a forward of all layers of a stage's share is 1. DualPipe's two chunks are
/// whole shares.
double chunk_unit(PipelineSchedule const& schedule) { return static_cast<double>(schedule.stages) / schedule.pieces(); }

/// A schedule program's op carries its action kind as its label.
class SlotDurations final : public DurationModel {
 public:
  explicit SlotDurations(double unit) : unit_(unit) {}
  double compute_ms(StepProgram const&, Op const& op, bool) const final {
    auto const kind = static_cast<ActionKind>(std::int32_t{op.label});
    return unit_ * (kind == ActionKind::backward ? backward_slots : forward_slots);
  }
  double collective_ms(StepProgram const&, Op const&) const final { return 0; }
  double transfer_ms(StepProgram const&, Op const&) const final { return 0; }

 private:
  double unit_;
};

std::string cell_of(std::string_view kind, std::int32_t microbatch, std::int32_t chunk, std::int32_t chunks) {
  std::string const where = chunks > 1 ? std::string(1, static_cast<char>('a' + chunk)) : std::string();
  return fmt::format("{}{}{}", kind, microbatch, where);
}

/// The words of a stage's compute spans, in their order: F forward, B backward, I input and W weight gradients.
std::vector<std::string> cells_of_stage(PipelineSchedule const& schedule, std::size_t stage) {
  std::vector<std::string> cells;
  auto const add = [&](ActionKind kind, std::int32_t microbatch, std::int32_t chunk) {
    cells.push_back(cell_of(to_string(kind), microbatch, chunk, schedule.chunks));
  };
  for (Action const& a : schedule.order[stage])
    if (a.kind == ActionKind::pair)
      add(ActionKind::forward, a.microbatch, a.chunk), add(ActionKind::backward, a.pair_microbatch, a.pair_chunk);
    else
      add(a.kind, a.microbatch, a.chunk);
  return cells;
}

/// A row of cells a stage, one cell a slot, in which a chunk runs forward; empty when it would not fit a line.
std::vector<std::string> grid_lines(PipelineSchedule const& schedule) {
  double const unit = chunk_unit(schedule);
  SimulationResult const result = simulate(schedule_programs(schedule), SlotDurations(unit));
  auto const slot = [&](double time) { return std::lround(time / unit); };
  std::int64_t const slots = slot(result.step_ms);
  std::int64_t const width = cell_of("F", schedule.microbatches - 1, 0, schedule.chunks).size() + 1;
  if (slots * width > widest_grid) return {};
  std::vector<std::string> lines;
  for (std::size_t stage = 0; stage < result.stages.size(); ++stage) {
    std::vector<Span> spans = result.stages[stage].spans;
    std::erase_if(spans, [](Span const& s) { return s.lane != Lane::compute; });
    std::ranges::stable_sort(spans, {}, &Span::start_ms);
    std::vector<std::string> const cells = cells_of_stage(schedule, stage);
    if (cells.size() != spans.size()) return {};
    std::vector<std::string> row(slots, ".");
    for (std::size_t i = 0; i < spans.size(); ++i)
      for (std::int64_t t = slot(spans[i].start_ms); t < slot(spans[i].end_ms); ++t) row[t] = cells[i];
    std::string line = fmt::format("stage {:<3}", stage);
    for (std::string const& cell : row) line += fmt::format("{:<{}}", cell, width);
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

void print_summary(PipelineSchedule const& schedule) {
  double const unit = chunk_unit(schedule);
  ScheduleSummary const summary =
      summarize_schedule(schedule, {.forward = unit, .backward_input = unit, .backward_weight = unit});
  fmt::print("step      {:g} forward times, {:g} of them work\n", summary.step, summary.ideal);
  fmt::print("bubble    {:g} ({:.2f}% of the step)", summary.bubble, 100 * summary.bubble_fraction);
  ScheduleRules const& rules = rules_of(schedule.kind);
  PipelineSize const size{static_cast<double>(schedule.stages), static_cast<double>(schedule.chunks),
                          static_cast<double>(schedule.microbatches)};
  PassTimes const stage{
      .forward = forward_slots, .backward_input = backward_slots / 2, .backward_weight = backward_slots / 2};
  if (auto const bubble = rules.bubble(size, stage))
    fmt::print("; closed form {} = {:g}", rules.bubble_formula, *bubble);
  fmt::print("\npeak      most activations held by a stage, in microbatches of a chunk: {}\n",
             fmt::join(summary.activation_peak, " "));
}

/// The schedule that is drawn; what it cannot be drawn with is refused by the rules of a cut, for layers enough.
ScheduleKind played(Experiment& e, std::int64_t microbatches) {
  if (e.cut.vpp > 1 && !e.given.contains("schedule")) e.cut.schedule = ScheduleKind::interleaved;
  ModelConfig layers;
  layers.name = "it", layers.layers = std::int64_t{1} << 40, layers.heads = layers.kv_heads = layers.ffn_hidden = 1;
  std::vector<std::string> reasons = contradictions(e);
  if (reasons.empty()) reasons = illegal_reasons(layers, e.cut);
  if (reasons.empty())
    if (std::string problem = microbatches_problem(e.cut.schedule, e.cut.pp, microbatches); !problem.empty())
      reasons.push_back(std::move(problem));
  if (!reasons.empty()) throw IllegalConfig(fmt::format("{}", fmt::join(reasons, "; ")));
  return e.cut.schedule;
}

}  // namespace

int schedule_command(Arguments const& arguments) {
  Experiment e;
  e.cut.pp = 4;
  for (auto const& [flag, text] : arguments.fields) set_field(e, flag, text);
  std::int64_t const microbatches =
      arguments.has("microbatches") ? parse_integer("microbatches", arguments.option("microbatches"), 1, 4096) : 8;
  if (e.cut.pp > 1024) throw InputError(fmt::format("--pp: {} stages given, at most 1024 are printed", e.cut.pp));
  ScheduleKind const kind = played(e, microbatches);
  std::int64_t const work = e.cut.pp * chunks_per_rank(e.cut) * microbatches;
  if (work > most_drawn)
    throw InputError(fmt::format("--microbatches: {} for {} chunks of {} stages are {} forwards, at most {} are drawn",
                                 microbatches, chunks_per_rank(e.cut), e.cut.pp, work, most_drawn));
  PipelineSchedule const schedule = make_schedule(kind, e.cut.pp, e.cut.vpp, microbatches);
  fmt::print(
      "{}: {} stage{}, {} chunk{} each, {} microbatch{}; a backward takes two forwards (input and weight gradient one "
      "each)\n\n",
      to_string(kind), schedule.stages, schedule.stages == 1 ? "" : "s", schedule.chunks,
      schedule.chunks == 1 ? "" : "s", schedule.microbatches, schedule.microbatches == 1 ? "" : "es");
  std::vector<std::string> const grid = grid_lines(schedule);
  if (grid.empty()) fmt::print("{}", to_text(schedule));
  for (std::string const& line : grid) fmt::print("{}\n", line);
  fmt::print("\n");
  print_summary(schedule);
  return 0;
}

}  // namespace shardbench

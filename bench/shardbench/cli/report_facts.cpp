#include "bench/shardbench/cli/report_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/shardbench/cli/span_ops.hpp"
#include "harness/program/analysis/count.hpp"

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

/// Communication that follows within this share of the step is drawn as one.
constexpr double joined_share = 1.0 / 3000;

double microseconds(double ms) { return std::round(1e4 * ms) / 10; }

std::string written(Json const& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// Compute of one run of a segment.
struct Block {
  double start = 0, end = 0;
  std::vector<OpSpan const*> spans;
};

std::vector<std::pair<Run const*, Block>> blocks_of(std::vector<OpSpan> const& spans) {
  std::vector<std::pair<Run const*, Block>> blocks;
  std::map<Run const*, std::size_t> known;
  for (OpSpan const& s : spans) {
    if (!s.run || s.span.lane != Lane::compute) continue;
    auto const [at, added] = known.try_emplace(s.run, blocks.size());
    if (added) blocks.push_back({s.run, {s.span.start_ms, s.span.end_ms, {}}});
    Block& block = blocks[at->second].second;
    block.end = std::max(block.end, s.span.end_ms);
    block.spans.push_back(&s);
  }
  return blocks;
}

/// name, kind, offset and duration in us, layer, bytes, FLOPs.
Json op_entry(StepProgram const& program, OpSpan const& s, double start) {
  OpLabel const& label = program.labels[s.op->label];
  OpCost const cost = op_cost(program, *s.op, s.run->adds(*s.op));
  return Json::array({label.name, to_string(label.kind), microseconds(s.span.start_ms - start),
                      microseconds(s.span.end_ms - s.span.start_ms), s.op->layer, cost.bytes, cost.flops});
}

/// Of each kind of block and chunk the ops of one, from the middle of the step.
Json ops_of_blocks(StepProgram const& program, std::vector<std::pair<Run const*, Block>> const& blocks) {
  std::map<std::string, std::vector<Block const*>> kinds;
  for (auto const& [run, block] : blocks)
    kinds[fmt::format("{}{}", to_string(run->kind), run->chunk)].push_back(&block);
  Json all = Json::object();
  for (auto const& [kind, held] : kinds) {
    Block const& middle = *held[held.size() / 2];
    Json ops = Json::array();
    for (OpSpan const* const s : middle.spans) ops.push_back(op_entry(program, *s, middle.start));
    all[kind] = std::move(ops);
  }
  return all;
}

/// Communication of one axis, joined where it follows closely: start, duration, calls, bytes and the longest op's name.
Json communication(StepProgram const& program, std::vector<OpSpan> const& spans, Lane lane, double step_ms) {
  struct Piece {
    double start = 0, end = 0, bytes = 0, longest = 0;
    std::int64_t calls = 0;
    std::string name;
  };
  std::vector<OpSpan const*> chosen;
  for (OpSpan const& s : spans)
    if (s.span.lane == lane) chosen.push_back(&s);
  std::ranges::stable_sort(chosen, {}, [](OpSpan const* s) { return s->span.start_ms; });
  std::vector<Piece> pieces;
  for (OpSpan const* const s : chosen) {
    Span const& span = s->span;
    if (pieces.empty() || span.start_ms > pieces.back().end + joined_share * step_ms)
      pieces.push_back({.start = span.start_ms, .end = span.end_ms, .name = {}});
    Piece& piece = pieces.back();
    piece.end = std::max(piece.end, span.end_ms);
    piece.calls += 1;
    if (s->op) piece.bytes += collective_payload(program, *s->op);
    double const took = span.end_ms - span.start_ms;
    if (took < piece.longest && !piece.name.empty()) continue;
    piece.longest = took;
    piece.name = s->op ? program.labels[s->op->label].name : "pipeline transfer";
  }
  Json all = Json::array();
  for (Piece const& p : pieces)
    all.push_back(Json::array({microseconds(p.start), microseconds(p.end - p.start), p.calls, p.bytes, p.name}));
  return all;
}

std::string memory_fact(MemoryFit const& m) {
  Json const parts = Json::array({{"parameters", m.parameter_bytes},
                                  {"gradients", m.gradient_bytes},
                                  {"optimizer", m.optimizer_bytes},
                                  {"activations", m.activation_bytes},
                                  {"temporaries", m.temporary_bytes},
                                  {"buffers", m.buffer_bytes},
                                  {"reserved", m.reserved_bytes}});
  Json largest = Json::array();
  for (auto const& [name, bytes] : m.largest) largest.push_back({name, bytes});
  return written(
      {{"stage", m.stage}, {"capacity_bytes", m.capacity_bytes}, {"parts", parts}, {"largest", std::move(largest)}});
}

std::string device_fact(SystemProfile const& system, Dtype precision) {
  return written({{"name", system.device.name},
                  {"peak_tflops", system.peak_tflops_of(precision)},
                  {"memory_gb_per_s", system.device.memory_gb_per_s},
                  {"memory_gb", system.device.memory_gb},
                  {"price_per_device_hour", system.price_per_device_hour}});
}

}  // namespace

std::string ReportFacts::text() const {
  std::string all = fmt::format("{{\"run_id\":{}", written(run_id));
  auto const add = [&](std::string_view name, std::string const& json) {
    if (!json.empty()) all += fmt::format(",\n\"{}\":{}", name, json);
  };
  add("memory", memory);
  add("device", device);
  add("what_ifs", what_ifs);
  add("comparison", comparison);
  if (!stages.empty())
    add("timeline", fmt::format("{{\"step_ms\":{},\"stages\":[{}]}}", step_ms, fmt::join(stages, ",\n")));
  return all + "}\n";
}

std::string stage_fact(std::int64_t rank, StepProgram const& program, Replay const& replay,
                       std::vector<Span> const& spans, double step_ms) {
  std::vector<OpSpan> const placed = spans_with_ops(program, replay, spans);
  auto const blocks = blocks_of(placed);
  Json drawn = Json::array();
  for (auto const& [run, block] : blocks)
    drawn.push_back(Json::array({microseconds(block.start), microseconds(block.end - block.start), to_string(run->kind),
                                 run->microbatch, run->chunk}));
  Json lanes = Json::object();
  for (Lane const lane : enum_values<Lane>()) {
    if (lane == Lane::compute) continue;
    Json pieces = communication(program, placed, lane, step_ms);
    if (!pieces.empty()) lanes[std::string(to_string(lane))] = std::move(pieces);
  }
  Json chunks = Json::array();
  for (Chunk const& chunk : program.chunks) chunks.push_back({chunk.first_layer, chunk.layers});
  return written({{"rank", rank},
                  {"stage", program.stage},
                  {"chunks", std::move(chunks)},
                  {"blocks", std::move(drawn)},
                  {"communication", std::move(lanes)},
                  {"ops", ops_of_blocks(program, blocks)}});
}

std::string comparison_fact(std::string const& a, std::string const& b, std::vector<ComparedRow> const& rows) {
  Json all = Json::array();
  for (ComparedRow const& r : rows)
    all.push_back(Json::array({r.configuration, r.source_a, r.source_b, r.step_ms_a, r.step_ms_b}));
  return written({{"a", a}, {"b", b}, {"rows", std::move(all)}});
}

ReportFacts facts_of(std::string const& run_id, Experiment const& experiment, Prediction const& prediction,
                     MemoryFit const& memory, SystemProfile const& system) {
  ReportFacts facts;
  facts.run_id = run_id;
  facts.memory = memory_fact(memory);
  facts.device = device_fact(system, experiment.precision);
  facts.step_ms = prediction.step_ms;
  std::vector<std::int64_t> const ranks = representative_ranks(experiment);
  for (std::size_t i = 0; i < prediction.stages.size(); ++i)
    facts.stages.push_back(stage_fact(ranks[i], prediction.stages[i].program(), prediction.stages[i].replay(),
                                      prediction.result.stages[i].spans, prediction.step_ms));
  return facts;
}

}  // namespace shardbench

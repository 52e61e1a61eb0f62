// How many layers each piece of the model has: even, with fewer at the ends, or as a layout says.
#include "harness/config/stage_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "harness/schedule/schedule_rules.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t longest_layout = std::size_t{1} << 16;  // letters, once repetitions are written out

/// Reads a layout into its letters, repetitions written out.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  std::string letters() {
    std::string all = group(0);
    if (at_ < text_.size()) fail("no ')' without its '('");
    return all;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw InputError(fmt::format("--pipeline-layout: column {}: expected {}", at_ + 1, expected));
  }

  bool take(char c) {
    while (at_ < text_.size() && (text_[at_] == ',' || text_[at_] == ' ')) ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }

  std::string unit(int depth) {
    for (char const letter : {'E', 't', 'm', 'L', '|'})
      if (take(letter)) return {letter};
    if (!take('(')) return {};
    if (depth == 16) fail("fewer than 16 '(' inside one another");
    std::string inner = group(depth + 1);
    if (!take(')')) fail("')'");
    return inner;
  }

  std::size_t count() {
    std::size_t n = 0;
    std::size_t const begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && n < longest_layout; ++at_)
      n = 10 * n + static_cast<std::size_t>(text_[at_] - '0');
    if (at_ == begin || n == 0 || n > longest_layout) fail("a number from 1 behind '*'");
    return n;
  }

  std::string group(int depth) {
    std::string all;
    for (;;) {
      std::string const one = unit(depth);
      if (one.empty()) break;
      std::size_t const times = take('*') ? count() : 1;
      if (all.size() + one.size() * times > longest_layout) fail(fmt::format("at most {} letters", longest_layout));
      for (std::size_t i = 0; i < times; ++i) all += one;
    }
    bool const closes = at_ < text_.size() && text_[at_] == ')';
    if (at_ < text_.size() && !closes) fail("E, t, m, L, '|', '(' or '*N' behind one of them");
    if (all.empty()) fail("E, t, m, L, '|' or '('");
    return all;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

/// The pieces that the first or the last stage holds.
std::vector<std::int64_t> pieces_of_stage(Cut const& c, std::int64_t stage) {
  ScheduleRules const& rules = rules_of(c.schedule);
  PipelineSchedule const shape{.kind = c.schedule,
                               .stages = static_cast<std::int32_t>(c.pp),
                               .chunks = static_cast<std::int32_t>(rules.chunks_a_stage(c.vpp)),
                               .order = {}};
  std::vector<std::int64_t> pieces;
  // Where every piece lies on two stages, the first direction says whose it is.
  for (std::int32_t chunk = 0; chunk < (rules.mirrored() ? 1 : shape.chunks); ++chunk)
    pieces.push_back(shape.piece_of({static_cast<std::int32_t>(stage), chunk}));
  return pieces;
}

/// First and last stage as asked for, the rest even.
std::vector<std::int64_t> with_given_ends(ModelConfig const& m, Cut const& c) {
  std::vector<std::int64_t> result(model_chunks(c), -1);
  std::int64_t left = m.layers;
  auto const fix = [&](char const* flag, std::int64_t layers, std::int64_t stage) {
    if (layers == 0) return;
    std::vector<std::int64_t> const pieces = pieces_of_stage(c, stage);
    if (layers % std::ssize(pieces) != 0)
      throw IllegalConfig(fmt::format("{}: {} layers do not divide over the {} chunks of a stage; legal: multiples",
                                      flag, layers, pieces.size()));
    for (std::int64_t const piece : pieces) result[piece] = layers / std::ssize(pieces);
    left -= layers;
  };
  fix("first-stage-layers", c.first_stage_layers, 0);
  fix("last-stage-layers", c.last_stage_layers, c.pp - 1);
  std::int64_t const open = std::ranges::count(result, -1);
  if (left < open || (open == 0 && left > 0))
    throw IllegalConfig(fmt::format("{}: {} of {} layers are left for {} other chunks",
                                    c.first_stage_layers > 0 ? "first-stage-layers" : "last-stage-layers", left,
                                    m.layers, open));
  if (open == 0) return result;
  std::vector<std::int64_t> const shares = split_layers(left, open);
  auto share = shares.begin();
  for (std::int64_t& layers : result)
    if (layers < 0) layers = *share++;
  return result;
}

}  // namespace

std::vector<std::int64_t> split_layers(std::int64_t layers, std::int64_t pieces, bool embedding_counts,
                                       bool head_counts) {
  bool const first = embedding_counts && pieces > 1, last = head_counts && pieces > 1;
  std::int64_t const total = layers + (first ? 1 : 0) + (last ? 1 : 0);
  if (pieces < 1 || layers < 1 || pieces > total)
    throw IllegalConfig(fmt::format("pp: {} stages for {} layers; from 1 to {} are legal", pieces, layers, total));
  std::vector<std::int64_t> result(pieces, total / pieces);
  // From the last but one backwards: the last stage holds the head, the first the embedding.
  for (std::int64_t left = total % pieces; left > 0; --left) ++result[pieces - 1 - left];
  if (first) --result.front();
  if (last) --result.back();
  return result;
}

std::vector<std::int64_t> piece_layers(ModelConfig const& m, Cut const& c) {
  if (c.first_stage_layers > 0 || c.last_stage_layers > 0) return with_given_ends(m, c);
  return split_layers(m.layers, model_chunks(c), c.embedding_slot, c.head_slot);
}

std::vector<std::int64_t> piece_layers(Experiment const& e) {
  if (e.pipeline_layout.empty()) return piece_layers(e.model, e.cut);
  std::vector<std::int64_t> layers;
  for (LayoutPiece const& piece : parse_pipeline_layout(e.pipeline_layout)) layers.push_back(piece.layers);
  return layers;
}

std::vector<LayoutPiece> parse_pipeline_layout(std::string_view text) {
  std::vector<LayoutPiece> pieces(1);
  for (char const letter : LayoutReader(text).letters()) {
    LayoutPiece& piece = pieces.back();
    bool const in_place = letter == '|'   ? true
                          : letter == 'E' ? pieces.size() == 1 && !piece.embedding && piece.layers == 0
                          : letter == 't' ? !piece.head && piece.predictions == 0
                                          : !piece.head;
    if (!in_place)
      throw InputError(fmt::format(
          "--pipeline-layout: {} in piece {}: expected E first, layers (t), then predictions (m), then L last", letter,
          pieces.size()));
    if (letter == '|')
      pieces.emplace_back();
    else if (letter == 't')
      ++piece.layers;
    else if (letter == 'm')
      ++piece.predictions;
    else
      (letter == 'E' ? piece.embedding : piece.head) = true;
  }
  if (!pieces.front().embedding || !pieces.back().head || std::ranges::count(pieces, true, &LayoutPiece::head) != 1)
    throw InputError("--pipeline-layout: expected E in the first piece and one L, in the last");
  return pieces;
}

std::string pipeline_layout_problem(Experiment const& e, std::vector<LayoutPiece> const& pieces) {
  std::int64_t layers = 0, predictions = 0;
  for (LayoutPiece const& piece : pieces) layers += piece.layers, predictions += piece.predictions;
  if (layers != e.model.layers)
    return fmt::format("pipeline-layout: {} layers (t) given, {} has {}", layers, e.model.name, e.model.layers);
  if (std::int64_t const chunks = model_chunks(e.cut); std::ssize(pieces) != chunks)
    return fmt::format("pipeline-layout: {} pieces given, pp {} with schedule {}{} has {}", pieces.size(), e.cut.pp,
                       to_string(e.cut.schedule), e.cut.vpp > 1 ? fmt::format(" and vpp {}", e.cut.vpp) : "", chunks);
  if (e.mtp > 0 && predictions != e.mtp)
    return fmt::format("pipeline-layout: {} predictions (m) given, mtp says {}", predictions, e.mtp);
  // Without prediction layers in the step an m is nobody's place, as in layouts that were written for more.
  if (e.mtp > 0 && pieces.back().predictions != e.mtp)
    return "pipeline-layout: m in another piece than L has no lowering: a prediction layer's loss needs what L's does";
  return {};
}

}  // namespace shardbench

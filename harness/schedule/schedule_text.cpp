#include <fmt/format.h>

#include <charconv>

#include "harness/schedule/actions.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

namespace shardbench {

namespace {

std::string action_text(Action const& a) {
  if (a.kind == ActionKind::pair)
    return fmt::format("F{}.{}&B{}.{}", a.chunk, a.microbatch, a.pair_chunk, a.pair_microbatch);
  std::string const text = fmt::format("{}{}.{}", to_string(a.kind), a.chunk, a.microbatch);
  return is_transfer(a) ? fmt::format("{}{}{}", text, a.boundary == Boundary::activation ? "a" : "g", a.peer) : text;
}

/// Walks one line of schedule text.
class Reader {
 public:
  Reader(std::string_view text, int line) : text_(text), line_(line) {}
  bool at_end() const { return pos_ == text_.size(); }
  bool take(std::string_view word) {
    if (!text_.substr(pos_).starts_with(word)) return false;
    pos_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("'{}'", word));
  }
  std::int32_t number() {
    std::int32_t value = 0;
    auto const [end, error] = std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) fail("a number");
    pos_ = end - text_.data();
    return value;
  }
  std::int32_t number_behind(std::string_view word) {
    expect(word);
    return number();
  }
  void place(std::int32_t& chunk, std::int32_t& microbatch) {
    chunk = number();
    microbatch = number_behind(".");
  }
  [[noreturn]] void fail(std::string_view wanted) const {
    throw InputError(fmt::format("schedule line {} column {}: expected {}", line_, pos_ + 1, wanted));
  }

 private:
  std::string_view text_;
  std::size_t pos_ = 0;
  int line_;
};

Action read_action(Reader& in) {
  // From the last one: "RECV" and "REDUCE" come behind "R", which they begin like. A pair begins as its forward.
  constexpr auto kinds = enum_values<ActionKind>();
  for (auto it = kinds.rbegin(); it != kinds.rend(); ++it) {
    ActionKind const kind = *it;
    if (kind == ActionKind::pair || !in.take(to_string(kind))) continue;
    Action a{.kind = kind};
    in.place(a.chunk, a.microbatch);
    if (is_transfer(a)) {
      if (in.take("a"))
        a.boundary = Boundary::activation;
      else if (in.take("g"))
        a.boundary = Boundary::gradient;
      else
        in.fail("'a' or 'g'");
      a.peer = in.number();
    }
    if (kind == ActionKind::forward && in.take("&")) {
      in.expect("B");
      a.kind = ActionKind::pair;
      in.place(a.pair_chunk, a.pair_microbatch);
    }
    return a;
  }
  in.fail("an action (F, I, W, B, R, GATHER, FREE, REDUCE, ADD, SEND, RECV, OPT or D)");
}

}  // namespace

std::string to_text(PipelineSchedule const& s) {
  std::string text =
      fmt::format("{} stages={} chunks={} microbatches={}\n", to_string(s.kind), s.stages, s.chunks, s.microbatches);
  for (auto const& actions : s.order) {
    std::string_view space = "";
    for (Action const& a : actions) {
      text += fmt::format("{}{}", space, action_text(a));
      space = " ";
    }
    text += '\n';
  }
  return text;
}

PipelineSchedule parse_schedule(std::string_view text) {
  PipelineSchedule s;
  int line_number = 0;
  auto const next_line = [&]() {
    auto const end = text.find('\n');
    if (end == text.npos)
      throw InputError(fmt::format("schedule line {}: missing (the header says {} stages)", line_number + 1, s.stages));
    std::string_view const line = text.substr(0, end);
    text.remove_prefix(end + 1);
    ++line_number;
    return line;
  };
  Reader header(next_line(), 1);
  bool known = false;
  for (ScheduleKind const kind : enum_values<ScheduleKind>())
    if (!known && header.take(fmt::format("{} ", to_string(kind)))) known = true, s.kind = kind;
  if (!known) header.fail("a schedule name");
  s.stages = header.number_behind("stages=");
  s.chunks = header.number_behind(" chunks=");
  s.microbatches = header.number_behind(" microbatches=");
  if (!header.at_end()) header.fail("the end of the line");
  for (std::int32_t stage = 0; stage < s.stages; ++stage) {
    Reader in(next_line(), line_number);
    auto& actions = s.order.emplace_back();
    while (!in.at_end()) {
      if (!actions.empty() && !in.take(" ")) in.fail("a space");
      Action const a = read_action(in);
      if (a.chunk >= s.chunks || a.microbatch >= s.microbatches || a.pair_chunk >= s.chunks ||
          a.pair_microbatch >= s.microbatches || a.peer >= s.stages)
        in.fail("a chunk, microbatch and peer within the header's counts");
      actions.push_back(a);
    }
  }
  if (!text.empty()) throw InputError(fmt::format("schedule line {}: more lines than stages", line_number + 1));
  return s;
}

}  // namespace shardbench

#include "bench/shardbench/jobs/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace shardbench {
namespace {

constexpr std::size_t bar_width = 24, name_width = 40;

std::string minutes(double seconds) {
  auto const whole = static_cast<std::int64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

Progress::Progress(std::FILE* stream, std::size_t points)
    : stream_(stream),
      terminal_(isatty(fileno(stream)) == 1),
      points_(points),
      start_(std::chrono::steady_clock::now()) {}

void Progress::draw(std::string const& name) {
  std::size_t const filled = points_ > 0 ? bar_width * done_ / points_ : bar_width;
  double const spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::string const left =
      done_ > 0 ? minutes(spent / static_cast<double>(done_) * static_cast<double>(points_ - done_)) + " left" : "";
  fmt::print(stream_, "\r\x1b[K[{:#<{}}{:.<{}}] {}/{} {:<10} {}", "", filled, "", bar_width - filled, done_, points_,
             left, name.substr(0, name_width));
  std::fflush(stream_);
}

void Progress::begin(std::string const& name) {
  if (terminal_) draw(name);
}

void Progress::end(std::string const& name, PointOutcome const& o) {
  ++done_;
  if (terminal_) return draw(name);
  fmt::print(stream_, "{}/{} {}: {}{}{}\n", done_, points_, name, to_string(o.outcome),
             o.step_ms ? fmt::format(", {:.2f} ms", *o.step_ms) : "",
             o.reason.empty() ? "" : fmt::format(" ({})", o.reason));
  std::fflush(stream_);
}

void Progress::finish() {
  if (terminal_) fmt::print(stream_, "\r\x1b[K");
  std::fflush(stream_);
}

}  // namespace shardbench

#include "bench/shardbench/cli/trace_file.hpp"

#include <fmt/format.h>

#include <fstream>

#include "kernels/core/error.hpp"

namespace shardbench {

std::string trace_events(int rank, StepProgram const& program, std::vector<Span> const& spans) {
  std::string text =
      fmt::format(R"json({{"ph":"M","pid":{},"name":"process_name","args":{{"name":"rank {} (stage {})"}}}})json", rank,
                  rank, program.stage);
  for (int lane = 0; lane < static_cast<int>(Lane::size_); ++lane)
    text += fmt::format(
        ",\n"
        R"json({{"ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":"{}"}}}})json",
        rank, lane, to_string(static_cast<Lane>(lane)));
  for (Span const& span : spans) {
    bool const transfer = span.label >= program.labels.size();
    std::string const name = transfer ? "pipeline transfer" : program.labels[span.label].name;
    std::string const phase = transfer ? "transfer" : program.labels[span.label].phase;
    text += fmt::format(
        ",\n"
        R"json({{"ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":"{}","cat":"{}","args":{{"microbatch":{}}}}})json",
        rank, static_cast<int>(span.lane), 1e3 * span.start_ms, 1e3 * (span.end_ms - span.start_ms), name, phase,
        span.microbatch);
  }
  return text;
}

void write_trace(std::string const& path, std::vector<std::string> const& events_by_rank) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
       << fmt::format("{}", fmt::join(events_by_rank, ",\n")) << "\n]}\n";
  file.close();
  if (!file) throw InputError(fmt::format("--trace: {} cannot be written", path));
}

}  // namespace shardbench

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "bench/kernels/kernel_bench.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/element.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench::bench {
namespace {

Device& device() {
  static std::unique_ptr<Device> const host = make_host_device();
  return *host;
}

/// One line a benchmark, in the units of the field; Google Benchmark's own would print 0.08 TFLOP/s as "80m".
class TableReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override {
    DeviceInfo const info = device().info();
    std::printf("%s (%s), kernels: %s, %s\n", info.name.c_str(), info.backend.c_str(),
                std::string(bench_kernels().name).c_str(), blas_description().c_str());
    std::printf("%-52s %12s %10s %10s\n", "benchmark", "ms", "TFLOP/s", "GB/s");
    return true;
  }
  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& run : runs) {
      if (run.error_occurred) {
        std::printf("%-52s %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        continue;
      }
      std::printf("%-52s %12.4f %10.4f %10.2f\n", run.run_name.function_name.c_str(), run.GetAdjustedRealTime(),
                  run.counters.at("TFLOP/s").value, run.counters.at("GB/s").value);
    }
    std::fflush(stdout);
  }
};

}  // namespace

std::string bench_name(std::string const& op, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  return op + '/' + model.name + "/tp" + std::to_string(tp) + '/' + std::string(to_string(dtype));
}

Buffer::Buffer(Dtype dtype, std::int64_t count)
    : data_(device().allocate(std::max<std::size_t>(static_cast<std::size_t>(count) * bytes_of(dtype), 1))) {
  // A random pattern of prime length, repeated: enough variety to time with, at the speed of a copy.
  constexpr std::int64_t pattern = 65537;
  std::int64_t const fresh = std::min(count, pattern);
  for (std::int64_t i = 0; i < fresh; ++i) {
    write_element(data_, dtype, i, 0.1 * static_cast<double>(random_normal(1, static_cast<std::uint64_t>(i))));
  }
  auto* const bytes = static_cast<std::byte*>(data_);
  std::size_t const total = static_cast<std::size_t>(count) * bytes_of(dtype);
  for (std::size_t done = static_cast<std::size_t>(fresh) * bytes_of(dtype); done < total;) {
    std::size_t const step = std::min(done, total - done);
    std::memcpy(bytes + done, bytes, step);
    done += step;
  }
}

Buffer::~Buffer() { device().deallocate(data_); }

Stream& bench_stream() {
  static std::unique_ptr<Stream> const stream = device().make_stream(StreamKind::compute);
  return *stream;
}

KernelSet const& bench_kernels() { return device().kernels(); }

}  // namespace shardbench::bench

int main(int argc, char** argv) {
  using namespace shardbench::bench;
  bool const other_format =
      std::any_of(argv, argv + argc, [](char const* flag) { return std::strstr(flag, "--benchmark_format") == flag; });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  register_gemm();
  register_attention();
  register_block_ops();
  register_flat_ops();
  register_routing();
  register_model_ops();
  TableReporter table;
  if (other_format) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    benchmark::RunSpecifiedBenchmarks(&table);
  }
  benchmark::Shutdown();
  return 0;
}

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/kernels/kernel_bench.hpp"
#include "harness/record/gpu_peaks.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/element.hpp"
#include "kernels/gemm/blas_host.hpp"

namespace shardbench::bench {
namespace {

std::string device_name = "cpu";

DeviceKind kind_of(std::string_view name) {
  for (auto const kind : {DeviceKind::cpu, DeviceKind::cuda, DeviceKind::cuda_emulated})
    if (name == to_string(kind)) return kind;
  throw InputError("--device: '" + std::string(name) + "' is not one of cpu|cuda|cuda-emulated");
}

/// Takes --device=NAME off the arguments; the others are Google Benchmark's.
void take_device(int& argc, char** argv) {
  constexpr std::string_view flag = "--device=";
  int kept = 1;
  for (int i = 1; i < argc; ++i)
    if (std::string_view const word = argv[i]; word.starts_with(flag))
      device_name = word.substr(flag.size());
    else
      argv[kept++] = argv[i];
  argc = kept;
}

/// "  61.2%" of a peak, or nothing where the peak is unknown.
std::string share(double value, double peak) {
  if (peak <= 0) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f%%", 100 * value / peak);
  return text;
}

/// One line a benchmark, in the units of the field; Google Benchmark's own would print 0.08 TFLOP/s as "80m".
class TableReporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override {
    DeviceInfo const info = bench_device().info();
    peaks_ = gpu_peaks(info.name).value_or(GpuPeaks{});
    std::printf("%s (%s), kernels: %s, %s\n", info.name.c_str(), info.backend.c_str(),
                std::string(bench_kernels().name).c_str(),
                on_host() ? blas_description().c_str() : bench_handle().versions().c_str());
    if (!peaks_.name.empty())
      std::printf("peaks: fp32 %g, bf16 %g, fp8 %g TFLOP/s, %g GB/s (%s)\n", peaks_.fp32_tflops, peaks_.bf16_tflops,
                  peaks_.fp8_tflops, peaks_.memory_gb_per_s, std::string(peaks_.source).c_str());
    std::printf("%-52s %12s %10s %10s %8s %8s\n", "benchmark", "ms", "TFLOP/s", "GB/s", "of peak", "of mem.");
    return true;
  }
  void ReportRuns(std::vector<Run> const& runs) override {
    for (Run const& run : runs) {
      if (run.error_occurred) {
        std::printf("%-52s %s\n", run.benchmark_name().c_str(), run.error_message.c_str());
        continue;
      }
      std::string const& name = run.run_name.function_name;
      double const tflops = run.counters.at("TFLOP/s").value, gb_per_s = run.counters.at("GB/s").value;
      std::printf("%-52s %12.4f %10.4f %10.2f %8s %8s\n", name.c_str(), run.GetAdjustedRealTime(), tflops, gb_per_s,
                  share(tflops, peak_of(name)).c_str(), share(gb_per_s, peaks_.memory_gb_per_s).c_str());
    }
    std::fflush(stdout);
  }

 private:
  double peak_of(std::string_view name) const {
    return name.ends_with("/fp32")   ? peaks_.fp32_tflops
           : name.ends_with("/bf16") ? peaks_.bf16_tflops
                                     : peaks_.fp8_tflops;
  }
  GpuPeaks peaks_;
};

}  // namespace

DeviceHandle const& bench_handle() {
  static DeviceHandle const handle = DeviceHandle::open(kind_of(device_name), 0);
  return handle;
}

Device& bench_device() { return bench_handle().device(); }
bool on_host() { return bench_handle().is_host(); }

std::int64_t gemm_tokens(ModelShape const& model) { return on_host() ? model.host_tokens : 8192; }
std::int64_t attention_seq(ModelShape const& model) { return on_host() ? model.host_seq : 4096; }

std::string bench_name(std::string const& op, std::string const& shape, Dtype dtype) {
  return op + '/' + shape + '/' + std::string(to_string(dtype));
}

std::string bench_name(std::string const& op, ModelShape const& model, std::int64_t tp, Dtype dtype) {
  return bench_name(op, std::string(model.name) + "/tp" + std::to_string(tp), dtype);
}

Buffer::Buffer(Dtype dtype, std::int64_t count)
    : data_(bench_device().allocate(std::max<std::size_t>(count * bytes_of(dtype), 1))) {
  // A random pattern of prime length, repeated: enough variety to time with, at the speed of a copy.
  constexpr std::int64_t pattern = 65537;
  std::int64_t const fresh = std::min(count, pattern);
  std::size_t const fresh_bytes = fresh * bytes_of(dtype);
  std::vector<std::byte> values(fresh_bytes);
  for (std::int64_t i = 0; i < fresh; ++i) {
    write_element(values.data(), dtype, i, 0.1 * static_cast<double>(random_normal(1, static_cast<std::uint64_t>(i))));
  }
  bench_device().copy_from_host(data_, values.data(), fresh_bytes, bench_stream());
  auto* const bytes = static_cast<std::byte*>(data_);
  std::size_t const total = count * bytes_of(dtype);
  for (std::size_t done = fresh_bytes; done < total;) {
    std::size_t const step = std::min(done, total - done);
    bench_device().copy(bytes + done, bytes, step, bench_stream());
    done += step;
  }
  bench_stream().synchronize();
}

Buffer::Buffer(std::vector<std::int32_t> const& values)
    : data_(bench_device().allocate(values.size() * sizeof(std::int32_t))) {
  bench_device().copy_from_host(data_, values.data(), values.size() * sizeof(std::int32_t), bench_stream());
  bench_stream().synchronize();
}

Buffer::~Buffer() { bench_device().deallocate(data_); }

Stream& bench_stream() {
  static std::unique_ptr<Stream> const stream = bench_device().make_stream(StreamKind::compute);
  return *stream;
}

KernelSet const& bench_kernels() { return bench_device().kernels(); }

}  // namespace shardbench::bench

namespace {

void run_all(int argc, char** argv) {
  using namespace shardbench::bench;
  bool const other_format =
      std::any_of(argv, argv + argc, [](char const* flag) { return std::strstr(flag, "--benchmark_format") == flag; });
  static_cast<void>(bench_handle());
  register_gemm();
  register_attention();
  register_block_ops();
  register_flat_ops();
  register_routing();
  register_model_ops();
  register_vision_ops();
  TableReporter table;
  if (other_format) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    benchmark::RunSpecifiedBenchmarks(&table);
  }
}

}  // namespace

int main(int argc, char** argv) {
  shardbench::bench::take_device(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  try {
    run_all(argc, argv);
  } catch (shardbench::InputError const& error) {
    std::fprintf(stderr, "bench_kernels: %s\n", error.what());
    return 2;
  }
  benchmark::Shutdown();
  return 0;
}

// Message-size sweep of every call of a communicator: scripts/mpirun.sh 4 build/bin/bench_collectives
// --largest=SIZE (64M): the largest payload. Rank 0 reports; a time is that of the slowest rank; GB/s are decimal (1e9
// bytes) and those of the median call.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/comm/bus_bandwidth.hpp"
#include "harness/comm/communicator.hpp"
#include "harness/config/experiment.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

// What every benchmark of this process shares: set before any runs.
struct Setup {
  std::unique_ptr<Communicator> group;
  InlineStream stream;
  std::size_t ranks() const { return group->size(); }
};

Setup& setup() {
  static Setup shared;
  return shared;
}

// Small integers: a sum over ranks is exact, so a wrong element is a wrong element and no rounding.
float value_of(std::size_t rank, std::size_t i) { return static_cast<float>((i * 7 + rank * 3) % 61); }

float sum_over_ranks(std::size_t ranks, std::size_t i) {
  float sum = 0;
  for (std::size_t r = 0; r < ranks; ++r) sum += value_of(r, i);
  return sum;
}

// One call on buffers of `payload` elements in all; `shard` is a rank's part.
class Exchange {
 public:
  Exchange(CommCall call, std::size_t payload)
      : call_(call), ranks_(setup().ranks()), rank_(setup().group->rank()), shard_(payload / ranks_) {
    bool const gathers = call == CommCall::all_gather,
               whole = call == CommCall::all_reduce || call == CommCall::broadcast;
    input_.resize(gathers ? shard_ : payload);
    output_.resize(whole ? 0 : call == CommCall::reduce_scatter ? shard_ : payload);
  }

  void fill() {
    for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = value_of(rank_, i);
    std::fill(output_.begin(), output_.end(), -1.0f);
  }

  void run() {
    Communicator& group = *setup().group;
    Stream& stream = setup().stream;
    switch (call_) {
      case CommCall::all_reduce:
        return group.all_reduce(view(input_), ReduceOp::sum, stream);
      case CommCall::reduce_scatter:
        return group.reduce_scatter(view(input_), view(output_), stream);
      case CommCall::all_gather:
        return group.all_gather(view(input_), view(output_), stream);
      case CommCall::all_to_all: {
        std::vector<std::size_t> const counts(ranks_, shard_);
        return group.all_to_all(view(input_), counts, view(output_), counts, stream);
      }
      case CommCall::broadcast:
        return group.broadcast(view(input_), 0, stream);
      case CommCall::send_receive:
        return pass_on();
      case CommCall::size_:
        break;
    }
  }

  std::size_t wrong_elements() const {
    auto const& result = output_.empty() ? input_ : output_;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < result.size(); ++i) wrong += result[i] != expected(i);
    return wrong;
  }

 private:
  static BufferView view(std::vector<float>& values) { return {values.data(), values.size(), Dtype::f32}; }

  // Rank 2k sends to rank 2k+1; a last rank without a partner looks on.
  void pass_on() {
    int const me = static_cast<int>(rank_);
    if (rank_ % 2 == 1)
      setup().group->receive(view(output_), me - 1, 0, setup().stream);
    else if (rank_ + 1 < ranks_)
      setup().group->send(view(input_), me + 1, 0, setup().stream);
  }

  float expected(std::size_t i) const {
    switch (call_) {
      case CommCall::all_reduce:
        return sum_over_ranks(ranks_, i);
      case CommCall::reduce_scatter:
        return sum_over_ranks(ranks_, rank_ * shard_ + i);
      case CommCall::all_gather:
        return value_of(i / shard_, i % shard_);
      case CommCall::all_to_all:
        return value_of(i / shard_, rank_ * shard_ + i % shard_);
      case CommCall::broadcast:
        return value_of(0, i);
      case CommCall::send_receive:
        return rank_ % 2 == 1 ? value_of(rank_ - 1, i) : -1.0f;
      case CommCall::size_:
        break;
    }
    return 0;
  }

  CommCall call_;
  std::size_t ranks_, rank_, shard_;
  std::vector<float> input_, output_;
};

double seconds_of(Exchange& exchange) {
  setup().group->barrier();
  auto const start = std::chrono::steady_clock::now();
  exchange.run();
  std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - start;
  double slowest = elapsed.count();
  setup().group->all_reduce({&slowest, 1, Dtype::f64}, ReduceOp::max, setup().stream);
  return slowest;
}

void measure(benchmark::State& state, CommCall call, std::size_t payload_elements) {
  Exchange exchange(call, payload_elements);
  exchange.fill();
  exchange.run();  // the first call sets up connections and pages
  std::vector<double> times;
  for (auto _ : state) {
    exchange.fill();
    times.push_back(seconds_of(exchange));
    state.SetIterationTime(times.back());
  }
  // Rates are those of the median call: the mean that the library prints follows every hiccup of a shared machine.
  auto const middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  double wrong = static_cast<double>(exchange.wrong_elements());
  setup().group->all_reduce({&wrong, 1, Dtype::f64}, ReduceOp::sum, setup().stream);
  double const bytes = static_cast<double>(payload_elements * sizeof(float));
  state.counters["median_us"] = *middle * 1e6;
  state.counters["algbw_GB/s"] = algbw_gb_per_s(bytes, *middle);
  state.counters["busbw_GB/s"] = busbw_gb_per_s(call, setup().group->size(), bytes, *middle);
  state.counters["wrong"] = wrong;
  if (wrong > 0) state.SkipWithError("wrong elements");
}

// Iterations are fixed: chosen by the library they would differ between ranks, and a collective would hang.
void register_sweep(std::size_t largest_bytes) {
  for (CommCall const call : enum_values<CommCall>())
    for (std::size_t bytes = 256; bytes <= largest_bytes; bytes *= 4) {
      std::size_t const elements = std::max(bytes / sizeof(float) / setup().ranks(), std::size_t{1}) * setup().ranks();
      std::string const name = fmt::format("{}/bytes:{}", to_string(call), elements * sizeof(float));
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { measure(state, call, elements); })
          ->Iterations(bytes <= 65536     ? 200
                       : bytes <= 4194304 ? 30
                                          : 5)
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
}

/// Takes `--largest SIZE` ("64M", the default) out of the arguments: the largest payload of the sweep.
std::int64_t take_largest(int& argc, char** argv) {
  constexpr std::string_view flag = "--largest=";
  std::int64_t largest = std::int64_t{64} << 20;
  char** const end = std::remove_if(argv + 1, argv + argc, [&](std::string_view word) {
    if (!word.starts_with(flag)) return false;
    largest = parse_bytes("largest", word.substr(flag.size()));
    return true;
  });
  argc = static_cast<int>(end - argv);
  return largest;
}

class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) final { return true; }
  void ReportRuns(std::vector<Run> const&) final {}
};

}  // namespace
}  // namespace shardbench

int main(int argc, char** argv) {
  using namespace shardbench;
  MpiProcess mpi(&argc, &argv);
  setup().group = make_mpi_communicator();
  std::int64_t largest = 0;
  try {
    largest = take_largest(argc, argv);
  } catch (InputError const& problem) {
    fmt::print(stderr, "bench_collectives: {}\n", problem.what());
    MpiProcess::abort(2);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) MpiProcess::abort(2);
  benchmark::AddCustomContext("ranks", std::to_string(setup().group->size()));
  benchmark::AddCustomContext("mpi", std::string(MpiProcess::library_version()));
  register_sweep(static_cast<std::size_t>(largest));
  Silent silent;
  if (setup().group->rank() == 0)
    benchmark::RunSpecifiedBenchmarks();
  else
    benchmark::RunSpecifiedBenchmarks(&silent);
  setup().group.reset();
  benchmark::Shutdown();
}

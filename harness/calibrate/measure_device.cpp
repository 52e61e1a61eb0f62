#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/calibrate/machine.hpp"
#include "harness/calibrate/median.hpp"
#include "harness/calibrate/stopwatch.hpp"
#include "kernels/core/arena.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

struct Product {
  std::int64_t m, n, k;
};

/// Shard shapes of layers of width h over some tokens: square, wide, deep and narrow ones.
std::vector<Product> product_grid(std::int64_t h, std::vector<std::int64_t> const& tokens) {
  std::vector<Product> grid;
  for (std::int64_t const t : tokens) {
    grid.insert(grid.end(), {{t, h, h}, {t, 3 * h, h}, {t, 4 * h, h}, {t, h, 4 * h}, {t, h / 2, h}, {t, h, h / 2}});
    grid.insert(grid.end(), {{t, 2 * h, h}, {t, h, 2 * h}, {h, h, t}, {4 * h, h, t}, {h, h / 2, t}});
  }
  return grid;
}

class DeviceMeter : Meter {
 public:
  using Meter::Meter;

  void run() {
    bool const host = device_.info().backend != "cuda";
    measure_launch();
    measure_copy(host ? std::size_t{64} << 20 : std::size_t{1} << 30);
    std::vector<Product> const grid = host ? product_grid(768, {32, 128, 512}) : product_grid(4096, {128, 1024, 8192});
    for (Product const& p : grid) measure_product(p);
  }

 private:
  void measure_launch() {
    Arena arena(device_, 4096);
    auto* const x = static_cast<float*>(arena.at(0));
    device_.fill_bytes(x, 0, 4096, *stream_);
    AddArgs const args{.a = x, .b = x, .out = x, .count = 1};
    out_.launch_us = time_us(*stream_, agree_, [&] { device_.kernels().add(*stream_, args); });
  }

  void measure_copy(std::size_t bytes) {
    Arena arena(device_, 2 * bytes);
    device_.fill_bytes(arena.at(0), 1, 2 * bytes, *stream_);
    double const us = time_us(*stream_, agree_, [&] { device_.copy(arena.at(bytes), arena.at(0), bytes, *stream_); });
    out_.copy_gb_per_s = 2 * static_cast<double>(bytes) / us / 1e3;
  }

  void measure_product(Product const& p) {
    auto const element = static_cast<std::int64_t>(bytes_of(options_.precision));
    std::int64_t const a = p.m * p.k * element, b = p.k * p.n * element, c = p.m * p.n * element;
    auto const up = [](std::int64_t bytes) { return (bytes + 255) / 256 * 256; };
    Arena arena(device_, up(a) + up(b) + up(c));
    device_.fill_bytes(arena.at(0), 0, up(a) + up(b) + up(c), *stream_);
    GemmArgs args;
    args.a = arena.at(0), args.b = arena.at(up(a)), args.c = arena.at(up(a) + up(b));
    args.m = p.m, args.n = p.n, args.k = p.k;
    // Weights lie as [outputs, inputs], as in a forward pass.
    args.lda = p.k, args.ldb = p.k, args.ldc = p.n, args.transpose_b = true;
    args.input_dtype = options_.precision, args.output_dtype = options_.precision;
    double const us = time_us(*stream_, agree_, [&] { device_.kernels().gemm(*stream_, args); });
    out_.gemm.push_back({static_cast<double>(p.m), static_cast<double>(p.n), static_cast<double>(p.k), us});
  }
};

}  // namespace

RankAgreement::RankAgreement(Communicator& world)
    : world_(world), host_(make_host_device()), stream_(host_->make_stream(StreamKind::compute)) {}

double RankAgreement::reduce(double value, ReduceOp op) {
  world_.all_reduce({&value, 1, Dtype::f64}, op, *stream_);
  return value;
}

double elapsed_us(Stream& stream, RankAgreement& agree, std::function<void()> const& work) {
  agree.barrier();
  auto const start = std::chrono::steady_clock::now();
  work();
  stream.synchronize();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

double time_us(Stream& stream, RankAgreement& agree, std::function<void()> const& work) {
  constexpr double least_sample_us = 3000;
  constexpr int samples = 5;
  auto const timed = [&](int repeats) {
    return elapsed_us(stream, agree, [&] {
      for (int i = 0; i < repeats; ++i) work();
    });
  };
  timed(1);
  double const once = agree.maximum(timed(1));
  int const repeats = static_cast<int>(std::clamp(std::ceil(least_sample_us / std::max(once, 0.1)), 1.0, 1000.0));
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(agree.mean(timed(repeats)) / repeats);
  return median(std::move(times));
}

void measure_device(Device& device, RankAgreement& agree, CalibrationOptions const& options, MachineMeasurement& out) {
  DeviceInfo const info = device.info();
  out.device = info.name, out.backend = info.backend, out.memory_bytes = info.memory_bytes;
  out.precision = options.precision, out.ranks = agree.ranks(), out.ranks_per_host = options.ranks_per_host;
  DeviceMeter(device, StreamKind::compute, agree, options, out).run();
}

}  // namespace shardbench

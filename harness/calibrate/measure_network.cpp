
#include <algorithm>
#include <cmath>
#include <numeric>

#include "harness/calibrate/machine.hpp"
#include "harness/calibrate/median.hpp"
#include "harness/calibrate/stopwatch.hpp"
#include "kernels/core/arena.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

// Transports change their ways at some sizes: steps of 2 keep what is told between two points near what is there.
constexpr double least_bytes = 1024, size_step = 2;
constexpr double warm_up_bytes = 4e6, batch_us = 5000, long_us = 5e4;
constexpr OpKind collectives[] = {OpKind::all_reduce, OpKind::reduce_scatter, OpKind::all_gather, OpKind::all_to_all,
                                  OpKind::send};

/// One call on buffers of `bytes` in all; works on a queue as a step's communication does. A message goes there and
/// back: a sender alone would not see it arrive.
class Call {
 public:
  Call(Device& device, Stream& stream, Communicator& group, OpKind kind, double bytes)
      : stream_(stream),
        group_(group),
        kind_(kind),
        ranks_(group.size()),
        count_(std::max<std::size_t>(static_cast<std::size_t>(bytes / 4) / ranks_, 1) * ranks_),
        from_(device, count_ * 4),
        to_(device, count_ * 4),
        shares_(ranks_, count_ / ranks_) {
    device.fill_bytes(from_.at(0), 0, count_ * 4, stream);
    device.fill_bytes(to_.at(0), 0, count_ * 4, stream);
    stream.synchronize();
  }

  double bytes() const { return static_cast<double>(count_ * 4); }
  /// Of the measured operation in a call.
  int times() const { return kind_ == OpKind::send ? 2 : 1; }
  /// Enqueues the call.
  void start() {
    stream_.submit([this] { call(); });
  }

 private:
  void call() {
    BufferView const from{from_.at(0), count_, Dtype::f32}, to{to_.at(0), count_, Dtype::f32};
    BufferView const from_share{from_.at(0), count_ / ranks_, Dtype::f32},
        to_share{to_.at(0), count_ / ranks_, Dtype::f32};
    int const me = group_.rank();
    switch (kind_) {
      case OpKind::all_reduce:
        return group_.all_reduce(to, ReduceOp::sum, stream_);
      case OpKind::reduce_scatter:
        return group_.reduce_scatter(from, to_share, stream_);
      case OpKind::all_gather:
        return group_.all_gather(from_share, to, stream_);
      case OpKind::all_to_all:
        return group_.all_to_all(from, shares_, to, shares_, stream_);
      default:
        // Even members send to the next one; a last one alone looks on.
        if (me % 2 == 1) return group_.receive(to, me - 1, 0, stream_), group_.send(from, me - 1, 0, stream_);
        if (me + 1 < group_.size())
          return group_.send(from, me + 1, 0, stream_), group_.receive(to, me + 1, 0, stream_);
    }
  }

  Stream& stream_;
  Communicator& group_;
  OpKind kind_;
  std::size_t ranks_, count_;
  Arena from_, to_;
  std::vector<std::size_t> shares_;
};

class NetworkMeter : Meter {
 public:
  NetworkMeter(Communicator& world, Meter meter) : Meter(std::move(meter)), world_(world) {}

  void run() {
    auto const ranks = static_cast<std::int64_t>(world_.size()),
               local = std::clamp<std::int64_t>(options_.ranks_per_host, 1, ranks);
    if (local > 1) measure_level(local == ranks ? 0 : local, local, 1, "within a host");
    if (ranks > local && ranks % local == 0) measure_level(0, ranks / local, local, "between hosts");
    measure_overlap();
  }

 private:
  /// Groups of members `stride` ranks apart, 2, 4, ... up to `most` of them.
  void measure_level(std::int64_t devices, std::int64_t most, std::int64_t stride, std::string name) {
    MeasuredLevel level{std::move(name), devices, {}};
    for (std::int64_t size = 2; size <= most; size = size < most ? std::min(2 * size, most) : most + 1) {
      if (most % size != 0) continue;
      std::int64_t const me = world_.rank(), span = size * stride;
      auto const group = world_.split(static_cast<int>(me / span * stride + me % stride), static_cast<int>(me));
      for (OpKind const kind : collectives)
        if (kind != OpKind::send || size == 2) level.curves.push_back(measure_curve(*group, kind));
    }
    out_.levels.push_back(std::move(level));
  }

  MeasuredCurve measure_curve(Communicator& group, OpKind kind) {
    MeasuredCurve curve{kind, group.size(), {}};
    double spent_us = 0;
    double const budget_us = 1e6 * options_.seconds_per_curve;
    {  // A fresh connection carries less than one that has seen large messages.
      Call call(device_, *stream_, group, kind, std::min(warm_up_bytes, options_.largest_message_bytes));
      spent_us += once_us(call) + once_us(call);
    }
    for (double bytes = least_bytes; bytes <= options_.largest_message_bytes; bytes *= size_step) {
      // The next size takes at most about size_step times as long, three calls of it.
      if (!curve.points.empty() && spent_us + 3 * size_step * curve.points.back().time_us > budget_us) break;
      Call call(device_, *stream_, group, kind, bytes);
      curve.points.push_back({call.bytes(), median_us(call, spent_us)});
    }
    return curve;
  }

  double elapsed_us(std::function<void()> const& work) { return shardbench::elapsed_us(*stream_, agree_, work); }

  double median_us(Call& call, double& spent_us) {
    double const first = once_us(call);
    auto const calls = static_cast<int>(std::clamp(batch_us / first, 2.0, 32.0));
    // Gradients travel in large messages: rather their sizes with few calls than smaller ones with many.
    auto const samples = static_cast<std::size_t>(std::clamp(1e5 / (first * calls), first > long_us ? 1.0 : 3.0, 15.0));
    std::vector<double> times;
    for (std::size_t i = 0; i < samples; ++i) times.push_back(batch(call, calls) / calls);
    spent_us += std::accumulate(times.begin(), times.end(), 0.0) * calls + first;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2] / call.times();
  }

  /// Call after call, as a step waits for each: ranks leave a barrier up to a delay of the link apart, and some calls
  /// leave ranks at different times, which the next call has to make good. Mean over the ranks.
  double batch(Call& call, int calls) {
    return agree_.mean(elapsed_us([&] {
      for (int i = 0; i < calls; ++i) {
        call.start();
        stream_->synchronize();
      }
    }));
  }

  /// From a common start to the end of the slowest rank.
  double once_us(Call& call) {
    return agree_.maximum(elapsed_us([&] { call.start(); }));
  }

  /// Products alone, all-reduces twice as long alone, then both at once: what of the products could not be hidden.
  void measure_overlap() {
    if (world_.size() < 2) return;
    constexpr std::int64_t side = 512;
    auto const compute = device_.make_stream(StreamKind::compute);
    std::size_t const bytes = side * side * bytes_of(options_.precision);
    Arena arena(device_, 3 * bytes);
    device_.fill_bytes(arena.at(0), 0, 3 * bytes, *compute);
    compute->synchronize();
    GemmArgs args;
    args.a = arena.at(0), args.b = arena.at(bytes), args.c = arena.at(2 * bytes);
    args.m = args.n = args.k = args.lda = args.ldb = args.ldc = side;
    args.input_dtype = args.output_dtype = options_.precision;
    // A communicator of its own: the ranks agree on times over the other one meanwhile.
    auto const beside = world_.split(0, world_.rank());
    Call call(device_, *stream_, *beside, OpKind::all_reduce, 4e6);
    once_us(call);
    // Long against the slices in which an operating system shares a core.
    int const calls = static_cast<int>(std::clamp(std::ceil(4e4 / once_us(call)), 1.0, 100.0));
    auto const start_calls = [&] {
      for (int i = 0; i < calls; ++i) call.start();
    };
    double const beside_us = agree_.maximum(elapsed_us(start_calls));
    auto const products = [&](int count) {
      for (int i = 0; i < count; ++i) device_.kernels().gemm(*compute, args);
      compute->synchronize();
    };
    products(2);
    double const once = elapsed_us([&] { products(1); });
    int const count = static_cast<int>(std::clamp(agree_.maximum(0.5 * beside_us / once), 1.0, 1000.0));
    std::vector<double> shares;
    for (int i = 0; i < 7; ++i) {
      double const alone = agree_.mean(elapsed_us([&] { products(count); }));
      double const both = agree_.maximum(elapsed_us([&] {
        start_calls();
        products(count);
      }));
      shares.push_back((both - beside_us) / alone);
    }
    // Above 1: they also get in each other's way. What other work of the machine put in is not cut off, but told.
    out_.overlap_slowdown = std::clamp(median(std::move(shares)), 0.0, 100.0);
  }

  Communicator& world_;
};

}  // namespace

void measure_network(Device& device, Communicator& world, RankAgreement& agree, CalibrationOptions const& options,
                     MachineMeasurement& out) {
  out.communication = world.backend();
  if (world.size() > 1) NetworkMeter(world, Meter(device, StreamKind::comm, agree, options, out)).run();
}

}  // namespace shardbench

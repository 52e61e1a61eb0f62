#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulation.hpp"
#include "harness/comm/nccl_options.hpp"
#include "harness/exec/devices.hpp"
#include "harness/exec/parity.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {

/// The GPU that these tests run on, as the build says: there is one for a real GPU too (tests/cuda_real).
inline constexpr DeviceKind tested_device = DeviceKind::SHARDBENCH_TESTED_DEVICE;

/// An emulated GPU for each rank of the job, or one real one that all share, and NCCL over them.
struct EmulatedJob {
  explicit EmulatedJob(double timeout_seconds = 60) : gpu(open()), nccl(gpu.connect(world(), timeout_seconds)) {}
  Device& device() const { return gpu.device(); }
  static DeviceHandle open() {
    if (tested_device == DeviceKind::cuda) apply(shared_gpu_environment(world().rank()));
    return DeviceHandle::open(tested_device, 0);
  }

  DeviceHandle gpu;
  std::unique_ptr<Communicator> nccl;
};

/// A small experiment that asks for the emulated GPU; samples enough for every schedule on these ranks.
inline Experiment emulated_experiment(ModelConfig const& model, Cut const& parallel, std::int64_t samples = 0) {
  Experiment e = small_experiment(model, parallel);
  e.global_batch = samples > 0 ? samples : 2 * world().size();
  e.device = tested_device;
  resolve(e);
  return e;
}

inline std::string joined(std::vector<std::string> const& lines) {
  std::string all;
  for (std::string const& line : lines) all += line + "\n";
  return all;
}

/// A step on the emulated GPU equals the unsharded one, all its ops are ordered, and nothing writes out of bounds.
inline void expect_parity(EmulatedJob const& job, Experiment const& e, int steps = 2) {
  SCOPED_TRACE(fmt::format("{}: {}", e.model.name, command_flags(e)));
  static_cast<void>(emulation::take_races());
  Runner runner(lower(e, world().rank()), job.device(), *job.nccl);
  ParityReport const report = check_parity(runner, e, job.device(), world(), steps);
  EXPECT_EQ(report.problem, "");
  EXPECT_LT(report.max_rel_error, report.tolerance) << report.worst;
  EXPECT_EQ(joined(emulation::take_races()), "");
  EXPECT_EQ(joined(emulation::find_overruns()), "");
}

}  // namespace shardbench::test

#include "bench/shardbench/job.hpp"

#include <fmt/format.h>

#include <cmath>

#include "harness/comm/launch_env.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// How long a GPU collective may stand still before the job is ended with its name.
constexpr double collective_timeout_seconds = 120;

}  // namespace

Job::Job() {
  if (MpiProcess::launched()) {
    mpi_.emplace(nullptr, nullptr);
    world_ = make_mpi_communicator();
  } else {
    world_ = make_self_communicator();
  }
  handle_ = DeviceHandle::open(DeviceKind::cpu, 0);
  host_ = make_host_device();
  stream_ = host_->make_stream(StreamKind::compute);
}

void Job::use(DeviceKind kind) {
  if (kind == DeviceKind::automatic)
    kind = device_problem(DeviceKind::cuda).empty() ? DeviceKind::cuda : DeviceKind::cpu;
  if (kind == kind_) return;
  // The emulated GPU is one device that every rank has for itself.
  DeviceHandle next = DeviceHandle::open(kind, kind == DeviceKind::cuda ? local_rank() : 0);
  device_world_.reset();
  handle_ = std::move(next);
  kind_ = kind;
  if (!handle_->is_host() && world_->size() > 1) device_world_ = handle_->connect(*world_, collective_timeout_seconds);
}

double Job::sum(double value) {
  world_->all_reduce({&value, 1, Dtype::f64}, ReduceOp::sum, *stream_);
  return value;
}

std::string Job::agree(std::string const& text) {
  double speaker = text.empty() ? -HUGE_VAL : -static_cast<double>(world_->rank());
  world_->all_reduce({&speaker, 1, Dtype::f64}, ReduceOp::max, *stream_);
  if (speaker == -HUGE_VAL) return {};
  std::string common = text;
  common.resize(400, ' ');
  world_->broadcast({common.data(), common.size(), Dtype::u8}, static_cast<int>(-speaker), *stream_);
  common.erase(common.find_last_not_of(' ') + 1);
  return common;
}

std::string Job::from_first(std::string const& text) {
  double size = static_cast<double>(text.size());
  world_->broadcast({&size, 1, Dtype::f64}, 0, *stream_);
  std::string common = text;
  common.resize(static_cast<std::size_t>(size));
  if (!common.empty()) world_->broadcast({common.data(), common.size(), Dtype::u8}, 0, *stream_);
  return common;
}

std::vector<std::string> Job::gather(std::string const& text) {
  double longest = static_cast<double>(text.size());
  world_->all_reduce({&longest, 1, Dtype::f64}, ReduceOp::max, *stream_);
  auto const width = static_cast<std::size_t>(longest) + 1;
  std::string mine = text;
  mine.resize(width, '\0');
  auto const ranks = static_cast<std::size_t>(world_->size());
  std::string all(width * ranks, '\0');
  world_->all_gather({mine.data(), width, Dtype::u8}, {all.data(), all.size(), Dtype::u8}, *stream_);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < ranks; ++r) texts.emplace_back(all.c_str() + r * width);
  return texts;
}

void check_device(DeviceKind device) {
  std::string const problem = device_problem(device);
  if (!problem.empty()) throw InputError(problem);
}

}  // namespace shardbench

#include "bench/shardbench/jobs/job.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "harness/comm/launch_env.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

/// How long a GPU collective may stand still before the job is ended with its name.
constexpr double collective_timeout_seconds = 120;
/// How long the ranks of a job without MPI wait for each other at its start.
constexpr double meeting_timeout_seconds = 120;

std::string host_name() {
  std::array<char, 256> name{};
  VALIDATE(gethostname(name.data(), name.size() - 1) == 0, "the name of this machine cannot be read");
  return name.data();
}

std::string in_words(std::string const& options) { return options.empty() ? "its own choices" : options; }

}  // namespace

Job::Job(JobOptions options) {
  if (launched_by_mpi()) {
    mpi_.emplace(nullptr, nullptr);
    world_ = make_mpi_communicator();
  } else if (auto meeting = rendezvous_of()) {
    meeting->insecure = options.insecure_rendezvous;
    world_ = make_tcp_communicator(*meeting, meeting_timeout_seconds);
  } else {
    world_ = make_self_communicator();
  }
  handle_ = DeviceHandle::open(DeviceKind::cpu, 0);
  agreement_.emplace(*world_);
  ranks_on_device_ = std::min(local_size(), world_->size());
}

DeviceKind Job::kind_for(Experiment const& e) {
  if (e.device != DeviceKind::automatic) return e.device;
  // All or none: one rank without a GPU leaves the job to the CPUs.
  return agree(device_problem(DeviceKind::cuda)).empty() ? DeviceKind::cuda : DeviceKind::cpu;
}

/// Each rank needs to know what all see, to the end that all choose, or refuse, alike.
GpuChoice Job::choose(DeviceKind kind, bool share) {
  std::string problem, mine = host_name();
  try {
    for (std::string const& gpu : visible_gpus(kind)) mine += '\n' + gpu;
  } catch (InputError const& error) {
    problem = error.what();
  }
  problem = agree(problem);
  if (!problem.empty()) throw InputError(problem);
  std::vector<RankPlace> places;
  for (std::string const& text : gather(mine)) {
    std::istringstream lines(text);
    RankPlace place;
    std::getline(lines, place.host);
    for (std::string gpu; std::getline(lines, gpu);) place.gpus.push_back(gpu);
    places.push_back(std::move(place));
  }
  return choose_gpu(places, world_->rank(), share);
}

void Job::set_nccl(Setup const& next) {
  if (nccl_setup_ && (nccl_setup_->nccl != next.nccl || nccl_setup_->share_gpu != next.share_gpu))
    throw IllegalConfig(
        fmt::format("nccl: started in this job with {}, and it reads its options once; run it by itself",
                    in_words(text_of(nccl_setup_->nccl, nccl_setup_->share_gpu))));
  nccl_setup_ = next;
  apply(nccl_environment(next.nccl));
  if (next.share_gpu) apply(shared_gpu_environment(world_->rank()));
}

void Job::use(Experiment const& e) {
  Setup const next{kind_for(e), nccl_options_of(e), e.share_gpu};
  if (std::string const flag = gpu_only_flag(e); next.device == DeviceKind::cpu && !flag.empty())
    throw InputError(fmt::format("{}: no GPU is to be had here to tell it to", flag));
  if (next != setup_) open(next);
  if (next.device == DeviceKind::cpu) return;
  std::string problem;
  try {
    handle_->choose_attention(e.attention == "auto" ? "query-blocks" : e.attention);
  } catch (IllegalConfig const& refusal) {
    problem = refusal.what();
  }
  problem = agree(problem);
  if (!problem.empty()) throw IllegalConfig(problem);
}

void Job::open(Setup const& next) {
  bool const talks = world_->size() > 1;
  if (next.device == DeviceKind::cpu) {
    device_world_.reset();
    handle_ = DeviceHandle::open(DeviceKind::cpu, 0);
    ranks_on_device_ = std::min(local_size(), world_->size());
  } else {
    GpuChoice const choice = choose(next.device, next.share_gpu);
    if (talks) set_nccl(next);
    DeviceHandle device = DeviceHandle::open(next.device, choice.ordinal);
    device_world_.reset();
    handle_ = std::move(device);
    // The emulated GPU has its memory in each process.
    ranks_on_device_ = next.device == DeviceKind::cuda ? choice.sharers : 1;
    if (talks) device_world_ = handle_->connect(*world_, collective_timeout_seconds);
  }
  setup_ = next;
}

NcclOptions nccl_options_of(Experiment const& e) {
  auto const asked = [](std::string const& text) { return text == "auto" ? std::string() : text; };
  return {asked(e.nccl_algo), asked(e.nccl_proto), static_cast<int>(e.nccl_channels)};
}

void check_device(Experiment const& e) {
  if (std::string const problem = device_problem(e.device); !problem.empty()) throw InputError(problem);
  std::string const flag = gpu_only_flag(e);
  if (flag.empty() || e.device != DeviceKind::automatic) return;
  std::string const problem = device_problem(DeviceKind::cuda);
  if (!problem.empty()) throw InputError(fmt::format("{}: needs a GPU; {}", flag, problem));
}

}  // namespace shardbench

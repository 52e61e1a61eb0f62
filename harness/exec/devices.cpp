#include "harness/exec/devices.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "harness/config/field_text.hpp"
#include "kernels/core/cuda/plugin.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

namespace {

std::filesystem::path plugin_path(DeviceKind kind) {
  std::string const name = kind == DeviceKind::cuda ? "libshardbench_cuda.so" : "libshardbench_cuda_emulated.so";
  std::error_code none;
  auto const folder = std::filesystem::read_symlink("/proc/self/exe", none).parent_path();
  for (auto const& candidate :
       {folder / name, folder.parent_path() / "lib" / name, folder.parent_path().parent_path() / "lib" / name})
    if (std::filesystem::exists(candidate, none)) return candidate;
  return {};
}

std::string no_plugin(DeviceKind kind) {
  if (kind == DeviceKind::cuda)
    return "this build has no CUDA back end (libshardbench_cuda.so; build where nvcc and NCCL are found)";
  return "this build has no emulated GPU (libshardbench_cuda_emulated.so; it is part of test builds only)";
}

/// A back end's own words less where in its source they come from, and what they mean where that is known.
std::string explain(std::string text) {
  if (auto const place = text.find(".cpp:"); place != text.npos)
    if (auto const end = text.find(": ", place); end != text.npos) text.erase(0, end + 2);
  bool const no_driver =
      text.find("cudaErrorInsufficientDriver") != text.npos || text.find("cudaErrorNoDevice") != text.npos;
  return no_driver ? fmt::format("no NVIDIA driver with a GPU is to be had here ({})", text) : text;
}

}  // namespace

/// The opened library and its functions.
struct DeviceHandle::Plugin {
  void* library = nullptr;
  MakeDeviceFunction make_device = nullptr;
  VisibleGpusFunction visible_gpus = nullptr;
  NvlinksFunction nvlinks = nullptr;
  ChooseAttentionFunction choose_attention = nullptr;
  MakeNcclCommunicatorFunction make_communicator = nullptr;
  CudaVersionsFunction versions = nullptr;

  /// Throws InputError saying why it cannot be opened.
  explicit Plugin(DeviceKind kind) {
    auto const refuse = [kind](std::string const& problem) {
      throw InputError(fmt::format("--device {}: {}", to_string(kind), problem));
    };
    auto const path = plugin_path(kind);
    if (path.empty()) refuse(no_plugin(kind));
    // Never closed: exceptions that the library throws must outlive it.
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) refuse(fmt::format("the CUDA back end cannot be opened: {}", dlerror()));
    make_device = reinterpret_cast<MakeDeviceFunction>(dlsym(library, "shardbench_make_device"));
    visible_gpus = reinterpret_cast<VisibleGpusFunction>(dlsym(library, "shardbench_visible_gpus"));
    choose_attention = reinterpret_cast<ChooseAttentionFunction>(dlsym(library, "shardbench_choose_attention"));
    nvlinks = reinterpret_cast<NvlinksFunction>(dlsym(library, "shardbench_nvlinks"));
    make_communicator =
        reinterpret_cast<MakeNcclCommunicatorFunction>(dlsym(library, "shardbench_make_nccl_communicator"));
    versions = reinterpret_cast<CudaVersionsFunction>(dlsym(library, "shardbench_cuda_versions"));
    if (!make_device || !visible_gpus || !nvlinks || !choose_attention || !make_communicator || !versions)
      refuse(fmt::format("{} is of another version", path.string()));
  }
};

DeviceHandle::DeviceHandle(DeviceHandle&&) noexcept = default;
DeviceHandle& DeviceHandle::operator=(DeviceHandle&&) noexcept = default;
DeviceHandle::~DeviceHandle() = default;

DeviceHandle DeviceHandle::open(DeviceKind kind, int ordinal) {
  DeviceHandle handle;
  if (kind == DeviceKind::automatic)
    kind = device_problem(DeviceKind::cuda).empty() ? DeviceKind::cuda : DeviceKind::cpu;
  if (kind == DeviceKind::cpu) {
    handle.device_ = make_host_device();
    return handle;
  }
  handle.plugin_ = std::make_shared<Plugin>(kind);
  std::array<char, 512> error{};
  handle.device_.reset(handle.plugin_->make_device(ordinal, error.data(), error.size()));
  if (!handle.device_) throw InputError(fmt::format("--device {}: {}", to_string(kind), explain(error.data())));
  return handle;
}

bool DeviceHandle::is_host() const { return !plugin_; }

std::unique_ptr<Communicator> DeviceHandle::connect(Communicator& host_world, double timeout_seconds) const {
  VALIDATE(plugin_, "the CPU's communicators are the host's own");
  std::array<char, 512> error{};
  std::unique_ptr<Communicator> world(
      plugin_->make_communicator(&host_world, device_.get(), timeout_seconds, error.data(), error.size()));
  VALIDATE(world, std::string(error.data()));
  return world;
}

std::string DeviceHandle::versions() const { return plugin_ ? plugin_->versions() : std::string{}; }

void DeviceHandle::choose_attention(std::string const& kernel) const {
  VALIDATE(plugin_, "the CPU has one attention kernel");
  std::array<char, 512> error{};
  if (!plugin_->choose_attention(device_.get(), kernel.c_str(), error.data(), error.size()))
    throw IllegalConfig(std::string(error.data()));
}

int DeviceHandle::nvlinks() const { return plugin_ ? plugin_->nvlinks(device_.get()) : -1; }

std::vector<std::string> visible_gpus(DeviceKind kind) {
  constexpr std::size_t most_text = 8192;
  std::string text(most_text, '\0');
  bool const told = DeviceHandle::Plugin(kind).visible_gpus(text.data(), text.size());
  text.resize(text.find('\0'));
  if (!told) throw InputError(fmt::format("--device {}: {}", to_string(kind), explain(text)));
  return text.empty() ? std::vector<std::string>{} : split_at(text, ',');
}

std::string device_problem(DeviceKind kind) {
  if (kind == DeviceKind::cpu || kind == DeviceKind::automatic) return {};
  try {
    DeviceHandle::open(kind, 0);
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

}  // namespace shardbench

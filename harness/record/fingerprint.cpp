#include "harness/record/fingerprint.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

extern char** environ;

namespace shardbench {
namespace {

namespace fs = std::filesystem;

std::string trimmed(std::string text) {
  auto const space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), space).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  return text;
}

// The text after `prefix` on the first line that has it; empty when there is none.
std::string first_line_after(fs::path const& path, std::string_view prefix) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(prefix)) return trimmed(line.substr(prefix.size()));
  return {};
}

std::string after_colon(std::string const& text) {
  auto const colon = text.find(':');
  return colon == std::string::npos ? std::string() : trimmed(text.substr(colon + 1));
}

std::optional<double> mean_clock_mhz() {
  std::ifstream file("/proc/cpuinfo");
  double sum = 0;
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu MHz")) continue;
    double const mhz = std::strtod(after_colon(line).c_str(), nullptr);
    if (mhz > 0) sum += mhz, ++count;
  }
  return count ? std::optional(sum / count) : std::nullopt;
}

int cores_available() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : std::string();
}

std::string compiler_version() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("g++ {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::vector<std::pair<std::string, std::string>> speed_variables() {
  constexpr std::string_view prefixes[] = {"NCCL_",
                                           "OMP_",
                                           "OPENBLAS_",
                                           "GLIBC_TUNABLES=",
                                           "CUDA_DEVICE_MAX_CONNECTIONS=",
                                           "CUDA_VISIBLE_DEVICES=",
                                           "CUDA_LAUNCH_BLOCKING=",
                                           "NVIDIA_TF32_OVERRIDE=",
                                           "UCX_"};
  std::vector<std::pair<std::string, std::string>> found;
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view const text = *entry;
    auto const equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    if (std::any_of(std::begin(prefixes), std::end(prefixes), [&](auto prefix) { return text.starts_with(prefix); }))
      found.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  std::sort(found.begin(), found.end());
  return found;
}

// This file sits two folders below the root of the tree; empty when the compiler was given a relative path.
fs::path source_tree() {
  fs::path const file = __FILE__;
  return file.is_absolute() ? file.parent_path().parent_path().parent_path() : fs::path();
}

bool is_commit(std::string const& text) {
  return text.size() >= 40 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c) != 0; });
}

std::string packed_reference(fs::path const& common, std::string const& reference) {
  std::ifstream file(common / "packed-refs");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string commit, name;
    if (words >> commit >> name && name == reference) return commit;
  }
  return {};
}

}  // namespace

std::string read_git_commit(fs::path const& tree) {
  std::error_code ignored;
  if (tree.empty()) return {};
  fs::path git = tree / ".git";
  if (fs::is_regular_file(git, ignored)) {  // a worktree: the file names its folder
    fs::path const target = first_line_after(git, "gitdir:");
    git = target.is_absolute() ? target : tree / target;
  }
  std::string const head = first_line_after(git / "HEAD", "");
  if (is_commit(head)) return head;
  if (!head.starts_with("ref:")) return {};
  std::string const reference = trimmed(head.substr(4));
  std::string const shared = first_line_after(git / "commondir", "");
  fs::path const common = shared.empty() ? git : git / shared;
  for (fs::path const& folder : {git, common})
    if (std::string const commit = first_line_after(folder / reference, ""); is_commit(commit)) return commit;
  std::string const packed = packed_reference(common, reference);
  return is_commit(packed) ? packed : std::string();
}

Fingerprint take_fingerprint(std::string_view blas, std::string_view mpi) {
  Fingerprint result;
  result.host = host_name();
  result.cpu_model = after_colon(first_line_after("/proc/cpuinfo", "model name"));
  result.cores = cores_available();
  result.clock_mhz = mean_clock_mhz();
  result.compiler = compiler_version();
  result.blas = blas;
  result.mpi = mpi;
  result.git_commit = read_git_commit(source_tree());
  auto const now = std::chrono::time_point_cast<std::chrono::seconds>(std::chrono::system_clock::now());
  result.time_utc = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  result.variables = speed_variables();
  return result;
}

std::string Fingerprint::versions() const {
  std::string text = compiler;
  for (std::string const* part : {&blas, &mpi})
    if (!part->empty()) text += (text.empty() ? "" : "; ") + *part;
  return text;
}

std::string Fingerprint::variables_text() const {
  std::string text;
  for (auto const& [name, value] : variables) text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

}  // namespace shardbench

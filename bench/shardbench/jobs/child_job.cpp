#include "bench/shardbench/jobs/child_job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>

#include "harness/config/field_text.hpp"
#include "harness/config/hostfile.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t kept_error_text = std::size_t{1} << 16;
constexpr double patience_seconds = 5;  // mpirun passes the signal on and waits for its ranks

volatile sig_atomic_t interrupt_flag = 0;
void on_interrupt(int) { interrupt_flag = 1; }

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{};
  VALIDATE(pipe2(ends.data(), O_CLOEXEC) == 0, fmt::format("pipe failed ({})", std::strerror(errno)));
  return ends;
}

/// The line that tells most: the program's own, else mpirun's about its arguments or a signal, else the last.
std::string telling_line(std::string const& text) {
  std::string last, own, mpirun, signal;
  for (std::string const& line : split_at(text, '\n')) {
    if (line.find_first_not_of(" -*\t") == line.npos) continue;
    last = line;
    if (line.starts_with("shardbench: ") && own.empty()) own = line.substr(12);
    if (line.starts_with("mpirun: Error: ") && mpirun.empty()) mpirun = line.substr(15);
    if (line.find("Signal: ") != line.npos && signal.empty()) signal = line.substr(line.find("Signal: "));
  }
  return !own.empty() ? own : !mpirun.empty() ? mpirun : !signal.empty() ? signal : last;
}

}  // namespace

void watch_for_interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return interrupt_flag != 0; }

ChildJob::ChildJob(Launch const& launch) {
  auto const out = make_pipe(), err = make_pipe();
  pid_ = fork();
  VALIDATE(pid_ >= 0, fmt::format("fork failed ({})", std::strerror(errno)));
  if (pid_ == 0) {
    // A group of its own: an interrupt of the terminal reaches the supervisor only, which then ends the job in order.
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int const null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO), dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL);
    try {
      become(launch);
    } catch (std::exception const& error) {
      fmt::print(stderr, "shardbench: {}\n", error.what());
      _exit(127);
    }
  }
  close(out[1]), close(err[1]);
  out_ = out[0], err_ = err[0];
}

ChildJob::~ChildJob() {
  if (!status_) stop();
  for (int const fd : {out_, err_})
    if (fd >= 0) close(fd);
}

void ChildJob::read_from(int& fd, std::string& text) {
  char buffer[4096];
  ssize_t const count = read(fd, buffer, sizeof buffer);
  if (count > 0) {
    text.append(buffer, count);
  } else if (count == 0 || errno != EINTR) {
    close(fd);
    fd = -1;
  }
  if (&text == &err_text_ && text.size() > kept_error_text) text.erase(0, text.size() - kept_error_text);
}

void ChildJob::reap(bool wait) {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, wait ? 0 : WNOHANG) == pid_) status_ = status;
}

ChildJob::Event ChildJob::next(double seconds, std::string& line) {
  double const deadline = now_seconds() + seconds;
  for (;;) {
    if (std::size_t const end = out_text_.find('\n'); end != out_text_.npos) {
      line = out_text_.substr(0, end);
      out_text_.erase(0, end + 1);
      return Event::line;
    }
    if (interrupted()) return Event::interrupted;
    if (out_ < 0 && err_ < 0) {
      reap(true);
      return Event::ended;
    }
    double const left = deadline - now_seconds();
    if (left <= 0) return Event::timeout;
    std::array<pollfd, 2> fds{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
    int const ready = poll(fds.data(), fds.size(), static_cast<int>(std::min(left, 3600.0) * 1e3) + 1);
    if (ready <= 0) continue;
    if (out_ >= 0 && fds[0].revents) read_from(out_, out_text_);
    if (err_ >= 0 && fds[1].revents) read_from(err_, err_text_);
  }
}

void ChildJob::stop() {
  kill(pid_, SIGTERM);
  double const deadline = now_seconds() + patience_seconds;
  while (!status_ && now_seconds() < deadline) {
    reap(false);
    if (!status_) usleep(20000);
  }
  if (status_) return;
  kill(-pid_, SIGKILL);
  reap(true);
}

std::string ChildJob::problem() const {
  if (!status_ || *status_ == 0) return {};
  std::string const how =
      WIFSIGNALED(*status_) ? fmt::format("ended by signal {} ({})", WTERMSIG(*status_), strsignal(WTERMSIG(*status_)))
                            : fmt::format("exit status {}", WEXITSTATUS(*status_));
  std::string const said = telling_line(err_text_);
  return said.empty() ? how : fmt::format("{} ({})", said, how);
}

namespace {

/// The hosts that arguments of mpirun name, empty when they name none. Throws InputError for what mpirun would only
/// notice when the ranks do not fit (cases L02, L03).
std::vector<Host> named_hosts(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i + 1 < arguments.size(); ++i) {
    std::string_view flag = arguments[i];
    if (flag.starts_with("--")) flag.remove_prefix(1);
    if (flag == "-hostfile" || flag == "-machinefile") return read_hostfile(arguments[i + 1]);
    if (flag == "-host" || flag == "-H") return parse_host_list(arguments[i + 1]);
  }
  return {};
}

void check_named_hosts(std::vector<std::string> const& arguments, std::int64_t ranks) {
  std::vector<Host> const hosts = named_hosts(arguments);
  bool const oversubscribes = std::ranges::any_of(arguments, [](std::string const& word) {
    return word.find("oversubscribe") != word.npos || word.find("OVERSUBSCRIBE") != word.npos;
  });
  if (!hosts.empty() && !oversubscribes) check_slots(hosts, ranks);
}

}  // namespace

void check_mpirun_arguments(std::vector<std::string> const& arguments, std::int64_t ranks) {
  if (arguments.empty()) return;
  std::string const given = in_quotes(fmt::format("{}", fmt::join(arguments, " ")));
  if (ranks <= 1)
    throw InputError(fmt::format("--mpirun-arg: {} given; one rank needs no mpirun (legal: 2 ranks and more)", given));
  check_named_hosts(arguments, ranks);
  Launch launch = launch_of(2, arguments, {});
  launch.words.back() = "true";  // instead of this program
  ChildJob job(launch);
  constexpr double patience = 60;
  std::string line;
  ChildJob::Event event = ChildJob::Event::line;
  while (event == ChildJob::Event::line) event = job.next(patience, line);
  if (event != ChildJob::Event::ended)
    throw InputError(fmt::format("--mpirun-arg: {}: mpirun did not end in {} s", given, patience));
  if (std::string const problem = job.problem(); !problem.empty())
    throw InputError(fmt::format("--mpirun-arg: {} is refused by mpirun: {}", given, problem));
}

}  // namespace shardbench

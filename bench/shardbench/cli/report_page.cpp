#include "bench/shardbench/cli/report_page.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/jobs/child_job.hpp"
#include "bench/shardbench/jobs/launcher.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

namespace fs = std::filesystem;

/// Time that making a page may take.
constexpr double page_seconds = 300;

/// A script, beside the installed program or in the sources it was built from. Throws InputError where there is none.
std::string script_path(std::string const& name) {
  fs::path const installed = fs::path(own_path()).parent_path() / "../share/shardbench/scripts" / name;
  fs::path const source = fs::path(SHARDBENCH_SCRIPTS) / name;
  for (fs::path const& path : {installed, source})
    if (std::error_code ignored; fs::is_regular_file(path, ignored)) return fs::weakly_canonical(path).string();
  throw InputError(fmt::format("--report: {} is missing; looked for {} and {}", name,
                               installed.lexically_normal().string(), source.string()));
}

/// A folder of its own, gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string path = (fs::temp_directory_path() / "shardbench-report-XXXXXX").string();
    VALIDATE(mkdtemp(path.data()), "no temporary folder can be made");
    path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;
  std::string file(std::string const& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

}  // namespace

ReportPage::ReportPage(Arguments const& arguments) {
  if (!arguments.has("report")) return;
  std::string const page = arguments.option("report");
  check_text_file("report", page, arguments.option("out"));
  python_ = find_program("python3");
  if (python_.empty()) throw InputError("--report: python3 is missing, which makes the page");
  script_ = script_path("report.py");
  title_ = fmt::format("shardbench {}", fmt::join(arguments.words, " "));
  page_ = page;
}

void ReportPage::write(std::vector<ReportRow> const& rows, std::vector<OpsRow> const& ops,
                       ReportFacts const& facts) const {
  if (!wanted()) return;
  TemporaryFolder const folder;
  std::string const file = folder.file("rows.csv");
  if (!ops.empty()) append_rows(ops_path(file), ops);
  for (ReportRow const& row : rows) append_row(file, row);
  write({file}, facts);
}

void ReportPage::write(std::vector<std::string> const& files, ReportFacts const& facts) const {
  if (!wanted()) return;
  TemporaryFolder const folder;
  write_text_file(folder.file("facts.json"), facts.text());
  Launch launch{{python_, script_}, {}};
  launch.words.insert(launch.words.end(), files.begin(), files.end());
  for (std::string const& word :
       {std::string("--facts"), folder.file("facts.json"), std::string("--out"), page_, "--made-by=" + title_})
    launch.words.push_back(word);
  ChildJob job(launch);
  std::string line;
  while (job.next(page_seconds, line) == ChildJob::Event::line) {
  }
  std::string const problem = job.problem();
  VALIDATE(problem.empty(), fmt::format("--report: {} was not made: {}", page_, problem));
  fmt::print(stderr, "shardbench: report in {}\n", page_);
}

void write_facts(Arguments const& arguments, ReportFacts const& facts) {
  if (arguments.has("facts")) write_text_file(arguments.option("facts"), facts.text());
}

}  // namespace shardbench

#include "bench/shardbench/cli/report_page.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/shardbench/cli/outputs.hpp"
#include "bench/shardbench/cli/script.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

namespace fs = std::filesystem;

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
  Script const script = find_script("report.py", "--report");
  python_ = script.python, script_ = script.path;
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
  std::vector<std::string> words = files;
  for (std::string const& word :
       {std::string("--facts"), folder.file("facts.json"), std::string("--out"), page_, "--made-by=" + title_})
    words.push_back(word);
  run_script({python_, script_}, words, "--report");
  fmt::print(stderr, "shardbench: report in {}\n", page_);
}

void write_facts(Arguments const& arguments, ReportFacts const& facts) {
  if (arguments.has("facts")) write_text_file(arguments.option("facts"), facts.text());
}

}  // namespace shardbench

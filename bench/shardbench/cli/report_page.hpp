#pragma once
#include <string>
#include <vector>

#include "bench/shardbench/cli/command_table.hpp"
#include "bench/shardbench/cli/report_facts.hpp"
#include "harness/report/report_row.hpp"

namespace shardbench {

/// The page that --report asks for, made by scripts/report.py from rows and facts.
class ReportPage {
 public:
  /// None is wanted.
  ReportPage() = default;
  /// Throws InputError where --report names a file that may not be written, or no page can be made here.
  explicit ReportPage(Arguments const& arguments);
  bool wanted() const { return !page_.empty(); }
  /// Of rows that are in memory.
  void write(std::vector<ReportRow> const& rows, std::vector<OpsRow> const& ops, ReportFacts const& facts) const;
  /// Of files of rows.
  void write(std::vector<std::string> const& files, ReportFacts const& facts) const;

 private:
  std::string page_, title_, python_, script_;
};

/// Writes what --facts asks for; nothing where it was not given.
void write_facts(Arguments const& arguments, ReportFacts const& facts);

}  // namespace shardbench

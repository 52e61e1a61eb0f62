#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/report/csv.hpp"

namespace shardbench {

/// The configuration of a row as text: the cells of every configuration column. Equal for equal configurations only.
std::string configuration_key(ReportRow const& row);
/// The same of a row read back. A column that came after the file was written is told from the row's command. Throws
/// InputError naming the first other configuration column that the file lacks.
std::string configuration_key(CsvTable const& table, std::size_t row);

/// One configuration found in both files.
struct ComparedRow {
  std::string configuration;  ///< "gpt2 layers=4 dp=2 ...": model, and the cells that vary between the compared rows
  std::string source_a, source_b;
  double step_ms_a = 0, step_ms_b = 0;
  double ratio = 0;  ///< b / a: below 1, b is faster
  /// Whether they are further apart than their repeats scatter; empty where a file does not say how far that is.
  std::optional<bool> differs;
};

/// Rows of A and B joined by configuration. Rows of one source also agree in what only an execution knows (seed, NCCL
/// options ...); predictions are of every value of these. Where a configuration has rows of the same source in both
/// files only those are compared, else every source of A with every one of B; and so with rows of the same place
/// (system, stack, device). Of several rows alike in all of this the last counts.
struct Comparison {
  std::vector<ComparedRow> rows;  ///< in the order of A
  std::size_t only_in_a = 0;      ///< rows with a step time in A that meet none of B
  std::size_t only_in_b = 0;      ///< the other way round
  std::size_t repeated_in_a = 0;  ///< rows of A that a later one of the same configuration, source and place replaced
  std::size_t repeated_in_b = 0;  ///< of B
  std::size_t without_time = 0;   ///< rows of both that have no step time
};

/// Throws InputError when a file lacks a needed column, a step time is no positive number, or an outcome or a source is
/// none that there is.
Comparison compare(CsvTable const& a, CsvTable const& b);

}  // namespace shardbench

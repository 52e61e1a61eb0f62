#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "harness/report/csv.hpp"

namespace shardbench {

/// The configuration of a row as text: the cells of every configuration column. Equal for equal configurations only.
std::string configuration_key(ReportRow const& row);
/// The same of a row read back. Throws InputError naming the first configuration column that the file lacks.
std::string configuration_key(CsvTable const& table, std::size_t row);

/// One configuration found in both files.
struct ComparedRow {
  std::string configuration;  ///< "gpt2 layers=4 dp=2 ...": model, and the cells that vary between the compared rows
  std::string source_a, source_b;
  double step_ms_a = 0, step_ms_b = 0;
  double ratio = 0;  ///< b / a: below 1, b is faster
};

/// Rows of A and B joined by configuration; of several rows of one configuration and source the last counts. Where both
/// files have rows of the same source only those are compared, else every source of A with every one of B.
struct Comparison {
  std::vector<ComparedRow> rows;  ///< in the order of A
  std::size_t only_in_a = 0;      ///< configurations with a step time in A and none in B
  std::size_t only_in_b = 0;
};

/// Throws InputError when a file lacks a needed column or a step time is no positive number.
Comparison compare(CsvTable const& a, CsvTable const& b);

}  // namespace shardbench

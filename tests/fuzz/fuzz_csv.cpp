// What reads as a table writes and reads back unchanged, and compares with itself or is refused.
#include "harness/report/comparison.hpp"
#include "harness/report/csv.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    CsvTable const table = parse_csv(text, "fuzz");
    std::string written = csv_line(table.header);
    for (CsvRecord const& row : table.rows) {
      fuzz::require(row.size() == table.header.size(), "rows are as wide as the header");
      written += csv_line(row);
    }
    CsvTable const again = parse_csv(written, "again");
    fuzz::require(again.header == table.header && again.rows == table.rows, "a written table reads back unchanged");
    compare(table, table);
  });
  return 0;
}

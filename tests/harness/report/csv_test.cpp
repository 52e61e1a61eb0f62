#include "harness/report/csv.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "harness/report/columns.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

namespace fs = std::filesystem;

class CsvFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("shardbench-csv-{}", getpid());
    fs::create_directories(folder_);
    path_ = (folder_ / "rows.csv").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string content() const {
    std::stringstream buffer;
    buffer << std::ifstream(path_).rdbuf();
    return buffer.str();
  }
  void put(std::string_view text) const { std::ofstream(path_, std::ios::binary) << text; }

  fs::path folder_;
  std::string path_;
};

std::string message_of(auto&& action) {
  try {
    action();
  } catch (InputError const& error) {
    return error.what();
  }
  return "no InputError";
}

TEST(Csv, ReadsWhatTheStandardAllows) {
  auto const table = parse_csv(
      "\xef\xbb\xbf"
      "a,b\r\n1,\"x,\"\"y\"\"\r\nz\"\r\n,\r\n\"\",last",
      "t");
  EXPECT_EQ(table.header, (CsvRecord{"a", "b"}));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[0], (CsvRecord{"1", "x,\"y\"\r\nz"}));
  EXPECT_EQ(table.rows[1], (CsvRecord{"", ""}));
  EXPECT_EQ(table.rows[2], (CsvRecord{"", "last"}));
  EXPECT_EQ(table.column("b"), 1u);
  EXPECT_FALSE(table.find_column("c").has_value());
}

TEST(Csv, RefusalsNameTheLine) {
  struct Case {
    std::string text, expected;
  };
  for (auto const& [text, expected] : {
           Case{"", "t:1: empty"},
           Case{"a,a\n", "t:1: the header names column 'a' twice"},
           Case{"a,,b\n", "t:1: the header has an empty column name"},
           Case{"a,b\n1,2\n3\n", "t:3: 1 cells, the header has 2"},
           Case{"a,b\n1,2,3\n", "t:2: 3 cells, the header has 2"},
           Case{"a,b\n\n", "t:2: 1 cells, the header has 2"},
           Case{"a\n1\n\"open\n\n", "t:3: a quote is opened and never closed"},
           Case{"a\n\"x\"y\n", "t:2: text after a closing quote"},
           Case{"a\nx\"y\n", "t:2: a quote inside a cell"},
           Case{std::string("a\nx\0y\n", 6), "t:2: a NUL byte"},
           Case{std::string("a\n\"\n\0\"\n", 7), "t:3: a NUL byte"},
       }) {
    std::string const message = message_of([&csv = text] { parse_csv(csv, "t"); });
    EXPECT_TRUE(message.starts_with(expected)) << "got: " << message << ", expected: " << expected;
  }
  std::string const missing = message_of([] { parse_csv("a\n", "t").column("zz"); });
  EXPECT_EQ(missing, "t: no column 'zz' in its header");
}

TEST(Csv, AnyCellsReadBackUnchanged) {
  std::mt19937 random(7);
  constexpr std::string_view alphabet = "a,\"\n\r;' \t1.\xc3\xa9=";
  std::uniform_int_distribution<std::size_t> letter(0, alphabet.size() - 1), length(0, 9);
  for (int round = 0; round < 500; ++round) {
    std::size_t const width = 1 + length(random) % 4;
    std::string text;
    std::vector<CsvRecord> records(1);
    for (std::size_t i = 0; i < width; ++i) records[0].push_back(fmt::format("h{}", i));
    for (int r = 0; r < 4; ++r) {
      CsvRecord& record = records.emplace_back(width);
      for (auto& cell : record)
        for (std::size_t n = length(random); n-- > 0;) cell += alphabet[letter(random)];
    }
    for (auto const& record : records) text += csv_line(record);
    auto const table = parse_csv(text, "t");
    ASSERT_EQ(table.header, records[0]);
    ASSERT_EQ(table.rows, (std::vector<CsvRecord>(records.begin() + 1, records.end()))) << text;
  }
}

TEST_F(CsvFile, RowsAreAppendedUnderOneHeaderAndReadBack) {
  ReportRow row;
  row.run_id = "1";
  row.reason = "tp 3 does not divide 16 heads, legal: \"1, 2\"\nand 4";
  row.step_ms_p50 = 12.25;
  check_report_writable(path_);
  EXPECT_FALSE(fs::exists(path_)) << "a check leaves nothing behind";
  append_row(path_, row);
  row.run_id = "2";
  row.step_ms_p50.reset();
  check_report_writable(path_);
  append_row(path_, row);
  auto const table = read_csv(path_);
  EXPECT_EQ(table.header, header_of(report_columns()));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0], ([&] {
              row.run_id = "1";
              row.step_ms_p50 = 12.25;
              return cells_of(report_columns(), row);
            }()));
  EXPECT_EQ(table.rows[1][table.column("run_id")], "2");
  EXPECT_EQ(table.rows[1][table.column("step_ms_p50")], "");
  EXPECT_EQ(table.rows[1][table.column("reason")], row.reason);
}

TEST_F(CsvFile, OpsRowsComeTogether) {
  OpsRow op;
  op.run_id = "r";
  op.label = "layer/mlp.up/forward";
  op.count = 8;
  op.p50_us = 12.5;
  check_ops_writable(path_);
  append_rows(path_, std::vector{op, op, op});
  auto const table = read_csv(path_);
  EXPECT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.rows[2][table.column("p50_us")], "12.5");
  EXPECT_EQ(table.rows[2][table.column("flops")], "");
}

TEST_F(CsvFile, AnotherHeaderIsRefusedNamingTheColumn) {
  CsvRecord const header{"a", "b"};
  std::vector<CsvRecord> const records{{"1", "2"}};
  struct Case {
    std::string content, expected;
  };
  for (auto const& [text, expected] :
       {Case{"a,c\n", "its column 2 is 'c', expected 'b'"}, Case{"a\n", "its header ends before column 'b'"},
        Case{"a,b,c\n", "its header has a further column 'c'"}, Case{"a,b", "written another way"},
        Case{"a,\"b\"\n", "written another way"}, Case{"\"\n", "no CSV header"},
        Case{"a,b\n1,2\n3,", "ends in the middle of a row"}}) {
    put(text);
    for (auto const& message : {message_of([&] { check_writable(path_, header); }),
                                message_of([&] { append_records(path_, header, records); })}) {
      EXPECT_NE(message.find(expected), std::string::npos) << "got: " << message << ", expected: " << expected;
      EXPECT_NE(message.find(path_), std::string::npos) << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << "one line";
    }
    EXPECT_EQ(content(), text) << "a refused file stays as it was";
  }
}

TEST_F(CsvFile, UnwritablePathsAreRefused) {
  for (std::string const& path :
       {std::string(), folder_.string(), (folder_ / "none" / "f.csv").string(), std::string("/proc/f.csv"),
        std::string("/dev/null"), (folder_ / "none" / "").string()}) {
    EXPECT_THROW(check_report_writable(path), InputError) << path;
    EXPECT_THROW(append_row(path, ReportRow()), InputError) << path;
  }
  EXPECT_THROW(read_csv(folder_.string()), InputError);
  EXPECT_THROW(read_csv((folder_ / "none").string()), InputError);
}

TEST_F(CsvFile, SeveralProcessesNeverTearOrRepeatAnything) {
  constexpr int processes = 4, rows = 20;
  std::vector<pid_t> children;
  CsvRecord const header{"process", "row", "text"};
  for (int p = 0; p < processes; ++p) {
    pid_t const child = fork();
    if (child == 0) {
      try {
        for (int r = 0; r < rows; ++r) {
          CsvRecord const record{std::to_string(p), std::to_string(r), std::string(3000, static_cast<char>('a' + p))};
          append_records(path_, header, {&record, 1});
        }
      } catch (...) {
        _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  auto const table = read_csv(path_);
  EXPECT_EQ(table.header, header);
  ASSERT_EQ(table.rows.size(), static_cast<std::size_t>(processes * rows));
  std::vector<int> next(processes);
  for (auto const& row : table.rows) {
    auto const p = static_cast<std::size_t>(std::stoi(row[0]));
    EXPECT_EQ(row[1], std::to_string(next[p]++));
    EXPECT_EQ(row[2], std::string(3000, static_cast<char>('a' + p)));
  }
}

}  // namespace
}  // namespace shardbench

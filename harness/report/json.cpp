#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/report/columns.hpp"
#include "harness/report/csv.hpp"

namespace shardbench {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN or infinity: those stay words, so that a broken result is not read as "not measured".
Json number_from(std::string const& cell) {
  if (auto const whole = number_in<std::int64_t>(cell)) return *whole;
  auto const value = number_in<double>(cell);
  return value && std::isfinite(*value) ? Json(*value) : Json(cell);
}

Json value_from(CellKind kind, std::string const& cell) {
  if (cell.empty()) return nullptr;
  if (kind == CellKind::flag) return cell == "true";
  return kind == CellKind::number ? number_from(cell) : Json(cell);
}

}  // namespace

std::string to_json(std::span<ReportRow const> rows) {
  Json all = Json::array();
  for (ReportRow const& row : rows) {
    Json object = Json::object();
    for (auto const& column : report_columns())
      object[std::string(column.name)] = value_from(column.kind, column.cell(row));
    all.push_back(std::move(object));
  }
  return all.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace shardbench

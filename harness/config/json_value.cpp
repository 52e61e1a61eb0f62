#include "harness/config/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

using Kind = JsonValue::Kind;

constexpr std::size_t max_depth = 64;

/// Builds the tree event by event, so that depth and repeated keys are refused before memory is spent on them.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonValue root;
  std::string problem;
  std::size_t position = 0;

  bool null() override { return add({}) != nullptr; }
  bool boolean(bool value) override { return leaf(Kind::boolean, &JsonValue::boolean, value); }
  bool number_integer(number_integer_t value) override { return leaf(Kind::integer, &JsonValue::integer, value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return number_integer(static_cast<number_integer_t>(value));
    return number_float(static_cast<double>(value), {});
  }
  bool number_float(number_float_t value, string_t const&) override {
    return leaf(Kind::real, &JsonValue::real, value);
  }
  bool string(string_t& value) override { return leaf(Kind::text, &JsonValue::text, std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::list); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) return refuse(fmt::format("key {} appears twice", in_quotes(name)));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t where, std::string const&, nlohmann::detail::exception const&) override {
    position = where;
    return refuse("not JSON");
  }

 private:
  JsonValue* add(JsonValue node) {
    if (open_.empty()) {
      root = std::move(node);
      return &root;
    }
    JsonValue& parent = *open_.back();
    if (parent.kind == Kind::object) {
      parent.members.push_back(JsonMember{std::move(key_), std::move(node)});
      return &parent.members.back().value;
    }
    parent.items.push_back(std::move(node));
    return &parent.items.back();
  }
  template <class T>
  bool leaf(Kind kind, T JsonValue::*member, T value) {
    JsonValue node = JsonValue::of(kind);
    node.*member = std::move(value);
    add(std::move(node));
    return true;
  }
  bool refuse(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool open(Kind kind) {
    if (open_.size() >= max_depth) return refuse(fmt::format("nested deeper than {} levels", max_depth));
    // A parent's child lists only grow while the child is closed, so the pointers on the stack stay valid.
    open_.push_back(add(JsonValue::of(kind)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  std::vector<JsonValue*> open_;
  std::vector<std::unordered_set<std::string>> keys_;  ///< of each open container
  std::string key_;
};

}  // namespace

JsonValue JsonValue::of(Kind kind) {
  JsonValue value;
  value.kind = kind;
  return value;
}

JsonValue const* JsonValue::find(std::string_view key) const {
  for (auto const& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

JsonValue parse_json(std::string_view json, std::string_view name) {
  if (json.size() > max_json_bytes)
    throw InputError(fmt::format("{}: {} bytes, at most {} are read", name, json.size(), max_json_bytes));
  TreeBuilder builder;
  if (nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) return std::move(builder.root);
  if (builder.position == 0 || builder.problem != "not JSON")
    throw InputError(fmt::format("{}: {}", name, builder.problem));
  std::string_view const before = json.substr(0, builder.position - 1);
  auto const line = 1 + std::count(before.begin(), before.end(), '\n');
  std::size_t const line_start = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  throw InputError(fmt::format("{}: line {}, column {}: not JSON", name, line, before.size() - line_start + 1));
}

}  // namespace shardbench

#include "harness/config/json_fields.hpp"

#include <fmt/format.h>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

std::string value_text(JsonValue const& value) {
  using Kind = JsonValue::Kind;
  if (value.kind == Kind::null) return "null";
  if (value.kind == Kind::boolean) return value.boolean ? "true" : "false";
  if (value.kind == Kind::integer) return fmt::format("{}", value.integer);
  if (value.kind == Kind::text) return in_quotes(value.text);
  if (value.kind != Kind::real) return value.kind == Kind::list ? "a list" : "an object";
  // 8.0 is no integer of a file, so that it must not look like one.
  std::string const text = fmt::format("{}", value.real);
  return text.find_first_not_of("-0123456789") == text.npos ? text + ".0" : text;
}

}  // namespace

JsonFields::JsonFields(JsonValue const& object, std::string file, std::string prefix)
    : object_(&object), file_(std::move(file)), prefix_(std::move(prefix)) {
  if (object.kind == JsonValue::Kind::object) return;
  std::string const where = prefix_.empty() ? "the text" : prefix_.substr(0, prefix_.size() - 1);
  throw InputError(fmt::format("{}: {} is {}, an object is needed", file_, where, value_text(object)));
}

void JsonFields::fail(std::string_view key, std::string_view problem) const {
  throw InputError(fmt::format("{}: {}{}: {}", file_, prefix_, key, problem));
}

JsonValue const* JsonFields::present(std::string_view key) const {
  read_->insert(prefix_ + std::string(key));
  JsonValue const* const value = object_->find(key);
  return value == nullptr || value->kind == JsonValue::Kind::null ? nullptr : value;
}

JsonValue const* JsonFields::present_as(JsonValue::Kind kind, std::string_view key,
                                        std::string_view kind_in_words) const {
  JsonValue const* const value = present(key);
  if (value != nullptr && value->kind != kind)
    fail(key, fmt::format("{} is not {}", value_text(*value), kind_in_words));
  return value;
}

std::vector<std::string> JsonFields::keys_read() const {
  std::vector<std::string> keys;
  for (std::string const& key : *read_)
    if (key.starts_with(prefix_) && key.find('.', prefix_.size()) == key.npos)
      keys.push_back(key.substr(prefix_.size()));
  return keys;
}

bool JsonFields::is_null(std::string_view key) const {
  JsonValue const* const value = object_->find(key);
  return value != nullptr && value->kind == JsonValue::Kind::null;
}

std::string_view JsonFields::any_of(std::initializer_list<std::string_view> keys) const {
  for (std::string_view const key : keys)
    if (has(key)) return key;
  return *keys.begin();
}

std::int64_t JsonFields::integer(std::string_view key, JsonValue const& value, std::int64_t min,
                                 std::int64_t max) const {
  if (value.kind != JsonValue::Kind::integer || value.integer < min || value.integer > max)
    fail(key, fmt::format("{} is not an integer from {} to {}", value_text(value), min, max));
  return value.integer;
}

std::int64_t JsonFields::size(std::string_view key, std::int64_t max) const {
  JsonValue const* const value = present(key);
  if (value == nullptr) fail(key, fmt::format("missing (an integer from 1 to {})", max));
  return integer(key, *value, 1, max);
}

std::int64_t JsonFields::integer_or(std::string_view key, std::int64_t fallback, std::int64_t min,
                                    std::int64_t max) const {
  JsonValue const* const value = present(key);
  return value == nullptr ? fallback : integer(key, *value, min, max);
}

double JsonFields::number_or(std::string_view key, double fallback, double min, double max) const {
  JsonValue const* const value = present(key);
  if (value == nullptr) return fallback;
  bool const is_integer = value->kind == JsonValue::Kind::integer;
  double const number = is_integer ? static_cast<double>(value->integer) : value->real;
  bool const is_number = is_integer || value->kind == JsonValue::Kind::real;
  if (!is_number || !(number >= min && number <= max))
    fail(key, fmt::format("{} is not a number from {} to {}", value_text(*value), min, max));
  return number;
}

bool JsonFields::flag_or(std::string_view key, bool fallback) const {
  JsonValue const* const value = present_as(JsonValue::Kind::boolean, key, "true or false");
  return value == nullptr ? fallback : value->boolean;
}

bool JsonFields::truthy(std::string_view key) const {
  JsonValue const* const value = present(key);
  return value != nullptr && (value->boolean || value->integer != 0 || value->real != 0 || !value->text.empty());
}

std::string JsonFields::text_or(std::string_view key, std::string_view fallback) const {
  JsonValue const* const value = present_as(JsonValue::Kind::text, key, "a text");
  return value == nullptr ? std::string(fallback) : value->text;
}

std::span<JsonValue const> JsonFields::list(std::string_view key) const {
  JsonValue const* const value = present_as(JsonValue::Kind::list, key, "a list");
  return value == nullptr ? std::span<JsonValue const>() : value->items;
}

std::vector<std::int64_t> JsonFields::counts(std::string_view key, std::int64_t max) const {
  std::vector<std::int64_t> result;
  for (JsonValue const& item : list(key)) result.push_back(integer(key, item, 0, max));
  return result;
}

std::vector<std::string> JsonFields::texts(std::string_view key) const {
  std::vector<std::string> result;
  for (JsonValue const& item : list(key)) {
    if (item.kind != JsonValue::Kind::text) fail(key, fmt::format("{} in the list is not a text", value_text(item)));
    result.push_back(item.text);
  }
  return result;
}

std::optional<JsonFields> JsonFields::object(std::string_view key) const {
  JsonValue const* const value = present(key);
  if (value == nullptr) return std::nullopt;
  JsonFields nested(*value, file_, prefix_ + std::string(key) + '.');
  nested.read_ = read_;
  return nested;
}

}  // namespace shardbench

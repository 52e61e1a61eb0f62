#pragma once
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "harness/config/json_value.hpp"

namespace shardbench {

/// Bounds of any size in a model: far above what exists, low enough that products of a few stay exact.
inline constexpr std::int64_t max_width = std::int64_t{1} << 24;

/// Typed, range-checked access to a JSON object from outside. Every error names the file, the full key, the value and
/// what is allowed. A null member counts as absent, as in Hugging Face configs.
class JsonFields {
 public:
  JsonFields(JsonValue const& object, std::string file, std::string prefix = "");

  bool has(std::string_view key) const { return present(key) != nullptr; }
  /// The first of the keys that is there, else the first.
  std::string_view any_of(std::initializer_list<std::string_view> keys) const;

  std::int64_t size(std::string_view key, std::int64_t max = max_width) const;
  std::int64_t size_or(std::string_view key, std::int64_t fallback, std::int64_t max = max_width) const {
    return integer_or(key, fallback, 1, max);
  }
  /// Like size_or, and zero is allowed.
  std::int64_t count_or(std::string_view key, std::int64_t fallback, std::int64_t max = max_width) const {
    return integer_or(key, fallback, 0, max);
  }
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t min, std::int64_t max) const;
  double number_or(std::string_view key, double fallback, double min, double max) const;
  bool flag_or(std::string_view key, bool fallback) const;
  /// Present and neither false nor 0 nor empty, as files that write a flag as a number mean it.
  bool truthy(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;
  std::vector<std::int64_t> counts(std::string_view key, std::int64_t max) const;
  std::vector<std::string> texts(std::string_view key) const;
  /// The nested object, nothing when absent.
  std::optional<JsonFields> object(std::string_view key) const;
  /// Whether any of the above asked for the key. A nested object shares its parent's memory of it.
  bool was_read(std::string_view key) const { return read_->contains(prefix_ + std::string(key)); }
  /// The keys of this object itself that were asked for, sorted.
  std::vector<std::string> keys_read() const;
  /// The key is there and null: in Hugging Face's words none, where a default would be something.
  bool is_null(std::string_view key) const;
  JsonValue const& value() const { return *object_; }
  std::string const& file() const { return file_; }

  /// Throws InputError "file: key: problem".
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

 private:
  JsonValue const* present(std::string_view key) const;
  /// present(), refused when it is of another kind.
  JsonValue const* present_as(JsonValue::Kind kind, std::string_view key, std::string_view kind_in_words) const;
  std::int64_t integer(std::string_view key, JsonValue const& value, std::int64_t min, std::int64_t max) const;
  std::span<JsonValue const> list(std::string_view key) const;  ///< empty when absent

  JsonValue const* object_;
  std::string file_, prefix_;
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();  ///< keys asked for
};

}  // namespace shardbench

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

struct JsonMember;

/// A parsed JSON value. Integers keep all their digits; an integer beyond int64 becomes a real.
struct JsonValue {
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, list, object };
  Kind kind = Kind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<JsonValue> items;     ///< of a list
  std::vector<JsonMember> members;  ///< of an object, in file order

  /// An empty one of a kind.
  static JsonValue of(Kind kind);
  /// The member of that name, nullptr when absent or when this is no object.
  JsonValue const* find(std::string_view key) const;
};

struct JsonMember {
  std::string name;
  JsonValue value;
};

inline constexpr std::size_t max_json_bytes = std::size_t{16} << 20;

/// Parses one JSON text. Throws InputError "name: line L, column C: ..." for anything that is not strict JSON, repeats
/// a key, nests deeper than 64 levels or is longer than 16 MiB.
JsonValue parse_json(std::string_view json, std::string_view name);

}  // namespace shardbench

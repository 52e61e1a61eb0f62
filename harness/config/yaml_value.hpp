#pragma once
#include <string_view>

#include "harness/config/json_value.hpp"

namespace shardbench {

/// Parses one YAML document into the value type of JSON: plain true, false, null and numbers are read as such, all else
/// is text. Throws InputError "name:line: problem" for what is no YAML, repeats a key, refers to another node, nests
/// deeper than 16 levels or is longer than 1 MiB.
JsonValue parse_yaml(std::string_view yaml, std::string_view name);

}  // namespace shardbench

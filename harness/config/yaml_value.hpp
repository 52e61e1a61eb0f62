#pragma once
#include <string>
#include <string_view>

#include "harness/config/json_value.hpp"

namespace shardbench {

/// Parses one YAML document into the value type of JSON: plain true, false, null and numbers are read as such, all else
/// is text. Throws InputError "name:line: problem" for what is no YAML, repeats a key, refers to another node, nests
/// deeper than 16 levels or is longer than 1 MiB.
JsonValue parse_yaml(std::string_view yaml, std::string_view name);

/// "name:3" for the line of index 2; the name alone where YAML knows no line (index below 0).
std::string yaml_place(std::string_view name, int line);

}  // namespace shardbench

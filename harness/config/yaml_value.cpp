#include "harness/config/yaml_value.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_yaml_bytes = std::size_t{1} << 20;
constexpr std::size_t max_depth = 16;

JsonValue scalar(std::string const& text, bool quoted) {
  JsonValue value;
  value.kind = JsonValue::Kind::text;
  value.text = text;
  if (quoted) return value;
  char const* const end = text.data() + text.size();
  if (std::optional<std::int64_t> const whole = whole_integer(text)) {
    value.kind = JsonValue::Kind::integer;
    value.integer = *whole;
  } else if (auto const [stop, error] = std::from_chars(text.data(), end, value.real);
             error == std::errc{} && stop == end && std::isfinite(value.real)) {
    value.kind = JsonValue::Kind::real;
  } else if (text == "true" || text == "false") {
    value.kind = JsonValue::Kind::boolean;
    value.boolean = text == "true";
  } else if (text.empty() || text == "~" || text == "null") {
    value.kind = JsonValue::Kind::null;
  }
  return value;
}

/// Builds the tree event by event, so that aliases and depth are refused before they cost anything.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view name) : name_(name) {}
  JsonValue root;

  void OnDocumentStart(YAML::Mark const&) override {}
  void OnDocumentEnd() override {}
  void OnNull(YAML::Mark const& mark, YAML::anchor_t) override { add(mark, {}); }
  void OnAlias(YAML::Mark const& mark, YAML::anchor_t) override {
    fail(mark, "references to other nodes are not read");
  }
  void OnScalar(YAML::Mark const& mark, std::string const& tag, YAML::anchor_t, std::string const& text) override {
    if (expects_key()) {
      auto const& members = open_.back()->members;
      if (std::ranges::any_of(members, [&](JsonMember const& m) { return m.name == text; }))
        fail(mark, fmt::format("{} is given twice", in_quotes(text)));
      key_ = text, has_key_ = true;
      return;
    }
    add(mark, scalar(text, tag == "!"));
  }
  void OnSequenceStart(YAML::Mark const& mark, std::string const&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, JsonValue::Kind::list);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(YAML::Mark const& mark, std::string const&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, JsonValue::Kind::object);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  [[noreturn]] void fail(YAML::Mark const& mark, std::string_view problem) const {
    throw InputError(fmt::format("{}: {}", yaml_place(name_, mark.line), problem));
  }

  bool expects_key() const { return !open_.empty() && open_.back()->kind == JsonValue::Kind::object && !has_key_; }

  JsonValue* add(YAML::Mark const& mark, JsonValue value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    JsonValue& parent = *open_.back();
    if (parent.kind == JsonValue::Kind::list) {
      parent.items.push_back(std::move(value));
      return &parent.items.back();
    }
    if (!has_key_) fail(mark, "a key is not a plain name");
    has_key_ = false;
    parent.members.push_back({std::move(key_), std::move(value)});
    return &parent.members.back().value;
  }

  // A parent's lists only grow while the child is closed, so the pointers on the stack stay valid.
  void open(YAML::Mark const& mark, JsonValue::Kind kind) {
    if (open_.size() >= max_depth) fail(mark, fmt::format("nested deeper than {} levels", max_depth));
    open_.push_back(add(mark, JsonValue::of(kind)));
  }

  std::string name_, key_;
  std::vector<JsonValue*> open_;
  bool has_key_ = false;
};

}  // namespace

std::string yaml_place(std::string_view name, int line) {
  return line < 0 ? std::string(name) : fmt::format("{}:{}", name, line + 1);
}

JsonValue parse_yaml(std::string_view yaml, std::string_view name) {
  if (yaml.size() > max_yaml_bytes) throw InputError(fmt::format("{}: longer than {} bytes", name, max_yaml_bytes));
  TreeBuilder builder(name);
  try {
    std::istringstream text{std::string(yaml)};
    YAML::Parser parser(text);
    if (!parser.HandleNextDocument(builder)) throw InputError(fmt::format("{}: empty", name));
  } catch (YAML::Exception const& error) {
    throw InputError(fmt::format("{}: not YAML ({})", yaml_place(name, error.mark.line), in_quotes(error.msg)));
  }
  return std::move(builder.root);
}

}  // namespace shardbench

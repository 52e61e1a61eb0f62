#include "harness/config/hostfile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "harness/config/text_file.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

constexpr std::size_t max_file_bytes = std::size_t{4} << 20;
constexpr std::int64_t most_slots = 1 << 20;
constexpr std::string_view blanks = " \t\r";

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::size_t start = line.find_first_not_of(blanks); start != line.npos;
       start = line.find_first_not_of(blanks, start)) {
    std::size_t const end = std::min(line.find_first_of(blanks, start), line.size());
    words.push_back(line.substr(start, end - start));
    start = end;
  }
  return words;
}

/// 0 when the text is not a number from 1 to most_slots.
std::int64_t slot_count(std::string_view text) {
  std::int64_t const value = whole_integer(text).value_or(0);
  return value >= 1 && value <= most_slots ? value : 0;
}

std::string_view without_user(std::string_view host) {
  std::size_t const at = host.find('@');
  return at == host.npos ? host : host.substr(at + 1);
}

bool is_host_name(std::string_view name) {
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:[]%";
  return !name.empty() && name.size() <= 255 && name.find_first_not_of(letters) == name.npos;
}

Host parse_line(std::vector<std::string_view> const& words, std::string const& where) {
  Host host;
  host.name = without_user(words.front());
  if (!is_host_name(host.name))
    throw InputError(fmt::format("{}: {} is not a host name", where, in_quotes(words.front())));
  bool has_slots = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::size_t const equals = std::min(words[i].find('='), words[i].size());
    std::string_view const key = words[i].substr(0, equals);
    bool const is_slots = key == "slots", is_max = key == "max_slots" || key == "max-slots";
    if (!is_slots && !is_max)
      throw InputError(fmt::format("{}: {} is not slots=N or max_slots=N", where, in_quotes(words[i])));
    std::int64_t& target = is_slots ? host.slots : host.max_slots;
    if (is_slots ? has_slots : host.max_slots > 0)
      throw InputError(fmt::format("{}: {} is given twice", where, in_quotes(key)));
    has_slots = has_slots || is_slots;
    target = equals < words[i].size() ? slot_count(words[i].substr(equals + 1)) : 0;
    if (target == 0)
      throw InputError(fmt::format("{}: {} needs an integer from 1 to {}", where, in_quotes(words[i]), most_slots));
  }
  if (host.max_slots > 0 && host.slots > host.max_slots)
    throw InputError(fmt::format("{}: slots {} are more than max_slots {}", where, host.slots, host.max_slots));
  return host;
}

}  // namespace

std::vector<Host> parse_hostfile(std::string_view text, std::string_view name) {
  if (text.size() > max_file_bytes) throw InputError(fmt::format("{}: longer than {} bytes", name, max_file_bytes));
  std::vector<Host> hosts;
  std::map<std::string, int> line_of;
  int line = 0;
  for (std::size_t start = 0; start < text.size();) {
    ++line;
    std::size_t const end = std::min(text.find('\n', start), text.size());
    std::vector<std::string_view> const words = words_of(text.substr(start, end - start));
    start = end + 1;
    if (words.empty()) continue;
    std::string const where = fmt::format("{}:{}", name, line);
    Host host = parse_line(words, where);
    // Adding up would hide a typing error, and one spelling with a user name is the same machine.
    auto const [earlier, is_new] = line_of.emplace(host.name, line);
    if (!is_new)
      throw InputError(fmt::format("{}: host {} is already on line {}", where, in_quotes(host.name), earlier->second));
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) throw InputError(fmt::format("{}: no host in it", name));
  return hosts;
}

std::vector<Host> read_hostfile(std::string const& path) {
  std::optional<std::string> const text = text_of_file(path, max_file_bytes);
  if (!text) throw InputError(fmt::format("{}: cannot be read", path));
  return parse_hostfile(*text, path);
}

std::vector<Host> parse_host_list(std::string_view text) {
  std::vector<Host> hosts;
  for (std::string const& item : split_list("host", text)) {
    std::size_t const colon = std::min(item.find(':'), item.size());
    Host host;
    host.name = without_user(std::string_view(item).substr(0, colon));
    if (!is_host_name(host.name)) throw InputError(fmt::format("--host: {} is not a host name", in_quotes(item)));
    if (colon < item.size()) host.slots = slot_count(std::string_view(item).substr(colon + 1));
    if (host.slots == 0)
      throw InputError(
          fmt::format("--host: {} is not NAME:SLOTS with slots from 1 to {}", in_quotes(item), most_slots));
    if (std::ranges::find(hosts, host.name, &Host::name) != hosts.end())
      throw InputError(fmt::format("--host: {} is given twice", in_quotes(host.name)));
    hosts.push_back(std::move(host));
  }
  return hosts;
}

std::int64_t total_slots(std::vector<Host> const& hosts) {
  std::int64_t sum = 0;
  for (Host const& host : hosts) sum += host.slots;
  return sum;
}

void check_slots(std::vector<Host> const& hosts, std::int64_t ranks) {
  std::int64_t const slots = total_slots(hosts);
  if (slots >= ranks) return;
  auto const count = static_cast<std::int64_t>(hosts.size());
  std::string enough;
  for (Host const& host : hosts)
    enough += fmt::format("{}{}:{}", enough.empty() ? "" : ",", host.name, (ranks + count - 1) / count);
  throw InputError(fmt::format(
      "hosts: {} ranks asked for, {} slots there (a host without a count has one); write {} or oversubscribe", ranks,
      slots, enough));
}

}  // namespace shardbench

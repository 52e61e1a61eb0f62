#include "harness/config/hostfile.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const check = [](std::vector<Host> const& hosts) {
    fuzz::require(!hosts.empty(), "no host is refused");
    fuzz::require(total_slots(hosts) >= static_cast<std::int64_t>(hosts.size()), "each host has a slot");
    check_slots(hosts, 64);
  };
  fuzz::try_read(data, size, [&](std::string_view text) { check(parse_hostfile(text, "hosts")); });
  fuzz::try_read(data, size, [&](std::string_view text) { check(parse_host_list(text)); });
  return 0;
}

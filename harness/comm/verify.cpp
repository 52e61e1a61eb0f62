#include "harness/comm/verify.hpp"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

// What travels: fixed size, no pointers.
struct Record {
  std::array<char, 32> kind{};
  std::uint64_t bytes = 0, group = 0, order = 0;
};

std::string_view kind_of(Record const& record) { return record.kind.data(); }

void compare(Record const& expected, Record const& actual, int rank) {
  auto const differ = [rank](std::string_view field, auto const& theirs, auto const& ours) {
    throw Error(fmt::format("collectives differ: rank {} calls with {} {}, rank 0 with {}", rank, field, theirs, ours));
  };
  if (actual.order != expected.order) differ("order", actual.order, expected.order);
  if (kind_of(actual) != kind_of(expected)) differ("kind", kind_of(actual), kind_of(expected));
  if (actual.group != expected.group) differ("group", actual.group, expected.group);
  if (actual.bytes != expected.bytes) differ("bytes", actual.bytes, expected.bytes);
}

}  // namespace

void verify_same_call(Communicator& group, CollectiveSignature const& signature) {
  Record mine{{}, signature.bytes, signature.group, signature.order};
  signature.kind.copy(mine.kind.data(), mine.kind.size() - 1);
  std::vector<Record> all(group.size());
  InlineStream stream;  // host communicators finish before they return, and use none
  group.all_gather({&mine, sizeof mine, Dtype::u8}, {all.data(), all.size() * sizeof mine, Dtype::u8}, stream);
  for (int rank = 1; rank < group.size(); ++rank) compare(all.front(), all[rank], rank);
}

}  // namespace shardbench

#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace shardbench {

/// Rows of one routing, as fetch_counts brought them to the host: what goes to each (peer, expert of its), then what
/// came from each peer for each expert here. A rank without peers sends to itself, and has the first half only.
class RoutedCounts {
 public:
  RoutedCounts(std::span<std::int32_t const> values, std::int64_t peers)
      : values_(values),
        peers_(peers),
        experts_(static_cast<std::int64_t>(values.size()) / (peers > 1 ? 2 : 1) / peers) {}

  std::int64_t peers() const { return peers_; }
  std::int64_t sent(std::int64_t peer) const { return rows(peer * experts_, experts_); }
  std::int64_t received(std::int64_t peer) const { return rows(arrived() + peer * experts_, experts_); }
  std::int64_t total_received() const { return rows(arrived(), peers_ * experts_); }
  /// [experts here + 1]: where each expert's rows begin when all that came are sorted by expert.
  std::vector<std::int32_t> expert_offsets() const {
    std::vector<std::int32_t> offsets{0};
    for (std::int64_t e = 0; e < experts_; ++e) {
      std::int64_t sum = offsets.back();
      for (std::int64_t p = 0; p < peers_; ++p) sum += rows(arrived() + p * experts_ + e, 1);
      offsets.push_back(static_cast<std::int32_t>(sum));
    }
    return offsets;
  }

 private:
  std::int64_t arrived() const { return peers_ > 1 ? peers_ * experts_ : 0; }
  std::int64_t rows(std::int64_t first, std::int64_t count) const {
    std::int64_t sum = 0;
    for (std::int64_t i = first; i < first + count; ++i) sum += values_[i];
    return sum;
  }
  std::span<std::int32_t const> values_;
  std::int64_t peers_, experts_;
};

}  // namespace shardbench

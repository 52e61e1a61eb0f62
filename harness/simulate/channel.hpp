#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace shardbench {

/// Messages of one kind between two stages, matched in order.
struct Channel {
  std::vector<double> ahead;           ///< [message without a partner] when it could start on its side
  std::size_t matched = 0;             ///< of `ahead`, from its begin on
  std::size_t sent = 0, received = 0;  ///< messages that each side has posted
  std::vector<double> done;            ///< [message] when it had arrived
  std::vector<double> start;           ///< [message] empty unless spans are recorded

  /// Posts the next message of one side, as `count` says; returns its number.
  std::size_t post(std::size_t& count, double now, double duration, bool records) {
    std::size_t const index = count++;
    if (count > std::min(sent, received)) {
      ahead.push_back(now);
      return index;
    }
    double const begin = std::max({ahead[matched], now, done.empty() ? 0.0 : done.back()});
    if (++matched == ahead.size()) ahead.clear(), matched = 0;
    if (records) start.push_back(begin);
    done.push_back(begin + duration);
    return index;
  }
};

}  // namespace shardbench

#pragma once
#include <string>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {

/// Small numbers and texts that the ranks of a communicator tell each other. Every member is collective.
class Agreement {
 public:
  /// `ranks` must take host memory and outlive this.
  explicit Agreement(Communicator& ranks) : ranks_(ranks) {}

  double sum(double value) { return reduce(value, ReduceOp::sum); }
  double maximum(double value) { return reduce(value, ReduceOp::max); }
  double mean(double value) { return sum(value) / ranks_.size(); }
  /// Rank 0's value on every rank.
  double from_first(double value);
  std::string from_first(std::string const& text);
  /// The text of the lowest rank that has one, cut at 400 bytes; empty when none has.
  std::string first_text(std::string text);
  /// Every rank's text, in rank order.
  std::vector<std::string> gather(std::string text);

 private:
  double reduce(double value, ReduceOp op);

  Communicator& ranks_;
  InlineStream stream_;
};

}  // namespace shardbench

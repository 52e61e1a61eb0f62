#pragma once
#include <functional>

#include "harness/calibrate/machine.hpp"

namespace shardbench {

/// Median time of `work` on the stream in microseconds, mean over the ranks, which all work at once. Repeats what is
/// short, so that the clock and the launch of the batch do not count. Collective.
double time_us(Stream& stream, RankAgreement& agree, std::function<void()> const& work);

/// Microseconds of this rank from when all ranks are here until `work` and what it put on the stream are done.
/// Collective.
double elapsed_us(Stream& stream, RankAgreement& agree, std::function<void()> const& work);

/// What a part of the measuring works with, on a stream of its own.
struct Meter {
  Meter(Device& device, StreamKind kind, RankAgreement& agree, CalibrationOptions const& options,
        MachineMeasurement& out)
      : device_(device), agree_(agree), options_(options), out_(out), stream_(device.make_stream(kind)) {}

  Device& device_;
  RankAgreement& agree_;
  CalibrationOptions const& options_;
  MachineMeasurement& out_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace shardbench

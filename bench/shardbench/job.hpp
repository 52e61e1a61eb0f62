#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/comm/communicator.hpp"
#include "harness/config/experiment.hpp"

namespace shardbench {

/// This process as a rank: joins the launcher's job when there is one, else it is alone. One per process.
class Job {
 public:
  Job();
  Communicator& world() { return *world_; }
  Device& device() { return *device_; }
  bool first() { return world_->rank() == 0; }
  /// The text of the lowest rank that has one, on every rank, cut at 400 bytes. Collective.
  std::string agree(std::string const& text);
  /// Rank 0's text on every rank. Collective.
  std::string from_first(std::string const& text);
  /// Every rank's text, in rank order, on every rank. Collective.
  std::vector<std::string> gather(std::string const& text);
  double sum(double value);

 private:
  std::optional<MpiProcess> mpi_;  // outlives the communicator
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

/// Throws InputError for a device that this program does not run on.
void check_device(DeviceKind device);

}  // namespace shardbench

// A 1024 x 1024 tensor on two ranks, moved through every placement: scripts/mpirun.sh 2 build/bin/example_dtensor
#include "harness/exec/dtensor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

using namespace shardbench;

namespace {

/// Small integers: sums of two terms are exact.
float value_at(std::int64_t index) { return static_cast<float>(index % 8191); }

/// Prints one line from rank 0 and returns whether every element on every rank is right.
bool report(DTensor const& t, char const* what, Communicator& world) {
  float wrong = 0;
  for (std::size_t i = 0; i < t.local().size(); ++i)
    if (t.local()[i] != value_at(t.global_index(static_cast<std::int64_t>(i)))) ++wrong;
  InlineStream stream;
  world.all_reduce({&wrong, 1, Dtype::f32}, ReduceOp::sum, stream);
  if (world.rank() == 0)
    fmt::print("{:<24} {:<12} global ({}), local ({}): {}\n", what, to_string(t.placements()[0]),
               fmt::join(t.global_shape(), ", "), fmt::join(t.local_shape(), ", "),
               wrong == 0 ? "every element is right" : fmt::format("{} elements are wrong", wrong));
  return wrong == 0;
}

int show(Communicator& world) {
  MeshCommunicators const mesh(DeviceMesh({{"tp", 2}}), world);
  DTensor::Shape const shape{1024, 1024};
  DTensor const rows = distribute_tensor(shape, value_at, mesh, {Shard{0}});
  bool right = report(rows, "distributed", world);
  DTensor const columns = rows.redistribute({Shard{1}});
  right = report(columns, "redistributed", world) && right;
  right = report(columns.redistribute({Replicate{}}), "redistributed", world) && right;
  // Each rank's term is the value with the rank's own share of an offset, and the offsets cancel in the sum.
  std::vector<float> term(1024 * 1024);
  for (std::size_t i = 0; i < term.size(); ++i)
    term[i] = world.rank() == 0 ? value_at(static_cast<std::int64_t>(i)) - 7 : 7;
  DTensor const partial = from_partial(shape, term, mesh, {Partial{}});
  right = report(partial.redistribute({Shard{0}}), "from partial", world) && right;
  right = report(partial.redistribute({Replicate{}}), "from partial", world) && right;
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  MpiProcess const mpi(&argc, &argv);
  auto const world = make_mpi_communicator();
  if (world->size() != 2) {
    if (world->rank() == 0)
      fmt::print(stderr, "example_dtensor: {} rank(s) given, 2 needed: scripts/mpirun.sh 2 {}\n", world->size(),
                 argv[0]);
    return 2;
  }
  return show(*world);
}

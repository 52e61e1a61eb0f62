#include <gtest/gtest.h>

#include "harness/comm/communicator.hpp"
#include "harness/comm/verify.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

BufferView view(std::vector<float>& values) { return {values.data(), values.size(), Dtype::f32}; }

TEST(SelfCommunicator, CollectivesCopyAndCount) {
  auto self = make_self_communicator();
  InlineStream stream;
  std::vector<float> from{1, 2, 3}, to(3);
  self->all_reduce(view(from), ReduceOp::sum, stream);
  EXPECT_EQ(from, (std::vector<float>{1, 2, 3}));
  self->all_gather(view(from), view(to), stream);
  EXPECT_EQ(to, from);
  to.assign(3, 0);
  self->reduce_scatter(view(from), view(to), stream);
  EXPECT_EQ(to, from);
  to.assign(3, 0);
  self->all_to_all(view(from), {3}, view(to), {3}, stream);
  EXPECT_EQ(to, from);
  self->broadcast(view(from), 0, stream);
  self->reduce_scatter(view(from), view(from), stream);
  self->barrier();
  EXPECT_EQ(self->traffic().calls, 6u);
  EXPECT_EQ(self->traffic().payload_bytes, 6u * 12);
  EXPECT_EQ(self->backend(), "self");
}

TEST(SelfCommunicator, HasNoPeers) {
  auto self = make_self_communicator();
  InlineStream stream;
  std::vector<float> values(2), other(3);
  EXPECT_THROW(self->send(view(values), 0, 0, stream), Error);
  EXPECT_THROW(self->receive(view(values), 0, 0, stream), Error);
  EXPECT_THROW(self->broadcast(view(values), 1, stream), Error);
  EXPECT_THROW(self->all_gather(view(values), view(other), stream), Error);
  EXPECT_THROW(self->all_to_all(view(values), {1, 1}, view(values), {2}, stream), Error);
  EXPECT_EQ(self->split(-1, 0), nullptr);
  EXPECT_EQ(self->split(3, 0)->size(), 1);
}

TEST(SelfCommunicator, AgreesWithItself) {
  auto self = make_self_communicator();
  EXPECT_NO_THROW(verify_same_call(*self, {"all_reduce", 8, 1, 0}));
}

}  // namespace
}  // namespace shardbench

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "kernels/core/arena.hpp"
#include "kernels/core/device.hpp"
#include "kernels/core/error.hpp"
#include "kernels/kernel_set.hpp"

namespace shardbench {
namespace {

class HostDeviceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device = make_host_device();
  std::unique_ptr<Stream> compute = device->make_stream(StreamKind::compute);
  std::unique_ptr<Stream> comm = device->make_stream(StreamKind::comm);
};

TEST_F(HostDeviceTest, KnowsItself) {
  DeviceInfo const info = device->info();
  EXPECT_EQ(info.backend, "cpu");
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory_bytes, 1e8);
  EXPECT_GT(info.free_memory_bytes, 0);
  EXPECT_LE(info.free_memory_bytes, info.memory_bytes);
  EXPECT_EQ(&device->kernels(), &host_kernels());
}

TEST_F(HostDeviceTest, ComputeRunsOnTheCallerAndCommDoesNot) {
  std::thread::id compute_thread, comm_thread;
  compute->submit([&] { compute_thread = std::this_thread::get_id(); });
  EXPECT_EQ(compute_thread, std::this_thread::get_id());
  comm->submit([&] { comm_thread = std::this_thread::get_id(); });
  comm->synchronize();
  EXPECT_NE(comm_thread, std::this_thread::get_id());
}

TEST_F(HostDeviceTest, CommKeepsItsOrderAndDoesNotBlockTheCaller) {
  std::promise<void> gate;
  std::vector<int> order;
  comm->submit([&] { gate.get_future().wait(); });
  for (int i = 0; i < 100; ++i) comm->submit([&, i] { order.push_back(i); });
  EXPECT_TRUE(order.empty());  // nothing can have passed the gate
  gate.set_value();
  comm->synchronize();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(HostDeviceTest, ComputeWaitsForComm) {
  auto const event = device->make_event(false);
  std::atomic<int> value = 0;
  comm->submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 1;
  });
  comm->record(*event);
  compute->wait(*event);
  compute->submit([&] { EXPECT_EQ(value, 1); });
}

TEST_F(HostDeviceTest, CommWaitsForAnotherCommStreamAndLaterRecordsDoNotReleaseItEarly) {
  auto const second = device->make_stream(StreamKind::comm);
  auto const event = device->make_event(false);
  std::promise<void> gate;
  std::atomic<int> stage = 0;
  comm->submit([&] {
    gate.get_future().wait();
    stage = 1;
  });
  comm->record(*event);
  int seen = -1;
  second->wait(*event);
  second->submit([&] { seen = stage; });
  gate.set_value();
  second->synchronize();
  EXPECT_EQ(seen, 1);
  comm->synchronize();
}

TEST_F(HostDeviceTest, AWaitForAnUnrecordedEventPasses) {
  auto const event = device->make_event(false);
  compute->wait(*event);
  comm->wait(*event);
  comm->synchronize();
  event->synchronize();
}

TEST_F(HostDeviceTest, AnEventMayDieWhileItIsQueued) {
  std::promise<void> gate;
  comm->submit([&] { gate.get_future().wait(); });
  {
    auto const event = device->make_event(true);
    comm->record(*event);
  }
  gate.set_value();
  comm->synchronize();
}

TEST_F(HostDeviceTest, EventsTellTimeOnOneClock) {
  auto const start = device->make_event(true), stop = device->make_event(true), untimed = device->make_event(false);
  EXPECT_THROW(start->time_ms(), Error);
  compute->record(*start);
  comm->submit([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  comm->record(*stop);
  stop->synchronize();
  EXPECT_GE(stop->time_ms() - start->time_ms(), 5.0);
  compute->record(*untimed);
  EXPECT_THROW(untimed->time_ms(), Error);
}

TEST_F(HostDeviceTest, FailuresSurfaceAtSynchronizeOnce) {
  for (Stream* const stream : {compute.get(), comm.get()}) {
    auto const event = device->make_event(false);
    bool ran_after = false;
    stream->submit([] { throw InputError("first"); });
    stream->submit([] { throw Error("second"); });
    stream->submit([&] { ran_after = true; });
    stream->record(*event);
    event->synchronize();  // a failed stream still releases those who wait for it
    EXPECT_THROW(stream->synchronize(), InputError);
    EXPECT_FALSE(ran_after);
    EXPECT_NO_THROW(stream->synchronize());
    stream->submit([&] { ran_after = true; });
    stream->synchronize();
    EXPECT_TRUE(ran_after);
  }
}

TEST_F(HostDeviceTest, DeviceSynchronizeCoversEveryLiveStream) {
  std::atomic<bool> done = false;
  comm->submit([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    done = true;
  });
  device->synchronize();
  EXPECT_TRUE(done);
  comm->submit([] { throw Error("kept"); });
  EXPECT_THROW(device->synchronize(), Error);
  comm.reset();
  EXPECT_NO_THROW(device->synchronize());
}

TEST_F(HostDeviceTest, AStreamFinishesItsWorkBeforeItEnds) {
  int done = 0;
  for (int i = 0; i < 50; ++i) comm->submit([&] { ++done; });
  comm.reset();
  EXPECT_EQ(done, 50);
}

TEST_F(HostDeviceTest, MemoryIsAlignedCopiedAndFilled) {
  for (std::size_t const bytes : {std::size_t{1}, std::size_t{1000}, (std::size_t{3} << 20) + 5}) {
    auto* const memory = static_cast<unsigned char*>(device->allocate(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0u);
    device->fill_bytes(memory, 7, bytes, *comm);
    comm->synchronize();
    EXPECT_EQ(memory[bytes - 1], 7);
    unsigned char const value = 9;
    unsigned char back = 0;
    device->copy_from_host(memory, &value, 1, *compute);
    device->copy_to_host(&back, memory, 1, *compute);
    EXPECT_EQ(back, 9);
    device->deallocate(memory);
  }
}

TEST_F(HostDeviceTest, TooMuchMemoryIsRefusedWithItsNumbers) {
  double const too_much = device->info().memory_bytes * 4;
  try {
    device->deallocate(device->allocate(static_cast<std::size_t>(too_much)));
    FAIL() << "allocated four times the machine";
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes, too_much);
    EXPECT_GT(error.free_bytes, 0);
  }
}

TEST_F(HostDeviceTest, ArenaHandsOutItsRangeAndNoMore) {
  Arena const arena(*device, 4096);
  EXPECT_EQ(static_cast<char*>(arena.at(100)) - static_cast<char*>(arena.at(0)), 100);
  EXPECT_EQ(arena.size(), 4096u);
  EXPECT_THROW(arena.at(4097), Error);
  Arena const empty(*device, 0);
  EXPECT_NE(empty.at(0), nullptr);
}

}  // namespace
}  // namespace shardbench

#include "harness/record/timeline.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

class TimelineTest : public testing::Test {
 protected:
  InlineStream stream_;
};

TEST_F(TimelineTest, SpansComeBackInOrderOfOpening) {
  auto timeline = make_host_timeline(4);
  double const before = timeline->now_ms();
  auto const outer = timeline->open(Lane::compute, 7, 3, stream_);
  auto const inner = timeline->open(Lane::tp, 8, -1, stream_);
  timeline->close(inner, stream_);
  timeline->close(outer, stream_);
  double const after = timeline->now_ms();
  auto const spans = timeline->resolve();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].lane, Lane::compute);
  EXPECT_EQ(spans[0].label, 7u);
  EXPECT_EQ(spans[0].microbatch, 3);
  EXPECT_EQ(spans[1].label, 8u);
  EXPECT_LE(before, spans[0].start_ms);
  EXPECT_LE(spans[0].start_ms, spans[1].start_ms);
  EXPECT_LE(spans[1].start_ms, spans[1].end_ms);
  EXPECT_LE(spans[1].end_ms, spans[0].end_ms);
  EXPECT_LE(spans[0].end_ms, after);
}

TEST_F(TimelineTest, OpenSpansAreAnErrorUntilCleared) {
  auto timeline = make_host_timeline(2);
  timeline->open(Lane::compute, 0, -1, stream_);
  EXPECT_THROW(timeline->resolve(), Error);
  timeline->clear();
  EXPECT_TRUE(timeline->resolve().empty());
  timeline->close(timeline->open(Lane::dp, 1, -1, stream_), stream_);
  EXPECT_EQ(timeline->resolve().size(), 1u);
  timeline->clear();
  timeline->open(Lane::dp, 1, -1, stream_);
  EXPECT_THROW(timeline->resolve(), Error) << "a span closed before clear() does not count as closed after it";
}

TEST_F(TimelineTest, DroppedSpansAreToldNotHidden) {
  auto timeline = make_host_timeline(2);
  for (int i = 0; i < 3; ++i) timeline->close(timeline->open(Lane::compute, 0, -1, stream_), stream_);
  try {
    timeline->resolve();
    FAIL() << "no error";
  } catch (Error const& error) {
    EXPECT_NE(std::string(error.what()).find("1 spans were dropped (room for 2)"), std::string::npos) << error.what();
  }
}

TEST_F(TimelineTest, ThreadsDoNotDisturbEachOther) {
  constexpr std::uint32_t threads = 4, each = 1000;
  auto timeline = make_host_timeline(threads * each);
  std::vector<std::thread> workers;
  for (std::uint32_t t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < each; ++i)
        timeline->close(timeline->open(Lane::compute, t * each + i, static_cast<std::int32_t>(t), stream_), stream_);
    });
  for (auto& worker : workers) worker.join();
  std::set<std::uint32_t> labels;
  for (Span const& span : timeline->resolve()) {
    EXPECT_LE(span.start_ms, span.end_ms);
    EXPECT_EQ(span.label / each, static_cast<std::uint32_t>(span.microbatch));
    labels.insert(span.label);
  }
  EXPECT_EQ(labels.size(), threads * each);
}

TEST(Lanes, HaveTheirNames) {
  EXPECT_EQ(to_string(Lane::compute), "compute");
  EXPECT_EQ(to_string(Lane::ep), "ep");
  EXPECT_THROW(to_string(Lane::size_), Error);
}

TEST(Trace, RangesWithoutAToolDoNothing) {
  for (int i = 0; i < 3; ++i) {
    trace_push(static_cast<Lane>(i), "layer/op/forward", 1e9);
    trace_pop();
  }
}

}  // namespace
}  // namespace shardbench

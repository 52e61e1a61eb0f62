#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/exec/dtensor.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/error.hpp"
#include "tests/harness/exec/world.hpp"

namespace shardbench::test {
namespace {

float value_at(std::int64_t index) { return static_cast<float>(index * 3 + 1); }

/// One-axis and two-axis meshes over the job, and one of size 1 beside it.
std::vector<DeviceMesh> meshes() {
  std::int64_t const n = world().size();
  std::vector<DeviceMesh> all{DeviceMesh({{"a", n}}), DeviceMesh({{"a", 1}, {"b", n}})};
  for (std::int64_t a = 2; a < n; ++a)
    if (n % a == 0) all.push_back(DeviceMesh({{"a", a}, {"b", n / a}}));
  return all;
}

/// The tensor's value at a local element, from the definition: axis after axis cuts what is left.
void expect_right(DTensor const& t, MeshCommunicators const& mesh) {
  auto const& shape = t.global_shape();
  std::vector<std::vector<std::int64_t>> kept(shape.size());
  std::int64_t count = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    for (std::int64_t i = 0; i < shape[d]; ++i) kept[d].push_back(i);
    for (std::size_t a = 0; a < t.placements().size(); ++a) {
      if (!is_shard(t.placements()[a], static_cast<int>(d))) continue;
      auto const parts = static_cast<std::size_t>(mesh.mesh().axes()[a].size),
                 at = static_cast<std::size_t>(mesh.coordinate()[a]);
      std::size_t const chunk = (kept[d].size() + parts - 1) / parts;
      std::vector<std::int64_t> mine;
      for (std::size_t i = at * chunk; i < std::min((at + 1) * chunk, kept[d].size()); ++i) mine.push_back(kept[d][i]);
      kept[d] = mine;
    }
    ASSERT_EQ(t.local_shape()[d], static_cast<std::int64_t>(kept[d].size()));
    count *= t.local_shape()[d];
  }
  ASSERT_EQ(static_cast<std::int64_t>(t.local().size()), count);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, index = 0, stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      auto const size = static_cast<std::int64_t>(kept[d].size());
      index += kept[d][rest % size] * stride;
      rest /= size;
      stride *= shape[d];
    }
    ASSERT_EQ(t.local()[i], value_at(index)) << i;
    ASSERT_EQ(t.global_index(i), index);
  }
}

std::vector<Placement> placements_of(std::size_t rank, bool partial) {
  std::vector<Placement> all{Replicate{}};
  for (std::size_t d = 0; d < rank; ++d) all.push_back(Shard{static_cast<int>(d)});
  if (partial) all.push_back(Partial{});
  return all;
}

std::vector<std::vector<Placement>> combinations(std::size_t axes, std::vector<Placement> const& each) {
  std::vector<std::vector<Placement>> all{{}};
  for (std::size_t a = 0; a < axes; ++a) {
    std::vector<std::vector<Placement>> next;
    for (auto const& head : all)
      for (Placement const& p : each) {
        next.push_back(head);
        next.back().push_back(p);
      }
    all = std::move(next);
  }
  return all;
}

/// Terms whose sum over the partial axes is the tensor: every rank but the first of an axis holds a share of nothing.
DTensor make(DTensor::Shape const& shape, MeshCommunicators const& mesh, std::vector<Placement> const& from) {
  std::vector<Placement> plain = from;
  bool partial = false, first = true;
  for (std::size_t a = 0; a < from.size(); ++a) {
    if (!is_partial(from[a])) continue;
    partial = true;
    plain[a] = Replicate{};
    first = first && mesh.coordinate()[a] == 0;
  }
  DTensor const whole = distribute_tensor(shape, value_at, mesh, plain);
  if (!partial) return whole;
  std::vector<float> term(whole.local().begin(), whole.local().end());
  if (!first) std::ranges::fill(term, 0.0f);
  return from_partial(shape, term, mesh, from);
}

TEST(DTensor, EveryPairOfPlacementsOnEveryMesh) {
  std::vector<DTensor::Shape> const shapes{{10}, {7, 5}, {3, 4, 6}, {2, 3, 1, 5}};
  for (DeviceMesh const& layout : meshes()) {
    MeshCommunicators const mesh(layout, world());
    for (auto const& shape : shapes) {
      // Four dims and two axes have 900 pairs: the smaller shapes say what they would.
      if (layout.axes().size() > 1 && shape.size() > 2) continue;
      for (auto const& from : combinations(layout.axes().size(), placements_of(shape.size(), true))) {
        DTensor const t = make(shape, mesh, from);
        for (auto const& to : combinations(layout.axes().size(), placements_of(shape.size(), false))) {
          SCOPED_TRACE(fmt::format("{} {} to {} {}", to_string(from.front()), to_string(from.back()),
                                   to_string(to.front()), to_string(to.back())));
          DTensor const moved = t.redistribute(to);
          EXPECT_EQ(moved.placements(), to);
          ASSERT_NO_FATAL_FAILURE(expect_right(moved, mesh));
        }
      }
    }
  }
}

TEST(DTensor, RandomShapesGatherToTheWhole) {
  for (std::uint64_t round = 0; round < 40; ++round) {
    auto const draw = [&](std::uint64_t i, std::int64_t limit) {
      return static_cast<std::int64_t>(random_bits(round, i) % static_cast<std::uint64_t>(limit));
    };
    auto const all = meshes();
    MeshCommunicators const mesh(all[draw(0, static_cast<std::int64_t>(all.size()))], world());
    DTensor::Shape shape;
    for (std::int64_t d = 0; d < 1 + draw(1, 4); ++d) shape.push_back(draw(2 + static_cast<std::uint64_t>(d), 7));
    std::vector<Placement> from, to;
    for (std::size_t a = 0; a < mesh.mesh().axes().size(); ++a) {
      auto const each = placements_of(shape.size(), true);
      from.push_back(each[draw(10 + a, static_cast<std::int64_t>(each.size()))]);
      to.push_back(each[draw(20 + a, static_cast<std::int64_t>(each.size()) - 1)]);
    }
    DTensor const t = make(shape, mesh, from).redistribute(to);
    ASSERT_NO_FATAL_FAILURE(expect_right(t, mesh));
    std::vector<float> const whole = t.to_global();
    for (std::size_t i = 0; i < whole.size(); ++i) ASSERT_EQ(whole[i], value_at(static_cast<std::int64_t>(i)));
  }
}

TEST(DTensor, TheMaximumOfPartialTerms) {
  MeshCommunicators const mesh(DeviceMesh({{"a", world().size()}}), world());
  std::vector<float> term(6);
  for (std::size_t i = 0; i < term.size(); ++i) term[i] = static_cast<float>(i) - static_cast<float>(world().rank());
  DTensor const t = from_partial({6}, term, mesh, {Partial{PartialOp::max}});
  auto const whole = t.redistribute({Shard{0}}).to_global();
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i], static_cast<float>(i));
}

// Case S07: eight elements over three ranks and then over two hold 2,1,2,1,1,1; the other order 2,2,0 twice.
TEST(DTensor, OneDimOnTwoAxesIsCutInTheirOrder) {
  DeviceMesh const three_two({{"a", 3}, {"b", 2}}), two_three({{"a", 2}, {"b", 3}});
  auto const sizes = [](DeviceMesh const& mesh) {
    std::vector<std::int64_t> out;
    for (std::int64_t a = 0; a < mesh.axes()[0].size; ++a)
      for (std::int64_t b = 0; b < mesh.axes()[1].size; ++b)
        out.push_back(local_range(8, 0, {Shard{0}, Shard{0}}, mesh, {a, b}).size);
    return out;
  };
  EXPECT_EQ(sizes(three_two), (std::vector<std::int64_t>{2, 1, 2, 1, 1, 1}));
  EXPECT_EQ(sizes(two_three), (std::vector<std::int64_t>{2, 2, 0, 2, 2, 0}));
}

TEST(DTensor, RefusesWhatItDoesNotTake) {
  MeshCommunicators const mesh(DeviceMesh({{"a", world().size()}}), world());
  auto const make_with = [&](DTensor::Shape shape, std::vector<Placement> placements) {
    return distribute_tensor(std::move(shape), value_at, mesh, std::move(placements));
  };
  EXPECT_THROW(make_with({4}, {Shard{1}}), InputError);
  EXPECT_THROW(make_with({4}, {Shard{0, ShardLayout::zigzag}}), InputError);
  EXPECT_THROW(make_with({4}, {Shard{0, ShardLayout::contiguous, 2}}), InputError);
  EXPECT_THROW(make_with({4}, {Private{1}}), InputError);
  EXPECT_THROW(make_with({4}, {Partial{}}), InputError);
  EXPECT_THROW(make_with({4}, {Replicate{}, Replicate{}}), InputError);
  EXPECT_THROW(make_with({-1}, {Replicate{}}), InputError);
  EXPECT_THROW(make_with({1, 1, 1, 1, 1}, {Replicate{}}), InputError);
  EXPECT_THROW(make_with({4}, {Replicate{}}).redistribute({Partial{}}), Error);
  EXPECT_THROW(from_partial({4}, {1, 2}, mesh, {Partial{}}), InputError);
  EXPECT_THROW(from_partial({4}, {1, 2, 3, 4}, mesh, {Replicate{}}), InputError);
  EXPECT_THROW(MeshCommunicators(DeviceMesh({{"a", world().size() + 1}}), world()), InputError);
  std::vector<float> const three(3);
  EXPECT_THROW(distribute_tensor({4}, three, mesh, {Replicate{}}), InputError);
}

}  // namespace
}  // namespace shardbench::test

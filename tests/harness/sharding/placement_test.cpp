#include "harness/sharding/placement.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/core/counter_rng.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

TEST(Placement, TextReadsBack) {
  std::vector<Placement> const all{Replicate{},
                                   Shard{0},
                                   Shard{3},
                                   Shard{1, ShardLayout::zigzag},
                                   Shard{0, ShardLayout::contiguous, 4},
                                   Shard{2, ShardLayout::zigzag, 2},
                                   Partial{},
                                   Partial{PartialOp::max},
                                   Private{0},
                                   Private{512}};
  for (Placement const& p : all) EXPECT_EQ(parse_placement(to_string(p)), p) << to_string(p);
  EXPECT_EQ(to_string(Placement{Shard{1, ShardLayout::zigzag}}), "shard(1,zigzag)");
  EXPECT_EQ(parse_placement("shard(sequence)"), Placement{Shard{0}});
  EXPECT_EQ(parse_placement("partial"), Placement{Partial{}});
}

TEST(Placement, RefusesOtherText) {
  for (char const* text : {"", "shard", "shard()", "shard(-1)", "shard(8)", "shard(x)", "shard(0", "shard(0)x",
                           "shard(0,)", "shard(0,x0)", "replicate()", "replicate(1)", "partial(min)", "partial(sum,1)",
                           "private", "private(-1)", "Shard(0)", " shard(0)", "shard(99999999999999999999)"}) {
    try {
      parse_placement(text);
      ADD_FAILURE() << text << " was read";
    } catch (InputError const& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos);
      EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Placement, TransitionTable) {
  Placement const r = Replicate{}, s0 = Shard{0}, s1 = Shard{1}, p = Partial{}, own = Private{4};
  EXPECT_EQ(transition_between(p, r), Transition::all_reduce);
  EXPECT_EQ(transition_between(p, s0), Transition::reduce_scatter);
  EXPECT_EQ(transition_between(s0, r), Transition::all_gather);
  EXPECT_EQ(transition_between(s0, s1), Transition::all_to_all);
  EXPECT_EQ(transition_between(r, s1), Transition::local_slice);
  EXPECT_EQ(transition_between(p, own), Transition::partial_sync);
  for (Placement const& same : {r, s0, p, own}) EXPECT_EQ(transition_between(same, same), Transition::none);
  EXPECT_THROW(transition_between(r, p), Error);
  EXPECT_THROW(transition_between(s0, p), Error);
  EXPECT_THROW(transition_between(own, r), Error);
  EXPECT_EQ(transition_between(r, own), Transition::private_copy);
  EXPECT_THROW(transition_between(s0, own), Error);
  EXPECT_THROW(transition_between(p, Partial{PartialOp::max}), Error);
}

TEST(Placement, GradientOfAPartialSumIsReplicated) {
  EXPECT_EQ(gradient_placement(Partial{}), Placement{Replicate{}});
  EXPECT_EQ(gradient_placement(Private{3}), Placement{Partial{}});
  for (Placement const& p : {Placement{Replicate{}}, Placement{Shard{1}}}) EXPECT_EQ(gradient_placement(p), p);
}

// Case S06: the rule of torch.chunk.
TEST(ChunkRange, CutsAsTorchChunkDoes) {
  auto const sizes = [](std::int64_t length, std::int64_t parts) {
    std::string out;
    for (std::int64_t i = 0; i < parts; ++i) out += std::to_string(chunk_range(length, parts, i).size) + " ";
    return out;
  };
  EXPECT_EQ(sizes(10, 4), "3 3 3 1 ");
  EXPECT_EQ(sizes(5, 4), "2 2 1 0 ");
  EXPECT_EQ(sizes(3, 4), "1 1 1 0 ");
  EXPECT_EQ(sizes(0, 3), "0 0 0 ");
}

TEST(ChunkRange, PartsTileTheDim) {
  for (std::int64_t length = 0; length < 40; ++length)
    for (std::int64_t parts = 1; parts < 12; ++parts) {
      std::int64_t next = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        DimRange const r = chunk_range(length, parts, i);
        EXPECT_EQ(r.begin, next);
        next += r.size;
      }
      EXPECT_EQ(next, length);
    }
}

// --- plans, played on a simulated 2-axis mesh ---

constexpr std::size_t mesh_axes = 2;

/// A value's parts on every rank of an n0 x n1 mesh: elements of a matrix, each held with a weight (partial sums).
struct Cluster {
  std::int64_t n[mesh_axes];
  std::int64_t rows, cols;
  std::vector<Placement> placements;
  /// [rank][element] the term the rank holds; -1 rank-local absence is "not held".
  std::vector<std::vector<int>> held, term;

  std::int64_t coordinate(std::size_t rank, std::size_t axis) const {
    return axis == 0 ? static_cast<std::int64_t>(rank) % n[0] : static_cast<std::int64_t>(rank) / n[0];
  }
  std::size_t ranks() const { return static_cast<std::size_t>(n[0] * n[1]); }
};

/// Which indices of a dim a rank keeps under the placements, cut after cut.
std::vector<bool> kept(Cluster const& c, std::size_t rank, int dim) {
  std::int64_t begin = 0, size = dim == 0 ? c.rows : c.cols;
  std::vector<bool> keep(static_cast<std::size_t>(size), false);
  for (std::size_t a = 0; a < mesh_axes; ++a) {
    if (!is_shard(c.placements[a], dim)) continue;
    std::int64_t const chunk = (size + c.n[a] - 1) / c.n[a];
    std::int64_t const first = std::min(chunk * c.coordinate(rank, a), size);
    begin += first;
    size = std::min(chunk, size - first);
  }
  for (std::int64_t i = begin; i < begin + size; ++i) keep[static_cast<std::size_t>(i)] = true;
  return keep;
}

std::vector<int> held_by_definition(Cluster const& c, std::size_t rank) {
  auto const rows = kept(c, rank, 0), cols = kept(c, rank, 1);
  std::vector<int> held;
  for (std::int64_t i = 0; i < c.rows * c.cols; ++i)
    held.push_back(rows[static_cast<std::size_t>(i / c.cols)] && cols[static_cast<std::size_t>(i % c.cols)]);
  return held;
}

/// Only the first rank of each partial axis holds the element itself, the others zero.
Cluster start(std::int64_t n0, std::int64_t n1, std::int64_t rows, std::int64_t cols,
              std::vector<Placement> const& placements) {
  Cluster c{{n0, n1}, rows, cols, placements, {}, {}};
  for (std::size_t r = 0; r < c.ranks(); ++r) {
    bool counts = true;
    for (std::size_t a = 0; a < mesh_axes; ++a)
      counts = counts && (!is_partial(placements[a]) || c.coordinate(r, a) == 0);
    c.held.push_back(held_by_definition(c, r));
    c.term.emplace_back();
    for (int const h : c.held.back()) c.term.back().push_back(h && counts ? 1 : 0);
  }
  return c;
}

/// Communication moves only along the step's axis: what nobody of the group holds cannot come out of it.
void play(Cluster& c, RedistributeStep const& step) {
  Cluster const before = c;
  EXPECT_EQ(before.placements[step.axis], step.from);
  EXPECT_EQ(step.transition, transition_between(step.from, step.to));
  c.placements[step.axis] = step.to;
  for (std::size_t r = 0; r < c.ranks(); ++r) {
    c.held[r] = held_by_definition(c, r);
    for (std::size_t e = 0; e < c.held[r].size(); ++e) {
      c.term[r][e] = 0;
      if (!c.held[r][e]) continue;
      int sum = 0, sources = 0;
      for (std::size_t peer = 0; peer < c.ranks(); ++peer) {
        std::size_t const other = 1 - step.axis;
        if (c.coordinate(peer, other) != c.coordinate(r, other) || !before.held[peer][e]) continue;
        if (step.transition == Transition::local_slice && peer != r) continue;
        ++sources;
        sum = is_partial(step.from) ? sum + before.term[peer][e] : before.term[peer][e];
      }
      EXPECT_GE(sources, 1) << "rank " << r << " gets an element that its group does not hold";
      c.term[r][e] = sum;
    }
  }
}

TEST(Redistribute, PlansGiveTheSlicesOfTheDefinition) {
  std::vector<Placement> const each{Replicate{}, Shard{0}, Shard{1}, Partial{}};
  for (std::int64_t n0 = 1; n0 <= 3; ++n0)
    for (std::int64_t n1 = 1; n1 <= 3; ++n1)
      for (std::uint64_t k = 0; k < 4 * 4 * 3 * 3; ++k) {
        std::vector<Placement> const from{each[k % 4], each[k / 4 % 4]}, to{each[k / 16 % 3], each[k / 48 % 3]};
        SCOPED_TRACE(to_string(from[0]) + " " + to_string(from[1]) + " -> " + to_string(to[0]) + " " +
                     to_string(to[1]));
        std::int64_t const rows = 1 + static_cast<std::int64_t>(random_bits(k, 0) % 7),
                           cols = 1 + static_cast<std::int64_t>(random_bits(k, 1) % 7);
        Cluster c = start(n0, n1, rows, cols, from);
        for (auto const& step : redistribute(from, to)) play(c, step);
        EXPECT_EQ(c.placements, to);
        for (std::size_t r = 0; r < c.ranks(); ++r) {
          EXPECT_EQ(c.held[r], held_by_definition(c, r));
          EXPECT_EQ(c.term[r], c.held[r]);  // each element once, with its whole value
        }
      }
}

TEST(Redistribute, KnownPlans) {
  auto const plan = [](std::vector<Placement> const& from, std::vector<Placement> const& to) {
    std::string text;
    for (auto const& s : redistribute(from, to))
      text += std::to_string(s.axis) + ":" + std::string(to_string(s.transition)) + " ";
    return text;
  };
  EXPECT_EQ(plan({Shard{0}}, {Shard{0}}), "");
  EXPECT_EQ(plan({Partial{}}, {Replicate{}}), "0:all_reduce ");
  EXPECT_EQ(plan({Shard{0}, Shard{1}}, {Replicate{}, Shard{1}}), "0:all_gather ");
  // Case S07's nested cuts: the inner one is opened first, and closed again when it stays.
  EXPECT_EQ(plan({Shard{0}, Shard{0}}, {Replicate{}, Replicate{}}), "1:all_gather 0:all_gather ");
  EXPECT_EQ(plan({Shard{0}, Shard{0}}, {Replicate{}, Shard{0}}), "1:all_gather 0:all_gather 1:local_slice ");
  EXPECT_EQ(plan({Replicate{}, Shard{0}}, {Shard{0}, Shard{1}}), "1:all_gather 0:local_slice 1:local_slice ");
  EXPECT_EQ(plan({Shard{0}, Shard{0}}, {Shard{0}, Replicate{}}), "1:all_gather ");
  EXPECT_EQ(plan({Shard{0}, Replicate{}}, {Shard{1}, Replicate{}}), "0:all_to_all ");
  EXPECT_THROW(redistribute({Replicate{}}, {Replicate{}, Replicate{}}), Error);
}

}  // namespace
}  // namespace shardbench

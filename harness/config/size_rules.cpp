#include "harness/config/size_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/core/error.hpp"

namespace shardbench {

std::string fp8_problem(std::int64_t rows, std::int64_t cols) {
  std::string problem;
  if (rows % 8 != 0) problem = fmt::format("{} rows are not a multiple of 8; pad to {}", rows, round_up(rows, 8));
  if (cols % 16 != 0)
    problem += fmt::format("{}{} columns are not a multiple of 16; pad to {}", problem.empty() ? "" : ", ", cols,
                           round_up(cols, 16));
  return problem;
}

void check_fp8_dims(std::int64_t rows, std::int64_t cols) {
  std::string const problem = fp8_problem(rows, cols);
  if (!problem.empty()) throw IllegalConfig("fp8: " + problem);
}

std::int64_t check_local_block(std::string_view what, std::int64_t global, std::int64_t tp, std::int64_t block) {
  if (global % (tp * block) != 0)
    throw IllegalConfig(fmt::format("{}: {} over tp {} gives {} a rank, not a multiple of {}; pad to {}", what, global,
                                    tp, static_cast<double>(global) / static_cast<double>(tp), block,
                                    round_up(global, tp * block)));
  return global / tp;
}

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t top_k, std::int64_t experts, double factor) {
  double const load = static_cast<double>(tokens) * static_cast<double>(top_k) / static_cast<double>(experts);
  return static_cast<std::int64_t>(std::min(std::ceil(factor * load), static_cast<double>(tokens)));
}

BatchTriple complete_batch(std::optional<std::int64_t> global, std::optional<std::int64_t> micro,
                           std::optional<std::int64_t> accumulation, std::int64_t world) {
  int const missing = !global + !micro + !accumulation;
  if (missing > 1) throw InputError("batch: two of global batch, micro-batch and accumulation are needed");
  for (auto const& given : {global, micro, accumulation, std::optional(world)})
    if (given && *given < 1) throw InputError(fmt::format("batch: {} given, every part is at least 1", *given));
  if (!global) return {*micro * *accumulation * world, *micro, *accumulation};
  std::int64_t const known = (micro ? *micro : *accumulation) * world;
  if (missing == 1) {
    if (*global % known != 0)
      throw IllegalConfig(fmt::format("batch: global batch {} is not a multiple of {} * world {} = {}", *global,
                                      micro ? "micro-batch" : "accumulation", world, known));
    return {*global, micro.value_or(*global / known), accumulation.value_or(*global / known)};
  }
  std::int64_t const product = *micro * *accumulation * world;
  if (product != *global)
    throw IllegalConfig(
        fmt::format("batch: global batch {} given, micro-batch * accumulation * world = {} * {} * {} = {}", *global,
                    *micro, *accumulation, world, product));
  return {*global, *micro, *accumulation};
}

std::int64_t ddp_batch(std::int64_t batch, std::int64_t ranks) {
  if (batch < 1 && ranks > 1)
    throw InputError(fmt::format("batch: {} (automatic) works on one rank only, {} given; name a multiple of {}", batch,
                                 ranks, ranks));
  if (batch < 1) throw InputError(fmt::format("batch: {} given, at least 1 is needed", batch));
  if (batch % ranks != 0)
    throw IllegalConfig(fmt::format("batch: {} must be a multiple of the {} ranks", batch, ranks));
  return batch / ranks;
}

std::int64_t check_replicas(std::int64_t wanted, std::int64_t ranks_each, std::int64_t ranks) {
  std::int64_t const possible = ranks / ranks_each;
  if (wanted < 1 || wanted > possible)
    throw IllegalConfig(fmt::format("replicas: {} of {} ranks need {}, {} given; possible: {}", wanted, ranks_each,
                                    wanted * ranks_each, ranks, possible));
  return possible;
}

std::int64_t flexible_rounds(std::int64_t microbatches, std::int64_t pp) {
  std::int64_t const rounds = std::max<std::int64_t>(1, microbatches / pp);
  if (microbatches % rounds != 0)
    throw IllegalConfig(
        fmt::format("schedule: {} microbatches do not divide into {} rounds of pp {}", microbatches, rounds, pp));
  return rounds;
}

}  // namespace shardbench

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "harness/planner/demands.hpp"
#include "harness/planner/objective.hpp"

namespace shardbench {

/// What is to be served: prompts of base.seq tokens, then tokens one by one after base.context tokens.
struct ServeRequest {
  Experiment base;  ///< model, seq, context, precision
  std::int64_t devices = 1;
  std::int64_t sequences = 0;                   ///< decoded at once over all replicas, 0: as many as suit the objective
  double ttft_limit_ms = 0, tpot_limit_ms = 0;  ///< 0: no limit
  PlanDemands demands;                          ///< of tp, pp, ep, dp
};

/// One way to serve: `replicas` copies of the model, each cut by tp, pp (and ep over the whole of them).
struct ServeCut {
  std::int64_t tp = 1, pp = 1, ep = 1, replicas = 1;
  std::int64_t batch = 1;         ///< sequences that a replica decodes at once
  std::int64_t microbatches = 1;  ///< in which it does so
  bool operator==(ServeCut const&) const = default;
};

/// What serving by a cut takes.
struct ServeCost {
  double ttft_ms = 0;       ///< one prompt on an idle replica
  double tpot_ms = 0;       ///< a token of each sequence
  double memory_bytes = 0;  ///< weights, the cache of all sequences, and the activations of a prompt beside them
};

/// A cut that was simulated whole.
struct ServedPoint : ServeCost {
  ServeCut cut;
  Experiment prefill, decode;  ///< resolved: what `run` and `simulate` take
  Prediction prefill_step, decode_step;
  MemoryFit prefill_memory, decode_memory;
  double tokens_per_s_per_device() const;
};

struct ServeResult {
  std::int64_t legal = 0, too_big = 0, too_slow = 0, no_program = 0;
  std::vector<ServedPoint> best;  ///< in order of the objective
  ServeCut smallest;              ///< needs least memory of all
  double least_memory_bytes = 0;
  double least_ttft_ms = 0, least_tpot_ms = 0;  ///< of all that fit, not of one cut
  ServeCut nearest;                             ///< of those that fit and are too slow, misses its limits by least
  double nearest_miss = 0;                      ///< how many times the limit that is, 0: there is none
  std::string problem;                          ///< why the first without a program has none
};

/// Tries every cut and batch on all cores, first by models of few layers a stage (a step is linear in its layers, those
/// that come back with a period, and the dense ones before the first with experts), then simulates the best whole.
/// latency orders by tpot then ttft, tokens-per-gpu-hour and cost by decoded tokens a device, memory by memory. Throws
/// InputError when no cut is legal.
ServeResult plan_serving(ServeRequest const& request, CostModel const& model, PlanOptions const& options,
                         Objective objective);

/// Device counts from..to, ascending, among which the fewest that serve the request are: those with a legal cut whose
/// weights may fit; without a number of sequences, only as many replicas as a count has to have.
std::vector<std::int64_t> serving_counts(ServeRequest const& request, CostModel const& model, double memory_share,
                                         std::int64_t from, std::int64_t to);

/// Simulates one cut. Throws IllegalConfig when it has no program.
ServedPoint look_closer(ServeRequest const& request, CostModel const& model, ServeCut const& cut);

}  // namespace shardbench

#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/dtype.hpp"

namespace shardbench {

/// How a device's GEMM time depends on the shape (simulate/compute_cost.hpp); fitted to measured tables.
struct GemmProfile {
  double max_efficiency = 0;      ///< of the dense peak, reached by large products
  double k_overhead = 0;          ///< elements of k that filling and draining a tile costs
  double quantisation = 0;        ///< 0 to 1: how much of an unfilled last wave is lost
  double small_tile_penalty = 0;  ///< efficiency lost each time a tile's area halves, 0 to 1
  double launch_us = 0;           ///< fixed time of a product
  double memory_efficiency = 0;   ///< of the memory bandwidth, where that limits
  std::string source;
  double sustained = 1;  ///< share of this rate that hours of training keep up, at the clocks that the power allows
  std::string sustained_source = {};
};

/// How the time of a fused attention kernel depends on the shape (simulate/attention_time.hpp); fitted to measured
/// tables.
struct AttentionKernel {
  Dtype precision = Dtype::bf16;                   ///< of its products
  Dtype cache = Dtype::bf16;                       ///< of the keys and values that it reads
  std::int64_t head_tile = 128, value_tile = 128;  ///< sizes to which heads of keys, and of values, are padded
  std::int64_t query_tile = 64;                    ///< queries that walk the keys together
  double efficiency = 0;                           ///< of the dense peak, in a long walk of padded heads
  double tile_overhead = 0;                        ///< keys that a tile costs beyond those it walks
  double window_overhead = 0;                      ///< the same again where a window cuts the walk
  double tail = 0;             ///< 0 to 2: share of the lesser of work and longest walk that adds to the greater
  double launch_us = 0;        ///< fixed time of a serving engine's call
  double prepare_traffic = 0;  ///< passes over queries, keys and values before it, in a serving engine
  double cached_share = 1;     ///< of the time of that pass while its operands lie in the cache
};

/// Fused attention on a device.
struct AttentionProfile {
  std::vector<AttentionKernel> kernels;  ///< empty: not known; a stack then has to state its attention's share
  double backward_share = 0;             ///< rate of backward over that of forward
  double backward_overhead = 0;          ///< keys that a tile of backward costs beyond one of forward
  std::string source;
};

/// Measured times of one operation: size (payload bytes; bytes of a kernel, FLOPs of attention) against microseconds.
struct MeasuredTimes {
  std::string operation;  ///< to_string of its OpKind
  std::int64_t ranks = 1;
  std::vector<std::pair<double, double>> points;  ///< ascending, at least one
  /// Between two points along the line through their logarithms, constant below the first, beyond the last by the rate
  /// there.
  double us(double size) const;
};

/// Measured times of products with operands laid out one way, as they run in a step.
struct MeasuredProducts {
  bool transpose_a = false, transpose_b = false;
  std::vector<std::array<double, 4>> samples;  ///< m, n, k, microseconds; at least one
};

/// What compute takes in whole steps of ours, cut along one axis, beyond what its parts tell, as a share; below 0:
/// less.
struct StepExcess {
  double tp = 0, dp = 0, pp = 0;
};

/// One accelerator. Peaks are dense; GB = 1e9 bytes.
struct DeviceProfile {
  std::string name;
  std::map<Dtype, double> peak_tflops;
  std::map<Dtype, GemmProfile> gemm;
  double memory_gb = 0, memory_gb_per_s = 0;
  double memory_efficiency = 0;  ///< share of the bandwidth that streaming kernels reach
  double launch_us = 0;          ///< gap between two kernels of a stream
  std::int64_t processors = 0;   ///< SMs, or cores of a TPU
  double power_w = 0;            ///< at full load, 0: not given
  double warp_mma_share = 1;     ///< of the attention rate here that kernels written for Ampere's instructions reach
  double overlap_slowdown = 0;   ///< of the time of compute beside communication, what the latter stands still
  StepExcess excess;
  double cache_mb = 0;  ///< last-level cache, MB = 1e6 bytes; 0: not given
  AttentionProfile attention;
  std::vector<MeasuredTimes> kernels;      ///< our own kernels here, products left out; before any formula
  std::vector<MeasuredProducts> products;  ///< ours too: they correct the formula near their shapes
};

/// A level of the network, innermost first. Bandwidths are of one device, in one direction.
struct NetworkLevel {
  std::string name;
  std::int64_t devices = 0;         ///< in one domain of this level, 0: all there are
  double bandwidth_gb_per_s = 0;    ///< what the links carry by their data sheet
  double efficiency = 0;            ///< share of it that a large ring collective reaches
  double message_efficiency = 0;    ///< share that one large message reaches
  double exchange_efficiency = 0;   ///< share that a large all-to-all reaches
  double start_us = 0;              ///< fixed time of a collective
  double latency_us = 0;            ///< of one step of a ring
  double tree_us = 0;               ///< of a tree all-reduce each time the domains double
  double tree_pair_passes = 1;      ///< times a tree all-reduce between two domains sends the buffer over a link
  double ramp_us = 0;               ///< r: a wire time of W us takes W + sqrt(r W) while pipelines fill
  bool in_switch = false;           ///< the switches can sum (NVLS, SHARP)
  double in_switch_efficiency = 0;  ///< share of the bandwidth at which the buffer of an in-switch all-reduce passes
  double in_switch_start_us = 0;    ///< fixed time of an in-switch all-reduce
  double oversubscription = 1;      ///< above 1 the level carries that much less when all send
  std::vector<MeasuredTimes> measured;  ///< of groups within one domain of this level; before any formula
  std::string source;
};

/// A cluster of equal devices.
struct SystemProfile {
  std::string name, description;
  DeviceProfile device;
  std::vector<NetworkLevel> network;
  double price_per_device_hour = 0;  ///< US dollars, 0: not given
  double mtbf_device_hours = 0;      ///< device-hours between failures, 0: not given
  std::vector<std::string> sources;
  /// Dense peak; throws InputError listing the precisions when the device has none for this one.
  double peak_tflops_of(Dtype precision) const;
};

enum class AttentionKind : std::uint8_t { unfused, flash, size_ };

/// What the training software makes of a machine: the same device with another stack is another machine.
struct SoftwareStack {
  std::string name, description, source;
  AttentionKind attention = AttentionKind::flash;
  double attention_factor = 1;               ///< rate of its fused attention over the device's
  double attention_efficiency = 0;           ///< of the dense peak, forward, in place of the device's; 0: not stated
  double attention_backward_efficiency = 0;  ///< of the dense peak, backward; stated where the other is
  bool warp_mma = false;                     ///< its fused attention is written for Ampere's tensor instructions
  bool own_kernels = false;                  ///< runs the kernels whose times a calibrated profile holds
  double gemm_derate = 1;                    ///< rate of its own products over what the device sustains
  Dtype linear_precision = Dtype::f32;       ///< of linear layers where it is not the run's own; f32: the run's own
  double linear_cast_bytes = 0;  ///< bytes moved for each input element of a linear layer to bring it to that precision
  double elementwise_traffic = 1;     ///< memory traffic of its element-wise kernels over ours
  double norm_traffic = 0;            ///< the same of its norms, 0: as of the others
  double loss_traffic = 1;            ///< memory traffic of its loss over ours (fp32 logits, unfused passes)
  double dropout_traffic = 0;         ///< bytes moved per element of a branch output and block input for dropout
  double score_traffic = 0;           ///< bytes moved per attention score, forward (unfused softmax, mask, dropout)
  double gap_us = 0;                  ///< pause between kernels beyond the device's own
  double host_us = 0;                 ///< time of the host to launch one of our operations; the device waits for it
  bool host_awaits_messages = false;  ///< the host loses its lead at each pipeline message
  bool receives_ahead = false;        ///< receives of interleaved stages are posted before compute gets to them
  double collective_host_us = 0;      ///< time of the host to launch a tensor-parallel collective
  std::int64_t softmax_multiple = 1;  ///< the fused softmax takes only multiples of so many heads x samples
  std::int64_t unfused_softmax_launches = 0;  ///< our operations whose launches stand for the unfused softmax's
  double step_ms = 0;                         ///< fixed time of a step: data loading, gradient norm, logging
  std::int64_t tp_pieces = 1;    ///< pieces of a product beside which its tensor-parallel collective runs (user buffers)
  bool dp_overlap = false;                    ///< gradients are reduced during backward, else after it
  bool gather_with_forward = false;           ///< updated weights are gathered during the first forward (ZeRO 1 and 2)
  bool scatter_gather = false;   ///< pipeline messages are cut over tp and gathered behind the stage border
  double gradient_bytes = 4;     ///< bytes of a gradient element on the wire
  double compute_slowdown = 0;   ///< compute is that much slower while communication runs beside it
  double saved_mask_bytes = 0;   ///< bytes kept per element of each dropout
  double saved_score_bytes = 0;  ///< bytes kept per attention score
  bool recompute_keeps_output =
      false;                ///< selective recomputation keeps attention's output, which the next layer saved
  double logits_bytes = 0;  ///< bytes kept per logit beside the logits, from the loss to its backward (fp32 softmax)
  double loss_working_bytes = 0;  ///< bytes per logit that each pass of the loss takes besides (fp32 copy, gradient)
  std::int64_t moment_bytes = 4;  ///< bytes of a moment of the optimizer
  std::int64_t activation_input_bytes = 0;  ///< bytes an input of a gated activation is kept in; 0: as it was computed
  bool merged_weights = false;  ///< experts' outputs are weighted before they return: none is kept for the weights
  double context_gb = 0;        ///< memory of the device's context and loaded kernels
  double workspace_gb = 0;      ///< memory of libraries' workspaces
  double communicator_gb = 0;   ///< memory of each communicator of a rank
  double fragmentation = 0;     ///< share of activations and temporaries that the allocator holds beyond them
  double reserved_gb = 0;       ///< memory taken by all of that, where it is not told apart

  /// The precision of linear layers, and so of most products, in a run of this precision.
  Dtype precision_that_ran(Dtype run) const {
    return run == Dtype::bf16 && linear_precision != Dtype::f32 ? linear_precision : run;
  }
};

/// Reads and checks a profile. Throws InputError "file: key: problem" for what is missing, unknown or out of range.
SystemProfile parse_system_profile(std::string_view yaml, std::string_view name);
SoftwareStack parse_software_stack(std::string_view yaml, std::string_view name);

/// A shipped profile by name, or a path to a YAML file. Throws InputError listing the names when it is neither.
SystemProfile load_system(std::string_view name_or_path);
SoftwareStack load_stack(std::string_view name_or_path);
std::vector<std::string> system_names();
std::vector<std::string> stack_names();

}  // namespace shardbench

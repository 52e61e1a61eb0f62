#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/config/cut.hpp"
#include "kernels/core/dtype.hpp"

namespace shardbench {

enum class Scope : std::uint8_t { layer, model, size_ };
enum class PhaseKind : std::uint8_t { train, prefill, decode, size_ };
/// Who chooses the experts: prescribed loads (balanced, or by router_skew), or the router's own scores.
enum class RoutingKind : std::uint8_t { prescribed, learned, size_ };
enum class DeviceKind : std::uint8_t { automatic, cpu, cuda, cuda_emulated, size_ };
std::string_view to_string(Scope scope);
std::string_view to_string(PhaseKind phase);
std::string_view to_string(DeviceKind device);
std::string_view to_string(RoutingKind routing);

/// One configuration: what to run and how to measure it. Plain data with defaults; validate() after reading.
struct Experiment {
  std::string model_name = "gpt2";  ///< as given: preset or path
  ModelConfig model;                ///< resolved, with `layers` cut when asked
  Cut cut;
  std::string strategy;           ///< path of a strategy YAML, empty for the built-in Megatron cut
  std::string pipeline_layout;    ///< pieces of the model as Megatron writes them ("Et*3|t*4|t*3L"); empty: even
  std::int64_t layers = 0;        ///< 0: all of the model's
  std::int64_t seq = 0;           ///< 0: the lesser of 1024 and what the model allows
  std::int64_t image_size = 0;    ///< pixels a side, 0: the model's
  std::int64_t classes = 0;       ///< of a vision model's classifier, 0: the model's
  std::int64_t micro_batch = 1;   ///< samples a rank takes at once
  std::int64_t global_batch = 0;  ///< samples a step over all ranks, 0: micro_batch * dp
  Dtype precision = Dtype::f32;
  Dtype gradient_dtype = Dtype::f32;
  std::int64_t vocab_divisible_by = 128;  ///< the vocabulary is padded to multiples of this times tp
  std::int64_t loss_chunks = 1;           ///< pieces of the tokens whose logits there are at a time
  Scope scope = Scope::model;
  PhaseKind phase = PhaseKind::train;
  std::int64_t context = 0;  ///< decode: tokens in the KV cache before the step; 0: seq - 1
  DeviceKind device = DeviceKind::automatic;
  std::string attention = "auto";                       ///< which GPU kernel; auto: query-blocks
  std::string nccl_algo = "auto", nccl_proto = "auto";  ///< what NCCL is told to use; auto: its own choice
  std::int64_t nccl_channels = 0;                       ///< exactly so many, 0: NCCL's own choice
  bool share_gpu = false;                               ///< ranks may share a GPU: functional runs only
  bool cuda_graph = false;                              ///< timed steps start as one CUDA graph
  std::int64_t ranks = 0;                               ///< 0: as many as the cut needs
  double bucket_mb = 25;  ///< DDP gradient bucket, MB = 1e6 bytes (PyTorch's default is 25 MiB)
  RoutingKind routing = RoutingKind::prescribed;
  double router_skew = 0;   ///< rows of the busiest expert over the mean, 0: forced balance
  double capacity = 0;      ///< expert capacity factor, 0: dropless
  double dropout = 0;       ///< rate on the embedding and on both branches of a block
  double clip_grad = 0;     ///< largest global norm of the gradients, 0: not clipped
  std::int64_t mtp = 0;     ///< multi-token-prediction layers of the model that the step has
  double mtp_weight = 0.3;  ///< of their mean loss (DeepSeek-V3 report, section 4.2)
  bool check = false;
  bool verify_collectives = false;
  std::int64_t warmup = 2;
  std::int64_t max_iterations = 30;
  double max_seconds = 10;   ///< cap of the timed iterations
  double target_ci_pct = 3;  ///< stop when the 95% interval of the median is this narrow
  std::uint64_t seed = 1234;
  std::string weights;    ///< path of a checkpoint that the step starts from; empty: drawn by the seed
  std::string token_ids;  ///< path of a file of token ids; empty: drawn by the seed
  std::set<std::string, std::less<>> given;  ///< flags that set_field() set: what was asked for, a default's value too

  std::int64_t microbatches() const { return global_batch / (micro_batch * cut.dp); }
};

/// Sets one field from text, by the name of its flag without dashes ("tp", "micro-batch", "layers", ...), and notes it
/// as given: the command line and the YAML files both come through here. Throws InputError: flag, value, what is
/// allowed.
void set_field(Experiment& experiment, std::string_view flag, std::string_view value);

/// What set_field() reads back to the same value.
std::string field_text(Experiment const& experiment, std::string_view flag);

/// The name in `names` closest to `text`, empty when none is near: for "did you mean".
std::string nearest_name(std::string_view text, std::vector<std::string> const& names);

/// The first flag given, with its value, that only a GPU back end can honour; empty when there is none.
std::string gpu_only_flag(Experiment const& experiment);

/// Every rule that the experiment breaks: illegal_reasons(model, cut) and those that need batch, seq, schedule or
/// phase.
std::vector<std::string> illegal_reasons(Experiment const& experiment);

/// What is legal and yet hardly meant, a line each: a capacity that no token can exceed (case E03), and knobs of an
/// axis that has one rank here, which are played and change nothing. Lists over an axis with such a knob stay usable
/// so.
std::vector<std::string> warnings(Experiment const& experiment);

/// Flags that were given and contradict each other: a detail of what is off, or a schedule with chunks of another one.
/// Part of resolve(); an experiment whose members were set directly asked for nothing.
std::vector<std::string> contradictions(Experiment const& experiment);

/// Fills what was left open (seq, global_batch, ranks, schedule from vpp) from the model and checks every rule.
/// Throws InputError for bad values and IllegalConfig for cuts that the model or the rank count does not allow.
/// A model that is already there (hidden > 0) is kept; set_field of "model" or "layers" forgets it.
void resolve(Experiment& experiment);

/// The flags that reproduce this experiment (only those that differ from the defaults), parseable by set_field.
std::string command_flags(Experiment const& experiment);

/// The experiment of a command line whose flags command_flags() wrote, resolved; words that are no flags of an
/// experiment are passed over. Throws InputError for values that are not allowed, IllegalConfig as resolve() does.
Experiment experiment_of_command(std::string_view command);

/// A list of values per flag: the cross product is the sweep, in order of the flags as given, last fastest.
struct SweepLists {
  std::vector<std::pair<std::string, std::vector<std::string>>> of;
};

/// Splits "1,2,4" (quotes not needed); throws InputError on empty items.
std::vector<std::string> split_list(std::string_view flag, std::string_view text);

/// Every point of the cross product over `base`, not yet resolved (a point may be illegal: resolve() says).
/// Throws InputError for more than 100,000 points.
std::vector<Experiment> expand(Experiment const& base, SweepLists const& lists);

/// A sweep from YAML: each key is a flag, each value a scalar or a list. Throws InputError with file and line.
struct SweepSpec {
  Experiment base;
  SweepLists lists;
};
SweepSpec read_sweep_spec(std::string const& path);
SweepSpec parse_sweep_spec(std::string_view yaml, std::string_view name);

/// Bytes with a binary suffix (K, M, G; nccl-tests' rule), e.g. "64K" = 65536. Throws InputError on anything else.
std::int64_t parse_bytes(std::string_view flag, std::string_view text);

}  // namespace shardbench

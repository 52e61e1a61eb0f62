#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "harness/config/experiment.hpp"
#include "harness/config/field_text.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// A row of the table: how a flag is read, written and described.
struct Field {
  std::string flag, allowed, help;
  bool is_switch = false;
  std::function<void(Experiment&, std::string_view)> set;
  std::function<std::string(Experiment const&)> get;
};

template <class Access>
Field integer(std::string flag, std::string help, std::int64_t min, std::int64_t max, Access access) {
  auto set = [=](Experiment& e, std::string_view text) {
    auto& target = access(e);
    target = static_cast<std::remove_reference_t<decltype(target)>>(parse_integer(flag, text, min, max));
  };
  auto get = [=](Experiment const& e) { return fmt::format("{}", access(e)); };
  return {flag, integer_range_text(min, max), std::move(help), false, set, get};
}

template <class Access>
Field number(std::string flag, std::string help, double min, double max, Access access) {
  auto set = [=](Experiment& e, std::string_view text) { access(e) = parse_number(flag, text, min, max); };
  auto get = [=](Experiment const& e) { return number_text(access(e)); };
  return {flag, number_range_text(min, max), std::move(help), false, set, get};
}

template <class Access>
Field toggle(std::string flag, std::string help, Access access) {
  auto set = [=](Experiment& e, std::string_view text) { access(e) = parse_switch(flag, text); };
  auto get = [=](Experiment const& e) { return std::string(access(e) ? "true" : "false"); };
  return {flag, "true or false", std::move(help), true, set, get};
}

template <class Access>
Field path(std::string flag, std::string allowed, std::string help, Access access) {
  auto set = [=](Experiment& e, std::string_view text) {
    bool const printable = text.find_first_of(std::string_view("\0\n\r", 3)) == text.npos;
    if (text.empty() || !printable || text.size() > 4096)
      throw InputError(fmt::format("--{}: {} is not a {}", flag, in_quotes(text), allowed));
    access(e) = text;
  };
  auto get = [=](Experiment const& e) { return access(e); };
  return {flag, allowed, std::move(help), false, set, get};
}

/// One of the given values, by the names that to_string gives them.
template <class Value, class Access>
Field choice(std::string flag, std::string help, std::vector<Value> values, Access access) {
  std::vector<std::string_view> names;
  for (Value const value : values) names.push_back(to_string(value));
  std::string const allowed = fmt::format("{}", fmt::join(names, "|"));
  auto set = [=](Experiment& e, std::string_view text) {
    for (Value const value : values)
      if (to_string(value) == text) {
        access(e) = value;
        return;
      }
    throw InputError(fmt::format("--{}: {} is not one of {}", flag, in_quotes(text), allowed));
  };
  auto get = [=](Experiment const& e) { return std::string(to_string(access(e))); };
  return {flag, allowed, std::move(help), false, set, get};
}

template <class Enum>
std::vector<Enum> all_of() {
  std::vector<Enum> values;
  for (int i = 0; i < static_cast<int>(Enum::size_); ++i) values.push_back(static_cast<Enum>(i));
  return values;
}

constexpr std::int64_t degree_limit = std::int64_t{1} << 20;
constexpr std::int64_t batch_limit = std::int64_t{1} << 30;

// Access functions serve reading and writing, hence `auto&`.
#define SB_FIELD(member) \
  [](auto& e) -> auto& { return e.member; }

void add_cut_fields(std::vector<Field>& t) {
  auto const degree = [&](char const* flag, char const* help, auto access) {
    t.push_back(integer(flag, help, 1, degree_limit, access));
  };
  degree("dp", "data-parallel degree", SB_FIELD(cut.dp));
  degree("tp", "tensor-parallel degree", SB_FIELD(cut.tp));
  degree("pp", "pipeline stages", SB_FIELD(cut.pp));
  degree("vpp", "model chunks per stage; above 1 means the interleaved schedule", SB_FIELD(cut.vpp));
  degree("cp", "context-parallel degree", SB_FIELD(cut.cp));
  t.push_back(
      choice("cp-method", "how attention crosses the context cut", all_of<CpMethod>(), SB_FIELD(cut.cp_method)));
  degree("ep", "expert-parallel degree", SB_FIELD(cut.ep));
  degree("etp", "tensor-parallel degree of the experts", SB_FIELD(cut.etp));
  t.push_back(integer("zero", "ZeRO stage: 1 shards optimizer states, 2 gradients too, 3 parameters too", 0, 3,
                      SB_FIELD(cut.zero_stage)));
  degree("shard-ranks", "ranks that a ZeRO shard is spread over (HSDP); all of dp when not given",
         SB_FIELD(cut.shard_ranks));
  t.push_back(
      choice("zero-keep",
             "what ZeRO leaves whole between microbatches: weights (zero 3), or gradients too (all; zero 2 and 3)",
             all_of<ZeroKeep>(), SB_FIELD(cut.zero_keep)));
  t.push_back(toggle("sequence-parallel", "cut the activations between tp regions along the sequence",
                     SB_FIELD(cut.sequence_parallel)));
  t.push_back(
      number("tp-sync-fraction", "share of the channels that tp synchronises", 0, 1, SB_FIELD(cut.tp_sync_fraction)));
  t.push_back(
      choice("tp-overlap", "overlap tp communication with its GEMM", all_of<TpOverlap>(), SB_FIELD(cut.tp_overlap)));
  t.push_back(integer("tp-overlap-chunks", "pieces that a chunked GEMM and its collective are cut into", 1, 1024,
                      SB_FIELD(cut.tp_overlap_chunks)));
  t.push_back(choice("schedule", "pipeline schedule", all_of<ScheduleKind>(), SB_FIELD(cut.schedule)));
  t.push_back(choice("recompute", "activations computed again in the backward pass", all_of<Recompute>(),
                     SB_FIELD(cut.recompute)));
  t.push_back(integer("recompute-layers",
                      "layers of each model chunk (a stage has vpp of them) that recompute; all when not given", 1,
                      degree_limit, SB_FIELD(cut.recompute_layers)));
  t.push_back(path("strategy", "path of a strategy YAML", "weight placements of your own", SB_FIELD(cut.strategy)));
}

/// One of the given words, or "auto".
template <class Access>
Field word(std::string flag, std::string help, std::vector<std::string> words, Access access) {
  words.insert(words.begin(), "auto");
  std::string const allowed = fmt::format("{}", fmt::join(words, "|"));
  auto set = [=](Experiment& e, std::string_view text) {
    if (std::ranges::find(words, text) == words.end())
      throw InputError(fmt::format("--{}: {} is not one of {}", flag, in_quotes(text), allowed));
    access(e) = text;
  };
  return {flag, allowed, std::move(help), false, set, [=](Experiment const& e) { return access(e); }};
}

/// What only a GPU back end honours; gpu_only_flag() has the same list.
void add_gpu_fields(std::vector<Field>& t) {
  constexpr std::int64_t most_channels = 64;  // NCCL's MAXCHANNELS
  t.push_back(
      word("attention", "attention on a GPU; auto is query-blocks", {"query-blocks", "cudnn"}, SB_FIELD(attention)));
  t.push_back(word("nccl-algo", "NCCL's algorithm (NCCL_ALGO)",
                   {"Ring", "Tree", "CollnetDirect", "CollnetChain", "NVLS", "NVLSTree"}, SB_FIELD(nccl_algo)));
  t.push_back(word("nccl-proto", "NCCL's protocol (NCCL_PROTO)", {"LL", "LL128", "Simple"}, SB_FIELD(nccl_proto)));
  t.push_back(integer("nccl-channels", "NCCL's channels, exactly so many; 0 is its own choice", 0, most_channels,
                      SB_FIELD(nccl_channels)));
  t.push_back(toggle("share-gpu", "ranks may share a GPU: for the right numbers only, its times mean nothing",
                     SB_FIELD(share_gpu)));
  t.push_back(toggle("cuda-graph", "start each timed step as one CUDA graph", SB_FIELD(cuda_graph)));
}

void add_run_fields(std::vector<Field>& t) {
  t.push_back(choice("scope", "blocks only, or embeddings, head and loss too", all_of<Scope>(), SB_FIELD(scope)));
  t.push_back(choice("phase", "training step, prompt pass or token generation", all_of<PhaseKind>(), SB_FIELD(phase)));
  t.push_back(integer("context", "decode: tokens in the KV cache before the step; seq - 1 when not given", 1,
                      batch_limit, SB_FIELD(context)));
  t.push_back(choice("device", "where kernels run", all_of<DeviceKind>(), SB_FIELD(device)));
  add_gpu_fields(t);
  t.push_back(integer("ranks", "processes; as many as the cut needs when not given", 1, batch_limit, SB_FIELD(ranks)));
  t.push_back(number("bucket-mb", "gradient bucket of data parallelism, MB", 0.001, number_limit, SB_FIELD(bucket_mb)));
  t.push_back(number("router-skew", "rows of the busiest expert over the mean, 0 forces balance", 0, number_limit,
                     SB_FIELD(router_skew)));
  t.push_back(choice("routing", "who chooses experts: prescribed loads, or the router's scores", all_of<RoutingKind>(),
                     SB_FIELD(routing)));
  t.push_back(number("capacity", "expert capacity factor, 0 drops no token", 0, number_limit, SB_FIELD(capacity)));
  t.push_back(number("dropout", "share of the embedding's and the branches' outputs that is dropped", 0, 0.99,
                     SB_FIELD(dropout)));
  t.push_back(number("clip-grad", "largest global norm of the gradients; 0 does not clip", 0, number_limit,
                     SB_FIELD(clip_grad)));
  t.push_back(
      integer("mtp", "multi-token-prediction layers in the step, of those the model has", 0, 64, SB_FIELD(mtp)));
  t.push_back(
      number("mtp-weight", "weight of the prediction layers' mean loss", 0, number_limit, SB_FIELD(mtp_weight)));
  t.push_back(toggle("check", "compare with the unsharded step", SB_FIELD(check)));
  t.push_back(toggle("verify-collectives", "check kind, size, group and order of collectives across ranks",
                     SB_FIELD(verify_collectives)));
  t.push_back(integer("warmup", "iterations before timing", 0, degree_limit, SB_FIELD(warmup)));
  t.push_back(integer("max-iterations", "cap of the timed iterations", 1, degree_limit, SB_FIELD(max_iterations)));
  t.push_back(
      number("max-seconds", "cap of the timed iterations, seconds", 0.001, number_limit, SB_FIELD(max_seconds)));
  t.push_back(number("target-ci", "stop when the 95% interval of the median is this narrow, percent", 0.001, 100,
                     SB_FIELD(target_ci_pct)));
  t.push_back(integer("seed", "of weights and data", 0, std::numeric_limits<std::int64_t>::max(), SB_FIELD(seed)));
}

std::vector<Field> make_table() {
  std::vector<Field> t;
  Field model = path("model", "preset or path of a config.json", "what to run (`shardbench models` lists the presets)",
                     SB_FIELD(model_name));
  Field layers = integer("layers", "layers to keep; all when not given", 1, degree_limit, SB_FIELD(layers));
  Field image = integer("image-size", "pixels a side of a vision model's images; the model's own when not given", 1,
                        65536, SB_FIELD(image_size));
  Field classes = integer("classes", "classes of a vision model's head; the model's own when not given", 1, 65536,
                          SB_FIELD(classes));
  // A model that was resolved for other values is stale.
  for (Field* const field : {&model, &layers, &image, &classes})
    field->set = [set = field->set](Experiment& e, std::string_view text) {
      set(e, text);
      e.model = {};
    };
  t.push_back(model);
  t.push_back(layers);
  t.push_back(image);
  t.push_back(classes);
  t.push_back(integer("seq", "tokens of a sample", 1, batch_limit, SB_FIELD(seq)));
  t.push_back(integer("micro-batch", "samples a rank takes at once", 1, batch_limit, SB_FIELD(micro_batch)));
  t.push_back(integer("global-batch",
                      "samples a step over all ranks; micro-batch * dp when not given (a plan of training needs it)", 1,
                      batch_limit, SB_FIELD(global_batch)));
  t.push_back(choice("precision", "of weights and activations in compute",
                     std::vector{Dtype::f32, Dtype::bf16, Dtype::fp8}, SB_FIELD(precision)));
  t.push_back(choice("gradient-dtype", "in which gradients are kept and reduced", std::vector{Dtype::f32, Dtype::bf16},
                     SB_FIELD(gradient_dtype)));
  add_cut_fields(t);
  add_run_fields(t);
  return t;
}

#undef SB_FIELD

std::vector<Field> const& table() {
  static std::vector<Field> const fields = make_table();
  return fields;
}

Field const& find_field(std::string_view flag) {
  std::vector<std::string> names;
  for (Field const& field : table()) {
    if (field.flag == flag) return field;
    names.push_back(field.flag);
  }
  std::string const near = nearest_name(flag, names);
  std::string const suggestion = near.empty() ? "" : fmt::format(", did you mean --{}?", near);
  throw InputError(fmt::format("--{}: unknown flag{}", printable(flag), suggestion));
}

bool is_plain(std::string_view text) {
  constexpr std::string_view safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,+=@";
  return !text.empty() && text.find_first_not_of(safe) == text.npos;
}

/// As a POSIX shell takes it.
std::string shell_word(std::string const& text) {
  if (is_plain(text)) return text;
  std::string result(1, '\'');
  for (char const c : text) {
    if (c == '\'')
      result.append("'\\''");
    else
      result.push_back(c);
  }
  result.push_back('\'');
  return result;
}

/// Words as a POSIX shell reads what shell_word() wrote.
std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool quoted = false, open = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    char const c = line[i];
    if (c == ' ' && !quoted) {
      open = false;
      continue;
    }
    if (!std::exchange(open, true)) words.emplace_back();
    if (c == '\'')
      quoted = !quoted;
    else if (c == '\\' && !quoted && i + 1 < line.size())
      words.back() += line[++i];
    else
      words.back() += c;
  }
  return words;
}

}  // namespace

Experiment experiment_of_command(std::string_view command) {
  Experiment e;
  std::vector<std::string> const words = shell_words(command);
  for (std::size_t i = 0; i < words.size(); ++i) {
    auto const field = std::ranges::find_if(table(), [&](Field const& f) { return words[i] == "--" + f.flag; });
    if (field == table().end()) continue;
    if (field->is_switch)
      set_field(e, field->flag, "true");
    else if (i + 1 < words.size())
      set_field(e, field->flag, words[++i]);
  }
  resolve(e);
  return e;
}

void set_field(Experiment& experiment, std::string_view flag, std::string_view value) {
  find_field(flag).set(experiment, value);
  experiment.given.emplace(flag);
}

std::vector<FieldInfo> experiment_fields() {
  std::vector<FieldInfo> infos;
  for (Field const& field : table()) infos.push_back({field.flag, field.allowed, field.help, field.is_switch});
  return infos;
}

std::string field_text(Experiment const& experiment, std::string_view flag) { return find_field(flag).get(experiment); }

std::string command_flags(Experiment const& experiment) {
  Experiment const defaults;
  std::string result = "--model " + shell_word(experiment.model_name);
  for (Field const& field : table()) {
    std::string const text = field.get(experiment);
    if (field.flag == "model" || text == field.get(defaults)) continue;
    result += fmt::format(" --{}", field.flag);
    if (!field.is_switch) result += fmt::format(" {}", shell_word(text));
  }
  return result;
}

}  // namespace shardbench

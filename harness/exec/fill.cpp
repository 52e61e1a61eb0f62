// What a runner's tensors hold at first: every element from the generator by its global index, so that a shard is a
// slice of the unsharded tensor whatever the cut.
#include <fmt/format.h>

#include <algorithm>

#include "harness/exec/parameter_values.hpp"
#include "harness/exec/runner.hpp"
#include "kernels/core/counter_rng.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

std::uint64_t tensor_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ull ^ seed;  // FNV-1a
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

std::vector<float> parameter_values(Parameter const& p, std::uint64_t seed) {
  std::vector<float> values(p.elements(), 0.0f);
  std::size_t i = 0;
  for (ParameterSection const& s : p.sections) {
    std::uint64_t const key = tensor_key(seed, s.key);
    for (std::int64_t r = 0; r < s.rows; ++r) {
      std::int64_t const row = s.row_begin + r;
      for (std::int64_t c = 0; c < p.cols; ++c, ++i) {
        // Rows of padding stay zero.
        if (row >= s.global_rows) continue;
        auto const element = static_cast<std::uint64_t>(row * p.global_cols + p.col_begin + c);
        float const noise = random_normal(key, element);
        // Ones and zeros get a little noise: a norm of all ones would hide a wrong slice.
        values[i] = p.init == InitKind::ones ? 1 + 0.1f * noise
                                             : (p.init == InitKind::zeros ? 0.1f : 1.0f) * p.init_scale * noise;
      }
    }
  }
  return values;
}

std::int32_t token_id(std::uint64_t seed, std::int64_t sample, std::int64_t position, std::int64_t seq,
                      std::int64_t vocab) {
  std::uint64_t const bits =
      random_bits(tensor_key(seed, "tokens"), static_cast<std::uint64_t>(sample * (seq + 1) + position));
  return static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(vocab));
}

void Runner::initialize(std::uint64_t seed) {
  synchronize();
  seed_ = seed, passes_ = 0;
  Stream& stream = *queue(StreamId::compute).stream;
  for (std::size_t id = 0; id < program_.tensors.size(); ++id) {
    Tensor const& t = program_.tensors[id];
    auto const& place = plan_.places[id];
    bool const zero = t.role == TensorRole::optimizer || t.role == TensorRole::gradient ||
                      t.role == TensorRole::parameter || t.role == TensorRole::kv_cache;
    if (place.residence != Residence::persistent || !zero || program_.storage_of(id) != TensorId(id)) continue;
    for (std::int32_t i = 0; i < place.instances; ++i)
      device_.fill_bytes(arena_.at(place.offset + i * place.stride), 0, t.bytes(), stream);
  }
  fill_parameters(seed);
  fill_inputs(seed);
  fill_drawn(seed);
  fill_borders(seed);
  fill_constants(seed);
  stream.synchronize();
}

void Runner::fill_parameters(std::uint64_t seed) {
  for (Bucket const& bucket : program_.buckets) {
    std::vector<float> whole(bucket.elements, 0.0f);
    for (ParameterId const index : bucket.parameters) {
      Parameter const& p = program_.parameters[index];
      auto const values = options_.given && options_.given->has_weights() ? options_.given->weight(p)
                                                                          : parameter_values(p, seed);
      auto const offset = program_.tensors[p.weight].storage_offset;
      std::ranges::copy(values, whole.begin() + offset);
    }
    auto const shard = std::span(whole).subspan(bucket.shard_begin, bucket.shard_elements);
    if (bucket.weight_shard == no_tensor)
      write(bucket.weights, whole);
    else
      write(bucket.weight_shard, shard);
    if (bucket.master != no_tensor) write(bucket.master, shard);
  }
}

std::vector<std::int32_t> positions_of(StepProgram const& p) {
  std::vector<std::int32_t> positions;
  for (DimRange const& piece : p.sequence)
    for (std::int64_t s = 0; s < piece.size; ++s) positions.push_back(static_cast<std::int32_t>(piece.begin + s));
  return positions;
}

std::vector<std::int32_t> tokens_of(StepProgram const& p, std::uint64_t seed, std::int32_t microbatch,
                                    std::int64_t first, std::int64_t seq, GivenValues const* given) {
  std::vector<std::int32_t> const positions = positions_of(p);
  bool const has_tokens = given != nullptr && given->has_tokens();
  std::vector<std::int32_t> tokens;
  each_row(p, microbatch, std::ssize(positions), [&](std::int64_t sample, std::int64_t row) {
    std::int64_t const position = first + positions[row];
    tokens.push_back(has_tokens ? given->token(sample, position) : token_id(seed, sample, position, seq, p.vocab));
  });
  return tokens;
}

void Runner::fill_inputs(std::uint64_t seed) {
  StepProgram const& p = program_;
  StepInputs const& inputs = p.inputs;
  set_position(p.inference.context);
  if (p.inference.on) set_prompt(seed);
  if (p.inference.on || inputs.targets == no_tensor) return;
  for (std::int32_t m = 0; m < p.microbatches; ++m) {
    if (inputs.ids == no_tensor) {
      std::vector<std::int32_t> labels;  // one an image
      each_row(p, m, 1,
               [&](std::int64_t sample, std::int64_t) { labels.push_back(token_id(seed, sample, 0, 0, p.vocab)); });
      put<std::int32_t>(inputs.targets, labels, m);
      continue;
    }
    auto const put_ahead = [&](TensorId id, std::int64_t steps) {
      put<std::int32_t>(id, tokens_of(p, seed, m, steps, p.seq, options_.given.get()), m);
    };
    put_ahead(inputs.ids, 0);
    put_ahead(inputs.targets, 1);
    for (std::ptrdiff_t k = 0; k < std::ssize(inputs.future_tokens); ++k) put_ahead(inputs.future_tokens[k], 2 + k);
  }
}

void Runner::fill_constants(std::uint64_t seed) {
  for (Constant const& c : program_.inputs.constants) {
    if (c.key.empty()) {
      put<std::int32_t>(c.tensor, c.integers, 0);
      continue;
    }
    if (options_.given && options_.given->has_weights()) {
      write(c.tensor, options_.given->constant(c.key));
      continue;
    }
    std::vector<float> values(program_.tensors[c.tensor].elements());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = c.scale * random_normal(tensor_key(seed, c.key), static_cast<std::uint64_t>(i));
    write(c.tensor, values);
  }
}

/// Fills a buffer of (position, sample) rows: row r of a sample is row `row_of(sample, r)` of what the key draws.
template <class RowOf>
void Runner::fill_rows(TensorId id, std::uint64_t key, float scale, RowOf row_of) {
  Tensor const& t = program_.tensors[id];
  for (std::int32_t m = 0; m < program_.microbatches; ++m) {
    std::vector<float> values;
    values.reserve(t.elements());
    each_row(program_, m, t.rows / program_.micro_batch, [&](std::int64_t sample, std::int64_t r) {
      std::int64_t const first = row_of(sample, r) * t.cols;
      for (std::int64_t c = 0; c < t.cols; ++c)
        values.push_back(scale * random_normal(key, static_cast<std::uint64_t>(first + c)));
    });
    write(id, values, m);
  }
}

void Runner::fill_drawn(std::uint64_t seed) {
  for (DrawnBuffer const& buffer : program_.inputs.drawn) {
    std::int64_t const positions = program_.tensors[buffer.id].rows / program_.micro_batch;
    fill_rows(buffer.id, tensor_key(seed, buffer.key), buffer.scale,
              [&](std::int64_t sample, std::int64_t r) { return sample * positions + r; });
  }
}

void Runner::fill_borders(std::uint64_t seed) {
  // Block-only programs have no embedding and no loss: inputs and output gradients come from the generator too.
  std::vector<std::int32_t> const positions = positions_of(program_);
  for (Chunk const& chunk : program_.chunks) {
    for (bool const gradient : {false, true}) {
      TensorId const id = gradient ? chunk.output_gradient : chunk.input;
      if (id == no_tensor || program_.tensors[id].role != TensorRole::buffer) continue;
      Tensor const& t = program_.tensors[id];
      bool const cut = is_shard(t.placement[Axis::tp], 0);
      std::int64_t const first = cut ? t.rows / program_.micro_batch * program_.coordinate[Axis::tp] : 0;
      // As large as a mean over tokens makes them, so that sums over the batch stay near one.
      float const scale = gradient ? 1.0f / static_cast<float>(program_.seq * program_.global_batch) : 1.0f;
      fill_rows(id, tensor_key(seed, gradient ? "output_gradient" : "input"), scale,
                [&](std::int64_t sample, std::int64_t r) { return sample * program_.seq + positions[first + r]; });
    }
  }
}

}  // namespace shardbench

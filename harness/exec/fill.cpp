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
  std::vector<float> values(static_cast<std::size_t>(p.elements()), 0.0f);
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
    if (place.residence != Residence::persistent || !zero ||
        program_.storage_of(static_cast<TensorId>(id)) != static_cast<TensorId>(id))
      continue;
    for (std::int32_t i = 0; i < place.instances; ++i)
      device_.fill_bytes(arena_.at(static_cast<std::size_t>(place.offset + i * place.stride)), 0,
                         static_cast<std::size_t>(t.bytes()), stream);
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
    std::vector<float> whole(static_cast<std::size_t>(bucket.elements), 0.0f);
    for (std::int32_t const index : bucket.parameters) {
      Parameter const& p = program_.parameters[static_cast<std::size_t>(index)];
      auto const values = parameter_values(p, seed);
      auto const offset = program_.tensors[static_cast<std::size_t>(p.weight)].storage_offset;
      std::ranges::copy(values, whole.begin() + offset);
    }
    auto const shard = std::span(whole).subspan(static_cast<std::size_t>(bucket.shard_begin),
                                                static_cast<std::size_t>(bucket.shard_elements));
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

namespace {

void put(Device& device, void* to, std::vector<std::int32_t> const& values, Stream& stream) {
  device.copy_from_host(to, values.data(), values.size() * sizeof(std::int32_t), stream);
  stream.synchronize();
}

}  // namespace

void Runner::fill_inputs(std::uint64_t seed) {
  if (program_.inference) {
    set_position(program_.context);
    set_prompt(seed);
    return;
  }
  Stream& stream = *queue(StreamId::compute).stream;
  StepProgram const& p = program_;
  auto const at = [&](TensorId id, std::int32_t m) { return Operands(program_, plan_, arena_, m).at({id, 0, 0}); };
  // Rows are (sequence, batch), sequence outermost.
  std::vector<std::int32_t> const positions = positions_of(p);
  put(device_, at(p.positions, 0), positions, stream);
  // One value a token of a microbatch, by its sample and position.
  auto const each_token = [&](std::int32_t m, auto&& value_of) {
    std::vector<std::int32_t> values;
    for (std::int32_t const position : positions)
      for (std::int64_t b = 0; b < p.micro_batch; ++b)
        values.push_back(value_of(p.first_sample + m * p.micro_batch + b, position));
    return values;
  };
  auto const tokens_ahead = [&](std::int32_t m, std::int64_t steps) {
    return each_token(m, [&](std::int64_t sample, std::int64_t position) {
      return token_id(seed, sample, position + steps, p.seq, p.vocab);
    });
  };
  auto const microbatches = static_cast<std::int32_t>(p.microbatches);
  for (std::int32_t m = 0; p.token_numbers != no_tensor && m < microbatches; ++m) {
    auto const number = [&](std::int64_t sample, std::int64_t position) {
      std::int64_t const n = sample * p.seq + position;
      return static_cast<std::int32_t>(n % p.number_period * p.number_stride % p.number_period);
    };
    put(device_, at(p.token_numbers, m), each_token(m, number), stream);
  }
  if (p.targets == no_tensor) return;
  put(device_, at(p.token_positions, 0),
      each_token(0, [](std::int64_t, std::int64_t position) { return static_cast<std::int32_t>(position); }), stream);
  for (std::int32_t m = 0; m < microbatches; ++m) {
    if (p.ids == no_tensor) {
      std::vector<std::int32_t> labels;  // one an image
      for (std::int64_t b = 0; b < p.micro_batch; ++b)
        labels.push_back(token_id(seed, p.first_sample + m * p.micro_batch + b, 0, 0, p.vocab));
      put(device_, at(p.targets, m), labels, stream);
      continue;
    }
    put(device_, at(p.ids, m), tokens_ahead(m, 0), stream);
    put(device_, at(p.targets, m), tokens_ahead(m, 1), stream);
    for (std::size_t k = 0; k < p.future_tokens.size(); ++k)
      put(device_, at(p.future_tokens[k], m), tokens_ahead(m, 2 + static_cast<std::int64_t>(k)), stream);
  }
}

void Runner::fill_constants(std::uint64_t seed) {
  Stream& stream = *queue(StreamId::compute).stream;
  for (Constant const& c : program_.constants) {
    if (c.key.empty()) {
      put(device_, Operands(program_, plan_, arena_, 0).at({c.tensor, 0, 0}), c.integers, stream);
      continue;
    }
    std::vector<float> values(
        static_cast<std::size_t>(program_.tensors[static_cast<std::size_t>(c.tensor)].elements()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = c.scale * random_normal(tensor_key(seed, c.key), static_cast<std::uint64_t>(i));
    write(c.tensor, values);
  }
}

void Runner::fill_drawn(std::uint64_t seed) {
  for (DrawnBuffer const& buffer : program_.drawn) {
    Tensor const& t = program_.tensors[static_cast<std::size_t>(buffer.id)];
    std::uint64_t const key = tensor_key(seed, buffer.key);
    std::int64_t const positions = t.rows / program_.micro_batch;
    std::vector<float> values(static_cast<std::size_t>(t.elements()));
    for (std::int32_t m = 0; m < static_cast<std::int32_t>(program_.microbatches); ++m) {
      auto value = values.begin();
      for (std::int64_t s = 0; s < positions; ++s)
        for (std::int64_t b = 0; b < program_.micro_batch; ++b) {
          std::int64_t const sample = program_.first_sample + m * program_.micro_batch + b;
          std::int64_t const first = (sample * positions + s) * t.cols;
          for (std::int64_t c = 0; c < t.cols; ++c)
            *value++ = buffer.scale * random_normal(key, static_cast<std::uint64_t>(first + c));
        }
      write(buffer.id, values, m);
    }
  }
}

void Runner::fill_borders(std::uint64_t seed) {
  // Block-only programs have no embedding and no loss: inputs and output gradients come from the generator too.
  std::vector<std::int32_t> const positions = positions_of(program_);
  for (Chunk const& chunk : program_.chunks) {
    for (bool const gradient : {false, true}) {
      TensorId const id = gradient ? chunk.output_gradient : chunk.input;
      if (id == no_tensor || program_.tensors[static_cast<std::size_t>(id)].role != TensorRole::buffer) continue;
      Tensor const& t = program_.tensors[static_cast<std::size_t>(id)];
      std::uint64_t const key = tensor_key(seed, gradient ? "output_gradient" : "input");
      std::int64_t const rows = t.rows / program_.micro_batch;
      bool const cut =
          is_shard(program_.tensors[static_cast<std::size_t>(id)].placement[static_cast<std::size_t>(Axis::tp)], 0);
      std::int64_t const first = cut ? rows * program_.coordinate[static_cast<std::size_t>(Axis::tp)] : 0;
      // As large as a mean over tokens makes them, so that sums over the batch stay near one.
      float const scale = gradient ? 1.0f / static_cast<float>(program_.seq * program_.global_batch) : 1.0f;
      for (std::int32_t m = 0; m < static_cast<std::int32_t>(program_.microbatches); ++m) {
        std::vector<float> values;
        values.reserve(static_cast<std::size_t>(t.elements()));
        for (std::int64_t s = 0; s < rows; ++s)
          for (std::int64_t b = 0; b < program_.micro_batch; ++b) {
            std::int64_t const sample = program_.first_sample + m * program_.micro_batch + b;
            std::int64_t const row = sample * program_.seq + positions[static_cast<std::size_t>(first + s)];
            for (std::int64_t c = 0; c < t.cols; ++c)
              values.push_back(scale * random_normal(key, static_cast<std::uint64_t>(row * t.cols + c)));
          }
        write(id, values, m);
      }
    }
  }
}

}  // namespace shardbench

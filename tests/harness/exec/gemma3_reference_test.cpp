// Gemma 3's forward pass written out once more, in double and without any of the program's parts: windows and rotations
// layer by layer.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numbers>

#include "harness/exec/runner.hpp"
#include "harness/program/passes/lower.hpp"
#include "tests/harness/exec/small_models.hpp"

namespace shardbench::test {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;  ///< one a position

/// A row-major weight [rows, cols] times each row.
Rows product(Rows const& x, std::vector<float> const& weight, std::size_t rows) {
  Rows y(x.size(), Row(rows, 0.0));
  for (std::size_t t = 0; t < x.size(); ++t)
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < x[t].size(); ++c)
        y[t][r] += x[t][c] * static_cast<double>(weight[r * x[t].size() + c]);
  return y;
}

/// RMSNorm of `size` values from `x` on, weights stored as offsets from one.
void norm(double* x, std::size_t size, std::vector<float> const& weight, double eps) {
  double squares = 0;
  for (std::size_t i = 0; i < size; ++i) squares += x[i] * x[i];
  double const scale = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
  for (std::size_t i = 0; i < size; ++i) x[i] *= scale * (1 + static_cast<double>(weight[i]));
}

/// Pairs (d, d + dim/2) turned by position * theta^(-2d/dim) / factor.
void turn(double* head, std::size_t dim, double position, double theta, double factor) {
  for (std::size_t d = 0; d < dim / 2; ++d) {
    double const angle = position / factor / std::pow(theta, 2 * static_cast<double>(d) / static_cast<double>(dim));
    double const a = head[d], b = head[d + dim / 2];
    head[d] = a * std::cos(angle) - b * std::sin(angle);
    head[d + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
}

struct Reference {
  ModelConfig m;
  std::map<std::string, std::vector<float>> weights;

  std::vector<float> const& of(std::int64_t layer, std::string const& name) const {
    return weights.at("layers." + std::to_string(layer) + "." + name + ".weight");
  }
  Rows normed(Rows x, std::vector<float> const& weight) const {
    for (Row& row : x) norm(row.data(), row.size(), weight, static_cast<double>(m.norm_eps));
    return x;
  }

  Rows attention(Rows const& x, std::int64_t layer) const {
    auto const dim = static_cast<std::size_t>(m.head_dim), heads = static_cast<std::size_t>(m.heads),
               kv = static_cast<std::size_t>(m.kv_heads);
    bool const full = (layer + 1) % 3 == 0;
    Rows qkv = product(x, of(layer, "attention.qkv"), (heads + 2 * kv) * dim);
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t h = 0; h < heads + kv; ++h) {
        double* const head = qkv[t].data() + h * dim;
        norm(head, dim, of(layer, h < heads ? "attention.q_norm" : "attention.k_norm"),
             static_cast<double>(m.norm_eps));
        turn(head, dim, static_cast<double>(t), full ? 1e6 : 100, full ? 8 : 1);
      }
    Rows y(x.size(), Row(heads * dim, 0.0));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t h = 0; h < heads; ++h) {
        std::size_t const first = full || t < 4 ? 0 : t - 4, group = h / (heads / kv);  // a window of 5
        Row scores;
        double sum = 0;
        for (std::size_t s = first; s <= t; ++s) {
          double dot = 0;
          for (std::size_t d = 0; d < dim; ++d) dot += qkv[t][h * dim + d] * qkv[s][(heads + group) * dim + d];
          scores.push_back(std::exp(dot * m.attention_scale));
          sum += scores.back();
        }
        for (std::size_t s = first; s <= t; ++s)
          for (std::size_t d = 0; d < dim; ++d)
            y[t][h * dim + d] += scores[s - first] / sum * qkv[s][(heads + kv + group) * dim + d];
      }
    return product(y, of(layer, "attention.out"), static_cast<std::size_t>(m.hidden));
  }

  Rows mlp(Rows const& x, std::int64_t layer) const {
    auto const width = static_cast<std::size_t>(m.ffn_hidden);
    Rows const both = product(x, of(layer, "mlp.up"), 2 * width);
    Rows hidden(x.size(), Row(width));
    for (std::size_t t = 0; t < x.size(); ++t)
      for (std::size_t i = 0; i < width; ++i) {
        double const g = both[t][i];
        double const gelu = 0.5 * g * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (g + 0.044715 * g * g * g)));
        hidden[t][i] = gelu * both[t][width + i];
      }
    return product(hidden, of(layer, "mlp.down"), static_cast<std::size_t>(m.hidden));
  }

  Row logits(std::vector<std::int32_t> const& tokens) const {
    std::vector<float> const& table = weights.at("embedding.word.weight");
    auto const width = static_cast<std::size_t>(m.hidden);
    Rows x;
    for (std::int32_t const token : tokens) {
      Row row(width);
      for (std::size_t i = 0; i < width; ++i)
        row[i] = m.embedding_scale * static_cast<double>(table[static_cast<std::size_t>(token) * width + i]);
      x.push_back(row);
    }
    auto const add = [&](Rows const& branch) {
      for (std::size_t t = 0; t < x.size(); ++t)
        for (std::size_t i = 0; i < width; ++i) x[t][i] += branch[t][i];
    };
    for (std::int64_t layer = 0; layer < m.layers; ++layer) {
      add(normed(attention(normed(x, of(layer, "norm1")), layer), of(layer, "post_norm1")));
      add(normed(mlp(normed(x, of(layer, "norm2")), layer), of(layer, "post_norm2")));
    }
    return product({normed(x, weights.at("final_norm.weight")).back()}, table, table.size() / width).front();
  }
};

TEST(Gemma3, ForwardIsThePlainOne) {
  Experiment e;
  e.model = small_gemma3(4);
  e.model_name = e.model.name;
  e.phase = PhaseKind::prefill;
  e.seq = 13;  // two windows and more
  e.device = DeviceKind::cpu;
  resolve(e);
  auto const device = make_host_device();
  auto const self = make_self_communicator();
  Runner runner(lower(e, 0), *device, *self);
  runner.initialize(e.seed);
  Reference reference{e.model, {}};
  StepProgram const& p = runner.program();
  for (Parameter const& parameter : p.parameters) {
    // Weights large enough that attention looks somewhere, norms that differ.
    std::vector<float> values = runner.read(parameter.weight);
    bool const vector = parameter.rows == 1 || parameter.cols == 1;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = vector ? 0.1f * static_cast<float>(i % 7) - 0.2f : 5 * values[i];
    runner.write(parameter.weight, values);
    reference.weights[parameter.name] = values;
  }
  runner.run_gradients();
  runner.synchronize();
  Row const expected = reference.logits(runner.read_tokens(p.inputs.ids));
  std::vector<float> const actual = runner.read(p.inference.logits);
  ASSERT_EQ(actual.size(), expected.size());
  double squares = 0, error = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    squares += expected[i] * expected[i];
    error = std::max(error, std::abs(static_cast<double>(actual[i]) - expected[i]));
  }
  double const rms = std::sqrt(squares / static_cast<double>(expected.size()));
  EXPECT_GT(rms, 0.01);
  EXPECT_LT(error, 1e-4 * rms);
  // The test can tell: without the own base of the windowed layers, or the others' scaling, logits are elsewhere.
  for (auto const& change : {std::function<void(ModelConfig&)>([](ModelConfig& m) { m.local_rope.reset(); }),
                             std::function<void(ModelConfig&)>([](ModelConfig& m) { m.rope.rule.factor = 1; })}) {
    Experiment other = e;
    change(other.model);
    Runner different(lower(other, 0), *device, *self);
    different.initialize(e.seed);
    for (Parameter const& parameter : p.parameters)
      different.write(parameter.weight, reference.weights.at(parameter.name));
    different.run_gradients();
    different.synchronize();
    std::vector<float> const logits = different.read(p.inference.logits);
    double off = 0;
    for (std::size_t i = 0; i < logits.size(); ++i)
      off = std::max(off, std::abs(static_cast<double>(logits[i]) - expected[i]));
    EXPECT_GT(off, 1e-2 * rms);
  }
}

}  // namespace
}  // namespace shardbench::test

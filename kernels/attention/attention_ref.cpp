#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention_math.hpp"
#include "kernels/core/element.hpp"
#include "kernels/kernel_set_ref.hpp"

namespace shardbench::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Rows of one head of one sequence.
struct Head {
  AttentionTensor tensor;
  Dtype dtype;
  std::int64_t batch, b, head, dim;

  std::int64_t at(std::int64_t s, std::int64_t d) const { return (s * batch + b) * tensor.row_stride + head * dim + d; }
  double operator()(std::int64_t s, std::int64_t d) const { return read_element(tensor.data, dtype, at(s, d)); }
  void set(std::int64_t s, std::int64_t d, double value) const { write_element(tensor.data, dtype, at(s, d), value); }
};

Head query_head(AttentionShape const& shape, AttentionTensor const& tensor, std::int64_t b, std::int64_t head,
                std::int64_t dim) {
  return {tensor, shape.dtype, shape.batch, b, head, dim};
}

Head kv_head(AttentionShape const& shape, AttentionTensor const& tensor, std::int64_t b, std::int64_t head,
             std::int64_t dim) {
  return query_head(shape, tensor, b, head / (shape.heads / shape.kv_heads), dim);
}

double dot(Head const& x, std::int64_t i, Head const& y, std::int64_t j, std::int64_t dim) {
  double sum = 0;
  for (std::int64_t d = 0; d < dim; ++d) sum += x(i, d) * y(j, d);
  return sum;
}

/// Scores of query i after softcap and mask, and d(score)/d(scale * q.k) for each key.
struct ScoreRow {
  std::vector<double> score, slope;
};

ScoreRow score_row(AttentionShape const& shape, Head const& q, std::int64_t i, Head const& k) {
  ScoreRow row{std::vector<double>(shape.seq_k, -infinity), std::vector<double>(shape.seq_k, 0.0)};
  Visibility const visible = visibility_of(shape);
  double const cap = static_cast<double>(shape.softcap);
  for (std::int64_t j = 0; j < shape.seq_k; ++j) {
    if (!visible(q_position(shape, i), k_position(shape, j))) continue;
    double const raw = static_cast<double>(shape.scale) * dot(q, i, k, j, shape.head_dim);
    double const bounded = cap > 0 ? std::tanh(raw / cap) : 0.0;
    row.score[j] = cap > 0 ? cap * bounded : raw;
    row.slope[j] = cap > 0 ? 1 - bounded * bounded : 1.0;
  }
  return row;
}

std::int64_t statistic_index(AttentionShape const& shape, std::int64_t b, std::int64_t head, std::int64_t i) {
  return statistic_row(shape, b, head) + i;
}

void forward_query(AttentionForwardArgs const& args, std::int64_t b, std::int64_t head, std::int64_t i) {
  AttentionShape const& shape = args.shape;
  Head const v = kv_head(shape, args.v, b, head, shape.value_dim);
  Head const out = query_head(shape, args.out, b, head, shape.value_dim);
  std::vector<double> const score = score_row(shape, query_head(shape, args.q, b, head, shape.head_dim), i,
                                              kv_head(shape, args.k, b, head, shape.head_dim))
                                        .score;
  double const highest = *std::max_element(score.begin(), score.end());
  double sum = 0;
  std::vector<double> weighted(shape.value_dim, 0.0);
  for (std::int64_t j = 0; j < shape.seq_k && highest > -infinity; ++j) {
    double const weight = std::exp(score[j] - highest);
    sum += weight;
    for (std::int64_t d = 0; d < shape.value_dim; ++d) weighted[d] += weight * v(j, d);
  }
  for (std::int64_t d = 0; d < shape.value_dim; ++d) {
    out.set(i, d, sum > 0 ? weighted[d] / sum : 0.0);
  }
  if (args.log_sum_exp != nullptr) {
    args.log_sum_exp[statistic_index(shape, b, head, i)] =
        static_cast<float>(sum > 0 ? highest + std::log(sum) : -infinity);
  }
}

/// Gradients of one (batch, head), in double: dq of the head, and what it adds to its kv head's dk and dv.
struct HeadGradient {
  std::vector<double> dq, dk, dv;
};

void backward_query(AttentionBackwardArgs const& args, std::int64_t b, std::int64_t head, std::int64_t i,
                    HeadGradient& gradient) {
  AttentionShape const& shape = args.shape;
  Head const q = query_head(shape, args.q, b, head, shape.head_dim);
  Head const k = kv_head(shape, args.k, b, head, shape.head_dim);
  Head const v = kv_head(shape, args.v, b, head, shape.value_dim);
  Head const out = query_head(shape, args.out, b, head, shape.value_dim);
  Head const dout = query_head(shape, args.dout, b, head, shape.value_dim);
  double const log_sum_exp = static_cast<double>(args.log_sum_exp[statistic_index(shape, b, head, i)]);
  if (log_sum_exp == -infinity) return;
  ScoreRow const row = score_row(shape, q, i, k);
  double const mean = dot(dout, i, out, i, shape.value_dim);
  for (std::int64_t j = 0; j < shape.seq_k; ++j) {
    double const weight = std::exp(row.score[j] - log_sum_exp);
    if (weight == 0) continue;
    double const dscore =
        weight * (dot(dout, i, v, j, shape.value_dim) - mean) * row.slope[j] * static_cast<double>(shape.scale);
    for (std::int64_t d = 0; d < shape.head_dim; ++d) {
      gradient.dq[i * shape.head_dim + d] += dscore * k(j, d);
      gradient.dk[j * shape.head_dim + d] += dscore * q(i, d);
    }
    for (std::int64_t d = 0; d < shape.value_dim; ++d) {
      gradient.dv[j * shape.value_dim + d] += weight * dout(i, d);
    }
  }
}

void write_gradient(Head const& to, std::vector<double> const& values, std::int64_t seq, bool accumulate) {
  for (std::int64_t s = 0; s < seq; ++s) {
    for (std::int64_t d = 0; d < to.dim; ++d) {
      double const value = values[s * to.dim + d];
      to.set(s, d, accumulate ? to(s, d) + value : value);
    }
  }
}

}  // namespace

void attention_forward(AttentionForwardArgs const& args) {
  for (std::int64_t b = 0; b < args.shape.batch; ++b) {
    for (std::int64_t head = 0; head < args.shape.heads; ++head) {
      for (std::int64_t i = 0; i < args.shape.seq_q; ++i) forward_query(args, b, head, i);
    }
  }
}

void attention_backward(AttentionBackwardArgs const& args) {
  AttentionShape const& shape = args.shape;
  std::int64_t const group = shape.kv_heads > 0 ? shape.heads / shape.kv_heads : 0;
  auto const zeros = [](std::int64_t n) { return std::vector<double>(n, 0.0); };
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (std::int64_t kv = 0; kv < shape.kv_heads; ++kv) {
      HeadGradient gradient;
      gradient.dk = zeros(shape.seq_k * shape.head_dim);
      gradient.dv = zeros(shape.seq_k * shape.value_dim);
      for (std::int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        gradient.dq = zeros(shape.seq_q * shape.head_dim);
        for (std::int64_t i = 0; i < shape.seq_q; ++i) backward_query(args, b, head, i, gradient);
        write_gradient(query_head(shape, args.dq, b, head, shape.head_dim), gradient.dq, shape.seq_q,
                       args.accumulate_q);
      }
      write_gradient(query_head(shape, args.dk, b, kv, shape.head_dim), gradient.dk, shape.seq_k, args.accumulate_kv);
      write_gradient(query_head(shape, args.dv, b, kv, shape.value_dim), gradient.dv, shape.seq_k, args.accumulate_kv);
    }
  }
}

}  // namespace shardbench::reference

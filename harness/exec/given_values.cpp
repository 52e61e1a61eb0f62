#include "harness/exec/given_values.hpp"

#include <fmt/format.h>

#include "harness/checkpoint/stored_part.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Tokens of a sample that the experiment reads.
std::int64_t tokens_needed(Experiment const& e) {
  return e.phase == PhaseKind::train ? e.seq + 1 + e.mtp : e.phase == PhaseKind::prefill ? e.seq : e.context + 1;
}

TokenTable checked_tokens(Experiment const& e) {
  TokenTable table = read_token_table(e.token_ids, e.model.vocab);
  std::int64_t const needed = tokens_needed(e);
  if (table.samples < e.global_batch)
    throw InputError(fmt::format("--token-ids: {}: {} samples, the step takes {} (global-batch)", e.token_ids,
                                 table.samples, e.global_batch));
  if (table.length < needed)
    throw InputError(
        fmt::format("--token-ids: {}: {} tokens a sample, the step takes {}", e.token_ids, table.length, needed));
  return table;
}

}  // namespace

GivenValues::GivenValues(Experiment const& e) : model_(e.model) {
  if (!e.weights.empty()) weights_.emplace(e.weights);
  if (!e.token_ids.empty()) tokens_ = checked_tokens(e);
}

std::vector<float> GivenValues::weight(Parameter const& p) {
  std::vector<float> values(p.elements(), 0.0f);
  std::size_t i = 0;
  for (ParameterSection const& s : p.sections) {
    StoredPart const part = stored_part(model_, s.key);
    VALIDATE(std::ssize(part.rows) == s.global_rows && std::ssize(part.cols) == p.global_cols,
             fmt::format("{}: {} x {} in a checkpoint, {} x {} in the program", s.key, part.rows.size(),
                         part.cols.size(), s.global_rows, p.global_cols));
    std::vector<float> const& whole = weights_->read(part.name, part.shape);
    for (std::int64_t r = 0; r < s.rows; ++r)
      for (std::int64_t c = 0; c < p.cols; ++c, ++i)
        if (std::int64_t const row = s.row_begin + r; row < s.global_rows)
          values[i] = whole[part.rows[row] + part.cols[p.col_begin + c]];
  }
  return values;
}

std::vector<float> GivenValues::constant(std::string const& key) {
  StoredPart const part = stored_part(model_, key);
  return weights_->read(part.name, part.shape);
}

std::shared_ptr<GivenValues> given_values(Experiment const& e) {
  return e.weights.empty() && e.token_ids.empty() ? nullptr : std::make_shared<GivenValues>(e);
}

}  // namespace shardbench

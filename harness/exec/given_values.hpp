#pragma once
#include <memory>
#include <optional>

#include "harness/checkpoint/checkpoint.hpp"
#include "harness/checkpoint/token_file.hpp"
#include "harness/config/experiment.hpp"
#include "harness/program/step_program.hpp"

namespace shardbench {

/// What a step starts from where it is given and not drawn: weights of a checkpoint, tokens of a file.
class GivenValues {
 public:
  /// Throws InputError for files that are not what --weights and --token-ids take, and for too few tokens.
  explicit GivenValues(Experiment const& experiment);

  bool has_weights() const { return weights_.has_value(); }
  bool has_tokens() const { return tokens_.has_value(); }
  std::int32_t token(std::int64_t sample, std::int64_t position) const { return tokens_->at(sample, position); }
  /// This rank's part of a weight, [rows, cols]; rows of padding are zero.
  std::vector<float> weight(Parameter const& parameter);
  /// All of a tensor that is no weight of the step (the selection bias of a router), by its key.
  std::vector<float> constant(std::string const& key);

 private:
  ModelConfig model_;
  std::optional<Checkpoint> weights_;
  std::optional<TokenTable> tokens_;
};

/// Nothing where the experiment gives neither.
std::shared_ptr<GivenValues> given_values(Experiment const& experiment);

}  // namespace shardbench

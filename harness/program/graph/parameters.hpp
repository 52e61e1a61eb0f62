#pragma once
#include <string>
#include <vector>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// One independently cut part of a weight's rows: `rows` outputs in `units` equal blocks that stay whole (heads).
struct SectionSpec {
  std::string suffix;
  std::int64_t rows = 0;         ///< global, unpadded
  std::int64_t padded_rows = 0;  ///< what is cut; equals rows unless the vocabulary is padded
  std::int64_t units = 0;        ///< 0: every row is a unit
  bool replicable = false;       ///< may be replicated when units < tp (KV heads)
};

/// A linear layer's weight [sum of section rows, inputs].
struct LinearSpec {
  std::string name;  ///< "attention.qkv"; the global name has the layer before it
  std::string role;  ///< row of the strategy table
  std::vector<SectionSpec> sections;
  std::int64_t inputs = 0;
  bool bias = false;
  ParameterId shared_weight{};  ///< an existing parameter (tied head)
  bool input_gradient = true;   ///< false where the inputs are data
  std::string weight_name{};    ///< of a weight with another name (a tied head's); empty: `name`
  /// Padded rows of all sections.
  std::int64_t outputs() const;
  /// Of those, what is no padding.
  double model_share() const;
};

/// A weight of one section, whose role in the strategy is its name; `units`: blocks of rows that stay whole.
LinearSpec whole_weight(std::string const& name, std::int64_t outputs, std::int64_t inputs, bool bias = false,
                        std::int64_t units = 0);

/// Where the strategy puts a weight along tp.
Placement weight_placement(Tape const& t, std::string const& role);
/// The weight's sections and sizes in this rank; throws IllegalConfig where it cannot be cut so.
Parameter cut_weight(Tape const& t, LinearSpec const& spec, Placement const& placement);
/// First global row that this rank holds of a weight cut by rows.
std::int64_t first_row(Tape const& t, LinearSpec const& spec);

/// A table that rows are looked up in (an embedding), named `spec.name`.weight.
Parameter lookup_table(Tape const& t, LinearSpec const& spec, Placement const& placement);
/// Adds a parameter [rows, cols] that no rank cuts.
ParameterId add_uncut(Tape& t, std::string const& name, std::int64_t rows, std::int64_t cols,
                      InitKind init = InitKind::normal);

/// Sums the rows of dy into the gradient of a bias, where there is one.
void emit_bias_gradient(Tape& t, TensorRef dy, std::int64_t rows, std::int64_t cols, ParameterId bias,
                        Layout const& rows_layout, std::string const& name);
/// Sums the gradients of sections that ranks along tp hold copies of (KV heads fewer than tp).
void reduce_replicated_sections(Tape& t, ParameterId parameter, Placement const& placement,
                                std::vector<SectionSpec> const& sections, std::string const& name);

}  // namespace shardbench

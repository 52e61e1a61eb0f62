#pragma once
#include <string>
#include <vector>

#include "harness/config/yolo.hpp"
#include "harness/program/graph/tape.hpp"

namespace shardbench {

// Convolutional networks over feature maps of `size` x `size` positions, rows (y, x, sample). They are cut over data
// only; batch norm is each replica's own.

/// The layer's convolution, batch norm and activation, as it has them. Channels of x and layer must agree.
Value conv(Tape& t, Value x, ConvLayer const& layer, std::string const& label, bool input_gradient);
Value max_pool(Tape& t, Value x, std::int64_t size, std::int64_t kernel, std::string const& label);
Value upsample(Tape& t, Value x, std::int64_t size, std::int64_t factor, std::string const& label);
/// Columns of all parts side by side.
Value concat(Tape& t, std::vector<Value> const& parts, std::string const& label);
/// The inverse: parts of the given widths. Every part must be used.
std::vector<Value> split(Tape& t, Value x, std::vector<std::int64_t> const& widths, std::string const& label);
/// Full attention over the positions of feature maps; `qk` holds queries, then keys.
Value attend_map(Tape& t, Value qk, Value v, std::int64_t heads, std::string const& label);
/// Ends the graph at x: its gradient comes from the generator, as large as a mean over outputs makes it.
void draw_gradient(Tape& t, Value x, std::string const& name);

}  // namespace shardbench

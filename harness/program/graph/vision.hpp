#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

// Operations on images, whose rows are (y, x, sample), and on the sequences made of them.

/// A buffer for each microbatch that the generator fills by `key` with deviation `scale`.
TensorId drawn_buffer(Tape& t, std::string const& name, std::string const& key, std::int64_t rows, std::int64_t cols,
                      float scale);
/// The images of a microbatch, from the generator.
Value image(Tape& t, std::int64_t height, std::int64_t width, std::int64_t channels);
/// The images cut into squares: rows (patch, sample), columns (y, x, channel) of the patch. Images have no gradient.
Value patches(Tape& t, Value image, std::int64_t image_size, std::int64_t patch_size, std::int64_t channels);
/// x behind one more position, a learned row that all samples share.
Value with_class_token(Tape& t, Value x, std::string const& name);
/// [batch, cols]: the mean of the positions [begin, end) of x.
Value pool_rows(Tape& t, Value x, std::int64_t begin, std::int64_t end, std::string const& name);

}  // namespace shardbench

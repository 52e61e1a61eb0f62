#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Emits what brings x, which lies in `from`, to `to`; throws IllegalConfig where a size does not divide.
Matrix move_to(Tape& t, Matrix x, Layout const& from, Layout const& to, std::string const& name);

/// Copies [rows, cols], scaled; rows lie as far apart as the operand's stride says, side by side without one.
void pack(Tape& t, TensorRef from, TensorRef to, std::int64_t rows, std::int64_t cols, std::string const& name,
          float scale = 1);

/// x with another placement along one axis.
Value redistribute_along(Tape& t, Value x, Axis axis, Placement const& to, std::string const& name);
/// To where blocks want it; whole on every rank where they keep private copies.
Value redistribute_to_block(Tape& t, Value x, std::string const& name);
/// x, summed over tp where it is a partial sum: what a non-linear operation needs.
Value whole(Tape& t, Value x);
/// The same with the rows, or the columns, of all ranks of tp; the other dim may stay cut.
Value all_rows(Tape& t, Value x);
Value all_columns(Tape& t, Value x);

/// Of a buffer with an element for each row (or place in the sequence) of all ranks of tp, this rank's, which are
/// `count`: all of them unless x is cut by rows.
TensorRef own_part(Tape& t, TensorId buffer, Value x, std::int64_t count);
/// Places in the sequence of the rows of x.
TensorRef positions_of(Tape& t, Value x);

}  // namespace shardbench

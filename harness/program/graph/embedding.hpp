#pragma once
#include <string>

#include "harness/program/graph/tape.hpp"

namespace shardbench {

/// Rows of a table by `ids`: a table that this chunk has already, or its own (a copy off the chunk that begins with
/// it).
Value embedding(Tape& t, std::string const& name, std::int64_t rows, std::int64_t padded_rows, TensorId ids);
/// Adds rows of a table chosen by position to x (learned positions).
Value add_positions(Tape& t, Value x, std::string const& name, std::int64_t rows);

/// Tapes what adds `dy` of y to the rows of the table that were looked up.
void embedding_backward(Tape& t, Value y, ParameterId table, EmbeddingShape const& shape, TensorRef ids,
                        std::string const& name);

}  // namespace shardbench

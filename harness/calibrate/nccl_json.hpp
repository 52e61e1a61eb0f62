#pragma once
#include "harness/calibrate/nccl_log.hpp"

namespace shardbench {

/// The JSON that nccl-tests writes with -J. Throws InputError for what is not of that form.
NcclRun parse_nccl_json(std::string_view text, std::string_view name);

}  // namespace shardbench

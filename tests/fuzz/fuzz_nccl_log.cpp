// What reads as a log can be looked over and is fitted or refused with a reason of one line.
#include "harness/calibrate/collective_fit.hpp"
#include "harness/calibrate/nccl_review.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [](std::string_view text) {
    NcclLog const log = parse_nccl_log(text, "fuzz");
    fuzz::require(!log.runs.empty(), "a log without a table is refused");
    for (NcclRun const& run : log.runs) {
      NcclReview const found = review(run);
      CollectiveFit const fit = fit_run(found);
      fuzz::require(fit.refusal.empty() ? fit.bandwidth_gb_per_s > 0 && fit.latency_us > 0
                                        : fit.refusal.find('\n') == fit.refusal.npos,
                    "a fit has a bandwidth, a refusal is one line");
      fuzz::require(run.worlds >= 1 && run.ranks >= 0, "counts are counts");
      for (NcclSuspicion const& s : found.suspicions) fuzz::require(!s.text.empty(), "a suspicion says what it is");
    }
  });
  return 0;
}

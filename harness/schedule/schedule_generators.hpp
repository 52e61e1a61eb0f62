#pragma once
#include "harness/schedule/schedule.hpp"

namespace shardbench {

/// Each fills schedule.order for its kind; stages, chunks and microbatches are set and legal.
void order_gpipe(PipelineSchedule& schedule);        ///< all forwards, then all backwards (Huang et al. 2019)
void order_1f1b(PipelineSchedule& schedule);         ///< PipeDream-flush (Narayanan et al. 2021)
void order_interleaved(PipelineSchedule& schedule);  ///< Megatron's interleaved 1F1B (Narayanan et al. 2021)
void order_zb_h1(PipelineSchedule& schedule);     ///< weight gradients fill the bubble, memory of 1F1B (Qi et al. 2024)
void order_zb_v(PipelineSchedule& schedule);      ///< two chunks in a V, memory of 1F1B (Qi et al. 2024)
void order_dualpipe(PipelineSchedule& schedule);  ///< both directions at once (DeepSeek-V3 report)

}  // namespace shardbench

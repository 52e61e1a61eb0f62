#pragma once
// Published closed forms that programs are compared with.

namespace shardbench::test {

/// FLOPs of a GPT step with ffn = 4h and attention counted in full, without recomputation (Narayanan et al. 2021).
inline double gpt_step_flops(double batch, double seq, double layers, double hidden, double vocab) {
  return 72 * batch * seq * layers * hidden * hidden * (1 + seq / (6 * hidden) + vocab / (12 * layers * hidden));
}

/// Bytes of activations that a GPT layer keeps in bf16 with dropout masks and unfused attention scores (Korthikanti et
/// al. 2022).
inline double gpt_layer_activation_bytes(double seq, double batch, double hidden, double heads, double tp,
                                         bool sequence_parallel) {
  double const scores = 5 * heads * seq / (hidden * tp);
  return seq * batch * hidden * (sequence_parallel ? 34 / tp + scores : 10 + 24 / tp + scores);
}

}  // namespace shardbench::test

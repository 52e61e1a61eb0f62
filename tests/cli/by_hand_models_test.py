#!/usr/bin/env python3
"""Counts of models with experts, latents, images and other blocks, worked out here from their shapes."""
import json
import unittest

from cli import CliTest

HIDDEN, LAYERS, VOCAB, SEQ, MICRO, BATCH = 64, 5, 384, 24, 2, 16
TOKENS, PAIRS = BATCH * SEQ, BATCH * SEQ * (SEQ + 1) // 2
LLAMA = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": 96, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": VOCAB, "tie_word_embeddings": False, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "intermediate_size": 48, "num_local_experts": 6, "num_experts_per_tok": 2}
DEEPSEEK = {"model_type": "deepseek_v3", "hidden_size": HIDDEN, "intermediate_size": 112, "moe_intermediate_size": 24, "num_hidden_layers": LAYERS,
            "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCAB, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
            "q_lora_rank": 40, "kv_lora_rank": 32, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 14, "n_routed_experts": 8,
            "n_shared_experts": 3, "num_experts_per_tok": 2, "first_k_dense_replace": 2, "moe_layer_freq": 1, "n_group": 2, "topk_group": 1,
            "norm_topk_prob": True, "scoring_func": "sigmoid", "routed_scaling_factor": 2.5, "tie_word_embeddings": False}


class ByHandModels(CliTest):
    def describe(self, config, *words):
        path = self.write("config.json", json.dumps(config))
        found = self.call("describe", "--model", path, "--seq", str(SEQ), "--micro-batch", str(MICRO), "--global-batch", str(BATCH), *words, "--json")
        return json.loads(found)

    def flops(self, config, *words):
        return self.describe(config, *words)["flops_per_step_per_rank"]["model_causal_halved"]

    def test_experts(self):
        found = self.describe(MIXTRAL)
        attention = HIDDEN * (64 + 2 * 32) + 64 * HIDDEN
        router, expert = 6 * HIDDEN, 3 * HIDDEN * 48
        self.assertEqual(found["parameters"], 2 * VOCAB * HIDDEN + LAYERS * (attention + router + 6 * expert + 2 * HIDDEN) + HIDDEN)
        # Each token visits 2 of 6.
        products = LAYERS * (attention + router + 2 * expert) + VOCAB * HIDDEN
        self.assertEqual(self.flops(MIXTRAL), 3 * (2 * TOKENS * products + LAYERS * 4 * PAIRS * 64))

    def test_experts_over_ranks_exchange_their_tokens(self):
        found = self.describe(MIXTRAL, "--dp", "2", "--ep", "2")
        layer = 6 * 3 * HIDDEN * 48
        self.assertEqual(self.describe(MIXTRAL)["parameters_held_per_rank"] - found["parameters_held_per_rank"], LAYERS * layer // 2)
        # Out and back, forwards and backwards: the rows of two experts for each token of a rank's microbatches.
        rows = LAYERS * 4 * 2 * TOKENS // 2
        payload = found["traffic_per_step_per_rank"]["ep"]["payload_bytes"]
        self.assertAlmostEqual(payload / (rows * HIDDEN * 4), 1, delta=0.03)  # and the counts of rows

    def test_latents_and_shared_experts(self):
        found = self.describe(DEEPSEEK)
        attention = (HIDDEN * 40 + 40 + 40 * 4 * 20  # queries
                     + HIDDEN * (32 + 8) + 32 + 32 * 4 * (12 + 14)  # keys and values
                     + 4 * 14 * HIDDEN)
        dense, expert = 3 * HIDDEN * 112, 3 * HIDDEN * 24
        experts = 8 * expert + 3 * expert + 8 * HIDDEN + 8  # router weights and its bias
        self.assertEqual(found["parameters"], 2 * VOCAB * HIDDEN + LAYERS * (attention + 2 * HIDDEN) + 2 * dense + 3 * experts + HIDDEN)
        products = LAYERS * (attention - 40 - 32) + 2 * dense + 3 * (2 * expert + 3 * expert + 8 * HIDDEN) + VOCAB * HIDDEN
        self.assertEqual(self.flops(DEEPSEEK), 3 * (2 * TOKENS * products + LAYERS * 2 * PAIRS * 4 * (20 + 14)))

    def test_a_latent_cache(self):
        memory = self.describe(DEEPSEEK, "--phase", "decode", "--context", "7", "--precision", "bf16")["memory_of_fullest_rank"]
        self.assertEqual(memory["kv_cache_bytes"], 2 * BATCH * 8 * LAYERS * (32 + 8))

    def test_heads_of_another_width_and_their_norms(self):
        qwen = {**LLAMA, "model_type": "qwen3", "head_dim": 24}
        attention = HIDDEN * (4 * 24 + 2 * 2 * 24) + 4 * 24 * HIDDEN
        layer = attention + 2 * 24 + 3 * HIDDEN * 96 + 2 * HIDDEN
        self.assertEqual(self.describe(qwen)["parameters"], 2 * VOCAB * HIDDEN + LAYERS * layer + HIDDEN)
        products = LAYERS * (attention + 3 * HIDDEN * 96) + VOCAB * HIDDEN
        self.assertEqual(self.flops(qwen), 3 * (2 * TOKENS * products + LAYERS * 4 * PAIRS * 4 * 24))

    def test_biases_of_queries_keys_and_values(self):
        plain, biased = (self.describe({**LLAMA, "model_type": kind})["parameters"] for kind in ("llama", "qwen2"))
        self.assertEqual(biased - plain, LAYERS * (64 + 2 * 32))

    def test_a_tied_head_has_no_weights_of_its_own(self):
        tied = self.describe({**LLAMA, "tie_word_embeddings": True})
        self.assertEqual(self.describe(LLAMA)["parameters"] - tied["parameters"], VOCAB * HIDDEN)
        self.assertEqual(self.flops({**LLAMA, "tie_word_embeddings": True}), self.flops(LLAMA))

    def test_a_window_hides_older_keys(self):
        window = 5
        mistral = {**LLAMA, "model_type": "mistral", "sliding_window": window}
        seen = BATCH * (window * (window + 1) // 2 + (SEQ - window) * window)
        self.assertEqual(self.flops(LLAMA) - self.flops(mistral), 3 * LAYERS * 4 * (PAIRS - seen) * 64)

    def test_layers_over_stages(self):
        """P04: what is left over goes to the inner stages."""
        layer = HIDDEN * (64 + 2 * 32) + 64 * HIDDEN + 3 * HIDDEN * 96 + 2 * HIDDEN
        for stages, most in ((2, 3), (3, 2), (4, 2), (5, 1)):
            held = self.describe(LLAMA, "--scope", "layer", "--pp", str(stages))["parameters_held_per_rank"]
            self.assertEqual(held, most * layer, stages)

    def test_gradients_in_bf16_are_half_on_the_wire_and_in_memory(self):
        whole, half = (self.describe(LLAMA, "--dp", "2", "--precision", "bf16", "--gradient-dtype", kind) for kind in ("fp32", "bf16"))
        for one, width in ((whole, 4), (half, 2)):
            self.assertEqual(one["traffic_per_step_per_rank"]["dp"]["payload_bytes"], width * one["parameters"])
        self.assertEqual(whole["memory_of_fullest_rank"]["gradient_bytes"], 2 * half["memory_of_fullest_rank"]["gradient_bytes"])

    def test_partly_synchronised_tensor_parallelism_sends_a_part(self):
        """CAAT-Net: of each output the first int(f h) channels."""
        words = ["--tp", "2", "--scope", "layer"]
        full, part = (self.describe(LLAMA, *words, *more)["traffic_per_step_per_rank"]["tp"]["payload_bytes"]
                      for more in ((), ("--tp-sync-fraction", "0.5")))
        rows = LAYERS * BATCH * SEQ * HIDDEN * 4
        self.assertAlmostEqual(full / (4 * rows), 1, delta=0.02)
        # Half of each of two outputs, forwards and backwards, and the input's gradient once.
        self.assertAlmostEqual(part / (4 * rows / 2), 1, delta=0.2)


if __name__ == "__main__":
    unittest.main()

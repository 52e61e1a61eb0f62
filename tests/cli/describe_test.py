#!/usr/bin/env python3
"""describe counts exactly, without hardware and for any number of ranks; models and strategies list what ships."""
import json
import os
import unittest

from cli import DATA, TINY_PARAMETERS, CliTest


class Describe(CliTest):
    def describe(self, *words):
        return json.loads(self.call("describe", *words, "--json"))

    def test_parameters_by_hand(self):
        found = self.describe(*self.model)
        self.assertEqual(found["parameters"], TINY_PARAMETERS)
        self.assertEqual(sum(found["parameters_by_part"].values()), TINY_PARAMETERS)

    def test_presets_have_the_published_counts(self):
        for name, count in (("gpt2", 124439808), ("llama3.1-8b", 8030261248), ("llama3.1-405b", 405853388800),
                            ("qwen3-0.6b", 596049920), ("smollm-360m", 361821120)):
            self.assertEqual(self.describe("--model", name)["parameters"], count, name)

    def test_config_file_of_hugging_face(self):
        path = os.path.join(DATA, "model_configs", "gpt2.json")
        self.assertEqual(self.describe("--model", path)["parameters"], 124439808)

    def test_closed_forms(self):
        # Llama 8B on one rank: products 6 * tokens * weights, attention halved on top.
        found = self.describe("--model", "llama3.1-8b", "--seq", "4096")
        tokens, layers, hidden = 4096, 32, 4096
        products = 6 * tokens * (found["parameters"] - found["parameters_by_part"]["embedding"] - found["parameters_by_part"]["norms"])
        attention = 12 * layers * hidden * tokens * tokens
        flops = found["flops_per_step_per_rank"]
        self.assertAlmostEqual(flops["model_full_attention"] / (products + attention), 1, delta=1e-3)
        self.assertAlmostEqual(flops["model_causal_halved"] / (products + attention / 2), 1, delta=1e-3)

    def test_traffic_by_hand(self):
        # One data-parallel copy each: the gradients once, in fp32; a ring of two moves as much as the payload.
        found = self.describe(*self.model, "--dp", "2")
        traffic = found["traffic_per_step_per_rank"]
        self.assertEqual(set(traffic), {"dp"})
        padding = (512 - 500) * 64
        self.assertAlmostEqual(traffic["dp"]["payload_bytes"], 4 * (TINY_PARAMETERS + padding), delta=4096)
        self.assertEqual(traffic["dp"]["wire_bytes"], traffic["dp"]["payload_bytes"])
        self.assertEqual(self.describe(*self.model)["traffic_per_step_per_rank"], {})

    def test_sixteen_thousand_ranks(self):
        found = self.describe("--model", "llama3.1-405b", "--tp", "8", "--pp", "16", "--dp", "128", "--seq", "8192",
                              "--global-batch", "2048")
        self.assertEqual(found["ranks"], 16384)
        self.assertEqual(found["microbatches"], 16)
        memory = found["memory_of_fullest_rank"]
        parts = sum(memory[f"{part}_bytes"] for part in ("parameter", "gradient", "optimizer", "buffer", "activation"))
        self.assertEqual(memory["peak_bytes"], parts)
        self.assertLess(found["parameters_held_per_rank"] * 128, found["parameters"] * 1.3)

    def test_a_model_without_lowering_is_counted_and_says_so(self):
        config = {"model_type": "mixtral", "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 100,
                  "num_local_experts": 4, "num_experts_per_tok": 2, "mlp_bias": True}
        with open(self.path("config.json"), "w") as file:
            json.dump(config, file)
        text = self.call("describe", "--model", self.path("config.json"))
        self.assertIn("not counted: FLOPs, traffic and memory (biases of experts", text)

    def test_deepseek_v3_on_two_thousand_ranks(self):
        found = self.describe("--model", "deepseek-v3", "--pp", "16", "--ep", "64", "--dp", "128", "--zero", "1")
        self.assertEqual((found["parameters"], found["ranks"]), (671026419200, 2048))
        self.assertGreater(found["traffic_per_step_per_rank"]["ep"]["payload_bytes"], 0)

    def test_decode_holds_a_cache_and_no_gradients(self):
        memory = self.describe(*self.model, "--phase", "decode", "--context", "5")["memory_of_fullest_rank"]
        self.assertGreater(memory["kv_cache_bytes"], 0)
        self.assertEqual(memory["gradient_bytes"] + memory["optimizer_bytes"], 0)

    def test_a_detector_under_data_parallelism(self):
        found = self.describe("--model", "yolo26n", "--dp", "8", "--global-batch", "128")
        self.assertEqual(found["parameters"], 2572280)
        self.assertEqual(found["parameters_held_per_rank"], 2572280)
        self.assertEqual(found["microbatches"], 16)
        # Forward 6.1 GFLOP an image within 2%, three times that for a step, all but the first layer's input gradient.
        images = 16 * 3 * 6.1e9
        self.assertAlmostEqual(found["flops_per_step_per_rank"]["model_full_attention"] / images, 1, delta=0.02)
        # The gradients once, in fp32, each parameter rounded up to 16 elements.
        self.assertAlmostEqual(found["traffic_per_step_per_rank"]["dp"]["payload_bytes"] / (4 * 2572280), 1, delta=0.005)
        self.assertGreater(found["memory_of_fullest_rank"]["activation_bytes"], 0)

    def test_a_vision_transformer(self):
        found = self.describe("--model", "vit-l", "--image-size", "384", "--classes", "1000", "--tp", "2")
        # 24 * 24 patches of 16 px and the class token.
        self.assertIn("577 tokens", self.call("describe", "--model", "vit-l", "--image-size", "384"))
        without = self.describe("--model", "vit-l", "--image-size", "384")
        self.assertEqual(found["parameters"] - without["parameters"], 1000 * 1024 + 1000)

    def test_a_counted_row(self):
        self.call("describe", *self.model, "--tp", "2", "--out", self.path("d.csv"))
        (row,) = self.rows(self.path("d.csv"))
        self.assertEqual((row["source"], row["outcome"], row["tp"], row["step_ms_p50"]), ("counted", "passed", "2", ""))
        self.assertGreater(float(row["payload_bytes_tp"]), 0)
        again = json.loads(self.call(*self.flags_of(row), "--json"))
        self.assertEqual(again["parameters"], TINY_PARAMETERS)

    def test_listings(self):
        self.assertIn("llama3.1-405b", self.call("models"))
        strategies = self.call("strategies")
        for flag in ("--dp", "--tp", "--pp", "--vpp", "--cp", "--ep", "--etp", "--zero", "--sequence-parallel", "--tp-sync-fraction",
                     "--schedule dualpipe", "--recompute", "--strategy"):
            self.assertIn(flag, strategies)
        self.assertIn("mpi", self.call("doctor"))

    def test_every_command_has_help_with_an_example(self):
        top = self.call("--help")
        for command in ("models", "strategies", "describe", "run", "sweep", "schedule", "compare", "doctor"):
            self.assertIn(command, top)
            self.assertIn(f"shardbench {command}", self.call(command, "--help"))
        self.assertNotIn("worker", top)


if __name__ == "__main__":
    unittest.main()

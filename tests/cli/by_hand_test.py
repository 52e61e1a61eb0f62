#!/usr/bin/env python3
"""Counts, memory, traffic and rates of a small Llama at sizes that are all different, worked out here from its shape."""
import json
import re
import unittest

from cli import QUICK, CliTest

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 64, 96, 6, 8, 2, 8, 384
SEQ, MICRO, BATCH = 24, 2, 16
CONFIG = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
          "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB, "tie_word_embeddings": False,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
# Weights of a layer's products: queries, keys and values, output, gate and up, down.
PRODUCTS = HIDDEN * (HEADS + 2 * KV_HEADS) * HEAD_DIM + HEADS * HEAD_DIM * HIDDEN + 2 * HIDDEN * FFN + FFN * HIDDEN
PARAMETERS = 2 * VOCAB * HIDDEN + LAYERS * (PRODUCTS + 2 * HIDDEN) + HIDDEN
TOKENS = BATCH * SEQ
PAIRS = BATCH * SEQ * (SEQ + 1) // 2  # of a query and a key it sees
MICROBATCHES = BATCH // MICRO
ROWS = MICRO * SEQ * HIDDEN  # elements of a block's input


def step_flops(layers=LAYERS, vocab=VOCAB, pairs=PAIRS):
    """Forward and twice that backward: two FLOPs a weight and token, and two products over each pair's head."""
    return 3 * (2 * TOKENS * (layers * PRODUCTS + vocab * HIDDEN) + layers * 2 * 2 * pairs * HEADS * HEAD_DIM)


class ByHand(CliTest):
    def setUp(self):
        super().setUp()
        self.llama = self.write("llama.json", json.dumps(CONFIG))
        self.words = ["--model", self.llama, "--seq", str(SEQ), "--micro-batch", str(MICRO), "--global-batch", str(BATCH)]

    def describe(self, *words):
        return json.loads(self.call("describe", *self.words, *words, "--json"))

    def bytes_on(self, axis, *words):
        return self.describe(*words)["traffic_per_step_per_rank"].get(axis, {}).get("payload_bytes", 0)

    def test_parameters(self):
        found = self.describe()
        self.assertEqual(found["parameters"], PARAMETERS)
        self.assertEqual(found["parameters_held_per_rank"], PARAMETERS)

    def test_parameters_of_a_rank(self):
        cut = LAYERS * (PRODUCTS // 2 + 2 * HIDDEN) + HIDDEN
        # With tp 2 the vocabulary is padded to a multiple of 256.
        self.assertEqual(self.describe("--tp", "2")["parameters_held_per_rank"], cut + 2 * 512 // 2 * HIDDEN)
        # Of two stages the last holds the norm at the end too.
        half = LAYERS // 2 * (PRODUCTS + 2 * HIDDEN) + VOCAB * HIDDEN
        self.assertEqual(self.describe("--pp", "2")["parameters_held_per_rank"], half + HIDDEN)

    def test_flops(self):
        flops = self.describe()["flops_per_step_per_rank"]
        self.assertEqual(flops["model_causal_halved"], step_flops())
        self.assertEqual(flops["hardware_causal_halved"], step_flops())
        self.assertEqual(flops["model_full_attention"], step_flops(pairs=BATCH * SEQ * SEQ))
        for cut in (("--dp", "4"), ("--pp", "2"), ("--cp", "2")):
            ranks = int(cut[1])
            self.assertEqual(self.describe(*cut)["flops_per_step_per_rank"]["model_causal_halved"], step_flops() / ranks, cut)

    def test_full_recomputation_runs_the_layers_forward_again(self):
        flops = self.describe("--recompute", "full")["flops_per_step_per_rank"]
        self.assertEqual(flops["model_causal_halved"], step_flops())
        self.assertEqual(flops["hardware_causal_halved"] - step_flops(), step_flops(vocab=0) / 3)

    def test_tensor_parallel_layers_reduce_four_times(self):
        for precision, width in (("fp32", 4), ("bf16", 2)):
            six, five = (self.bytes_on("tp", "--tp", "2", "--precision", precision, "--layers", str(n)) for n in (6, 5))
            self.assertEqual(six - five, MICROBATCHES * 4 * ROWS * width)

    def test_wire_bytes_are_a_rings(self):
        for ranks in (2, 4):
            for words, factor in ((("--dp", str(ranks)), 2 * (ranks - 1) / ranks), (("--dp", str(ranks), "--zero", "1"), (ranks - 1) / ranks)):
                dp = self.describe(*words)["traffic_per_step_per_rank"]["dp"]
                self.assertAlmostEqual(dp["wire_bytes"], factor * dp["payload_bytes"], delta=1)

    def test_data_parallel_gradients_are_reduced_once(self):
        self.assertEqual(self.bytes_on("dp", "--dp", "4"), 4 * PARAMETERS)
        # Gradients scattered, weights gathered.
        self.assertEqual(self.bytes_on("dp", "--dp", "4", "--zero", "1"), 4 * PARAMETERS + 4 * PARAMETERS)
        # Scattered after each of 2 microbatches in fp32, and bf16 weights gathered once.
        self.assertEqual(self.bytes_on("dp", "--dp", "4", "--zero", "2", "--precision", "bf16"), 2 * 4 * PARAMETERS + 2 * PARAMETERS)
        # Each of 2 microbatches gathers twice and scatters once.
        self.assertEqual(self.bytes_on("dp", "--dp", "4", "--zero", "3"), 2 * 3 * 4 * PARAMETERS)

    def test_pipeline_messages(self):
        # Over one border, an activation and a gradient of each microbatch; counted where it is sent, the mean of two ranks.
        self.assertEqual(self.bytes_on("pp", "--pp", "2"), MICROBATCHES * ROWS * 4)
        self.assertEqual(self.bytes_on("pp", "--pp", "3"), MICROBATCHES * ROWS * 4 * 4 / 3)

    def test_context_parallel_ring(self):
        # Keys and values of half the positions go round forwards and backwards, and their gradients backwards, twice.
        half = LAYERS * MICROBATCHES * MICRO * SEQ // 2 * 2 * KV_HEADS * HEAD_DIM * 4
        self.assertEqual(self.bytes_on("cp", "--cp", "2"), half * (1 + 1 + 2))

    def test_states(self):
        memory = self.describe()["memory_of_fullest_rank"]
        self.assertEqual([memory[f"{part}_bytes"] for part in ("parameter", "gradient", "optimizer")],
                         [4 * PARAMETERS, 4 * PARAMETERS, 8 * PARAMETERS])
        for zero, shares in ((0, (1, 1, 1)), (1, (1, 1, 4)), (2, (1, 4, 4)), (3, (4, 4, 4))):
            memory = self.describe("--precision", "bf16", "--dp", "4", "--zero", str(zero))["memory_of_fullest_rank"]
            self.assertEqual([memory[f"{part}_bytes"] for part in ("parameter", "gradient", "optimizer")],
                             [2 * PARAMETERS / shares[0], 4 * PARAMETERS / shares[1], 12 * PARAMETERS / shares[2]], zero)

    def test_more_microbatches_in_flight_on_the_first_stage(self):
        memory = self.describe("--pp", "2")["memory_of_fullest_rank"]
        self.assertEqual((memory["stage"], memory["microbatches_in_flight"]), (0, 2))
        self.assertEqual(self.describe("--pp", "2", "--schedule", "gpipe")["memory_of_fullest_rank"]["microbatches_in_flight"], MICROBATCHES)

    def test_a_decoded_token(self):
        context = 7
        found = self.describe("--phase", "decode", "--context", str(context), "--precision", "bf16")
        # Keys and values of the context and the new token.
        self.assertEqual(found["memory_of_fullest_rank"]["kv_cache_bytes"], 2 * BATCH * (context + 1) * LAYERS * 2 * KV_HEADS * HEAD_DIM)
        self.assertEqual(found["flops_per_step_per_rank"]["model_causal_halved"],
                         BATCH * (2 * (LAYERS * PRODUCTS + VOCAB * HIDDEN) + LAYERS * 4 * (context + 1) * HEADS * HEAD_DIM))

    def test_a_simulated_row(self):
        (row,) = json.loads(self.call("simulate", *self.words, "--tp", "2", "--dp", "2", "--recompute", "full", "--precision", "bf16",
                                      "--system", "h100-sxm", "--json"))
        seconds = row["step_ms_p50"] / 1e3
        # tp pads the vocabulary to 512, which is work of nobody's model.
        model, hardware = step_flops() / 4, (step_flops() + step_flops(vocab=0) / 3) / 4
        for name, value in (("samples_per_s", BATCH / seconds), ("tokens_per_s", TOKENS / seconds),
                            ("tokens_per_s_per_rank", TOKENS / seconds / 4), ("model_tflops_per_rank", model / seconds / 1e12),
                            ("hardware_tflops_per_rank", hardware / seconds / 1e12), ("peak_tflops", 989.4),
                            ("mfu_pct", 100 * model / seconds / 989.4e12), ("hfu_pct", 100 * hardware / seconds / 989.4e12)):
            self.assertAlmostEqual(row[name] / value, 1, delta=1e-5, msg=name)
        parts = row["compute_ms"] + row["exposed_comm_ms"] + row["idle_ms"]
        self.assertAlmostEqual(parts / row["step_ms_p50"], 1, delta=1e-5)

    def test_the_bubble_of_a_simulated_pipeline(self):
        """Of stages that are alike, (p-1)/(m+p-1) of the step is idle. With B = 2F stage k waits k F for its first message
        and (p-1-k) 3F for gradients, then k 2F for the others to end: on the mean 2/3 of it are waits for messages."""
        words = ["--model", "llama3.1-8b", "--layers", "8", "--scope", "layer", "--seq", "4096", "--global-batch", "8",
                 "--precision", "bf16", "--system", "h100-sxm", "--json"]
        for stages in (2, 4):
            (row,) = json.loads(self.call("simulate", *words, "--pp", str(stages)))
            share = (stages - 1) / (8 + stages - 1)
            self.assertAlmostEqual(row["idle_ms"] / row["step_ms_p50"] / share, 1, delta=0.05)
            self.assertAlmostEqual(row["bubble_ms"] / row["idle_ms"], 2 / 3, delta=0.02)

    def test_ops_of_four_ranks(self):
        """busbw is 2(n-1)/n = 1.5 times algbw of an all-reduce, (n-1)/n = 0.75 of a gather; algbw is bytes over time."""
        config = dict(CONFIG, num_key_value_heads=4)
        words = ["--model", self.write("four.json", json.dumps(config)), *self.words[2:]]
        reduced, scattered = self.path("reduced.csv"), self.path("scattered.csv")
        self.call("run", *words, *QUICK, "--tp", "4", "--out", reduced)
        self.call("run", *words, *QUICK, "--tp", "4", "--sequence-parallel", "--out", scattered)
        factors = {"all_reduce": 1.5, "all_gather": 0.75, "reduce_scatter": 0.75}
        seen = set()
        for path in (reduced, scattered):
            (row,) = self.rows(path)
            for op in self.rows(path.replace(".csv", "_ops.csv")):
                seconds = float(op["p50_us"]) / 1e6
                if op["axis"] == "compute":
                    self.assertEqual((op["algbw_gb_per_s"], op["busbw_gb_per_s"]), ("", ""))
                    if float(op["flops"]) > 0:
                        self.assertAlmostEqual(float(op["tflops"]) / (float(op["flops"]) / seconds / 1e12), 1, delta=1e-4)
                    continue
                seen.add(op["kind"])
                self.assertEqual(op["tflops"], "")
                self.assertAlmostEqual(float(op["algbw_gb_per_s"]) / (float(op["bytes"]) / seconds / 1e9), 1, delta=1e-4)
                self.assertAlmostEqual(float(op["busbw_gb_per_s"]) / float(op["algbw_gb_per_s"]), factors[op["kind"]], delta=1e-4)
            self.assertAlmostEqual(float(row["tokens_per_s"]) * float(row["step_ms_p50"]) / 1e3, TOKENS, delta=0.01)
        self.assertEqual(seen, set(factors))

    def test_rates_of_a_measured_row(self):
        out = self.path("run.csv")
        self.call("run", *self.words, *QUICK, "--tp", "2", "--out", out)
        (row,) = self.rows(out)
        seconds = float(row["step_ms_p50"]) / 1e3
        for name, flops in (("model_tflops_per_rank", step_flops() / 2), ("hardware_tflops_per_rank", step_flops() / 2)):
            self.assertAlmostEqual(float(row[name]) / (flops / seconds / 1e12), 1, delta=1e-4, msg=name)

    def test_closed_forms_of_schedules_are_their_bubbles(self):
        """F = 1 and B = 2, of which W = 1: (p-1)(F+B), a vpp-th of it, (p-1)(F+B-2W)."""
        for words, bubble in ((("--schedule", "1f1b"), 9), (("--schedule", "gpipe"), 9), (("--vpp", "2"), 4.5), (("--schedule", "zb-h1"), 3)):
            text = self.call("schedule", *words, "--pp", "4", "--microbatches", "12")
            played, closed = re.search(r"bubble +([0-9.]+) .*= ([0-9.]+)", text).groups()
            self.assertEqual((float(played), float(closed)), (bubble, bubble), text)


if __name__ == "__main__":
    unittest.main()

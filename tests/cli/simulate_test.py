#!/usr/bin/env python3
"""simulate foretells a step on a system; systems lists what ships; results/accuracy is what the program says today."""
import csv
import json
import os
import sys
import unittest

from cli import BINARY, DATA, CliTest

ROOT = os.path.dirname(os.path.dirname(DATA))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import published_steps  # noqa: E402

LLAMA = ["--model", "llama3.1-405b", "--tp", "8", "--pp", "16", "--dp", "128", "--seq", "8192", "--global-batch", "2048",
         "--precision", "bf16", "--sequence-parallel", "--recompute", "full", "--zero", "1", "--system", "h100-sxm", "--stack", "te-2025"]


class Simulate(CliTest):
    def test_row_adds_up(self):
        row = json.loads(self.call("simulate", *LLAMA, "--json"))[0]
        self.assertEqual((row["source"], row["outcome"], row["system"], row["software_stack"]),
                         ("simulated", "passed", "h100-sxm", "te-2025"))
        self.assertAlmostEqual(row["compute_ms"] + row["exposed_comm_ms"] + row["idle_ms"], row["step_ms_p50"],
                               delta=1e-6 * row["step_ms_p50"])
        self.assertAlmostEqual(row["tokens_per_s"], 2048 * 8192 / row["step_ms_p50"] * 1e3, delta=1)
        self.assertAlmostEqual(row["mfu_pct"], 100 * row["model_tflops_per_rank"] / 989.4, places=6)

    def test_a_decoded_step_is_a_token_of_each_sample(self):
        words = ["--model", "gpt2", "--micro-batch", "4", "--global-batch", "4", "--system", "h100-sxm", "--json"]
        (decode,) = json.loads(self.call("simulate", *words, "--phase", "decode", "--context", "128"))
        self.assertAlmostEqual(decode["tokens_per_s"], 4e3 / decode["step_ms_p50"], places=6)
        self.assertEqual(decode["tpot_ms"], decode["step_ms_p50"])
        (prefill,) = json.loads(self.call("simulate", *words, "--phase", "prefill", "--seq", "128"))
        self.assertAlmostEqual(prefill["tokens_per_s"], 4 * 128e3 / prefill["step_ms_p50"], delta=1e-6 * prefill["tokens_per_s"])
        self.assertEqual(prefill["ttft_ms"], prefill["step_ms_p50"])

    def test_operations_of_all_stages_are_merged(self):
        whole = ["simulate", *self.model, "--global-batch", "4", "--system", "h100-sxm"]
        self.call(*whole, "--out", self.path("one.csv"))
        self.call(*whole, "--pp", "2", "--out", self.path("two.csv"))
        ran = {(r["label"], r["phase"]): r for r in self.rows(self.path("one_ops.csv"))}
        rows = self.rows(self.path("two_ops.csv"))
        cut = {(r["label"], r["phase"]): r for r in rows if r["kind"] != "send, receive"}
        self.assertLessEqual(set(ran), set(cut))  # embedding of the first stage, head and loss of the last
        (row,) = self.rows(self.path("two.csv"))
        compute = sum(float(r["total_ms"]) for r in rows if r["axis"] == "compute")
        self.assertAlmostEqual(compute, float(row["compute_ms"]), delta=1e-6 * compute)
        for key in (k for k in cut if "loss" in k[0]):  # on one stage of two: half of it, a rank
            self.assertAlmostEqual(float(cut[key]["total_ms"]), float(ran[key]["total_ms"]) / 2, places=9)
            self.assertAlmostEqual(float(cut[key]["predicted_us"]), float(ran[key]["predicted_us"]), places=6)

    def test_what_is_said_to_have_no_effect_has_none(self):
        def told(*words):
            (row,) = json.loads(self.call("simulate", "--model", "gpt2", "--layers", "4", "--seq", "128", "--global-batch", "8",
                                          "--system", "h100-sxm", "--json", *words))
            numbers = {name: value for name, value in row.items() if name.endswith(("_ms", "_p50", "_bytes", "_per_rank"))
                       or name.startswith(("payload", "wire"))}
            return numbers, row["reason"] or ""

        for axis, width, knobs in (("dp", "2", (["--zero", "1"], ["--zero", "2"], ["--zero", "3"], ["--bucket-mb", "1"])),
                                   ("tp", "2", (["--sequence-parallel"], ["--tp-overlap", "chunked"], ["--tp-sync-fraction", "0.5"])),
                                   ("pp", "2", (["--schedule", "gpipe"], ["--schedule", "zb-h1"], ["--schedule", "zb-v"])),
                                   ("cp", "2", (["--cp-method", "all-gather"], ["--cp-method", "ulysses"]))):
            alone, wide = told(), told("--" + axis, width)
            self.assertEqual((alone[1], wide[1]), ("", ""))
            for knob in knobs:
                with self.subTest(knob=knob):
                    numbers, reason = told(*knob)
                    self.assertIn(f"{knob[0][2:]}: ", reason)
                    self.assertIn(f"has no effect at {axis} 1", reason)
                    self.assertEqual(numbers, alone[0])
                    numbers, reason = told(*knob, "--" + axis, width)
                    self.assertEqual(reason, "")
                    self.assertNotEqual(numbers, wide[0])

    def test_names_are_checked(self):
        for words, say in ((["--system", "h100-sx"], "did you mean h100-sxm?"), ([], "--system: missing"),
                           (["--system", "h100-sxm", "--stack", "none"], "shipped: ")):
            self.assertIn(say, self.refused("simulate", "--model", "gpt2", *words))

    def test_committed_accuracy_is_reproduced(self):
        with open(os.path.join(ROOT, "results", "accuracy", "step_times.csv"), newline="", encoding="utf-8") as file:
            said = {(r["source"], r["name"]): r["predicted_ms"] for r in csv.DictReader(file)}
        with open(os.path.join(DATA, "published", "step_times.csv"), newline="", encoding="utf-8") as file:
            rows = [r for r in csv.DictReader(file) if r["source"] == "korthikanti22"]
        self.assertTrue(rows)
        for row in (v for r in rows if r["note"] != "layer" for v in published_steps.variants(r)):
            answer, complaint = published_steps.simulate(BINARY, self.folder, row, published_steps.stack_of(row["stack"]))
            self.assertIsNotNone(answer, complaint)
            step = answer["step_ms_p50"]
            self.assertAlmostEqual(step, float(said[row["source"], row["name"]]), delta=0.02 * step, msg=row["name"])


if __name__ == "__main__":
    unittest.main()

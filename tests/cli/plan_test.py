#!/usr/bin/env python3
"""plan answers with rows that simulate reproduces, and says in one line what it cannot take."""
import json
import shlex
import unittest

from cli import CliTest

SMALL = ["--system", "h100-sxm", "--gpus", "8", "--global-batch", "32", "--seq", "1024", "--model", "gpt2-medium", "--layers", "8"]


class Plan(CliTest):
    def test_rows_reproduce(self):
        out = self.path("plan.csv")
        rows = json.loads(self.call("plan", *SMALL, "--top", "2", "--json", "--out", out))
        self.assertEqual([row["source"] for row in rows], ["planned"] * 2)
        self.assertLessEqual(rows[0]["step_ms_p50"], rows[1]["step_ms_p50"])
        self.assertEqual(len(self.rows(out)), 2)
        (again,) = json.loads(self.call(*shlex.split(rows[0]["command"])[1:], "--json"))
        self.assertAlmostEqual(again["step_ms_p50"], rows[0]["step_ms_p50"], delta=1e-9 * again["step_ms_p50"])
        self.assertEqual(again["memory_peak_bytes"], rows[0]["memory_peak_bytes"])

    def test_fixed_axes_and_training(self):
        text = self.call("plan", *SMALL, "--fix", "tp=2,pp=2", "--exclude", "zero=3", "--tokens", "1B", "--deadline", "1d")
        self.assertIn("best      tp 2, pp 2, dp 2", text)
        self.assertIn("1,000,000,000 tokens: 30,518 steps", text)
        self.assertIn("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", text)
        self.assertIn("deadline  1 days: met", text)

    def test_scaling_curve(self):
        text = self.call("plan", *SMALL[:2], "--gpus", "1..4", *SMALL[4:], "--top", "1")
        self.assertIn("scaling at a fixed global batch", text)

    def test_nothing_fits(self):
        text = self.call("plan", "--model", "llama3.1-405b", "--system", "h100-sxm", "--gpus", "8", "--global-batch", "8",
                         "--seq", "4096", "--fix", "micro-batch=1", expect=1)
        self.assertIn("nothing fits", text)
        self.assertIn("change    at least", text)

    def test_wrong_input(self):
        for words in (["--gpus", "0"], ["--gpus", "8..4"], ["--fix", "tp=zero"], ["--fix", "heads=1"], ["--tokens", "-1"],
                      ["--tokens", "1Q"], ["--deadline", "3d"], ["--system", "h101"], ["--fix", "tp=3"], ["--max-memory", "no"]):
            result = self.refused("plan", *SMALL, *words)
            self.assertIn(words[0].strip("-") if words[0] != "--fix" else "-", result)


if __name__ == "__main__":
    unittest.main()

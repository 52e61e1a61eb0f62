#!/usr/bin/env python3
"""bench_components answers what the formulas say by hand; accuracy_components.py scores every published row once."""
import csv
import math
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "accuracy_components.py")
BINARY = os.path.join(os.environ.get("SHARDBENCH_BIN", os.path.join(ROOT, "build", "bin")), "bench_components")


def ask(*requests):
    return subprocess.run([BINARY], input="\n".join(requests), capture_output=True, text=True, check=False)


class AccuracyComponents(unittest.TestCase):
    def test_times_are_those_of_a_hand_calculation(self):
        # 512 tiles of 256 x 128 over 108 processors, each 4096 + 146 deep, at 0.8991 of 312 TFLOP/s.
        waves = 0.5303 * 5 + (1 - 0.5303) * 512 / 108
        product = 4.15 + waves * 2 * 256 * 128 * (4096 + 146) / (312e6 / 108 * 0.8991)
        # One row, once through a matrix of 2^28 bytes at 0.727 of 2039 GB/s, after a cast of one byte an element and 3 us.
        row = 4.15 + 2 * (2**14 + 2**28 / 2 + 2**13) / (0.727 * 2039e3) + 2**14 / 2039e3 + 3
        ring = 14 + 14 * 1.0 + 1750 + math.sqrt(12 * 1750)
        in_switch = 13 + 1000 + math.sqrt(12 * 1000)
        wire = 1.75 * 270 / 0.3645
        answers = ask("product a100-80gb-sxm bf16 4096 4096 4096", "product a100-80gb-sxm bf16 1 8192 16384 1 3",
                      "collective a100-80gb-sxm all_reduce 8 232.5e6", "collective h100-sxm all_reduce 8 270e6",
                      "collective h100-sxm all_reduce 8 270e6 no-switch", "collective b200 message 16 43e6")
        self.assertEqual(answers.returncode, 0, answers.stderr)
        wanted = (product, row, ring, in_switch, 5 + 14 * 0.75 + wire + math.sqrt(12 * wire), 20 + 1000 + math.sqrt(22 * 1000))
        for told, by_hand in zip(answers.stdout.split(), wanted, strict=True):
            self.assertAlmostEqual(float(told) / by_hand, 1, places=7)

    def test_senseless_requests_are_refused_in_one_line(self):
        for request in ("product h100-sxm bf16 1 1", "product h100-sxm bf16 1 1 x", "product nothing bf16 1 1 1",
                        "product a100-80gb-sxm fp8 1 1 1", "collective h100-sxm gather 8 1", "collective h100-sxm all_reduce 1 1",
                        "collective h100-sxm all_reduce 8 1 other", ""):
            done = ask("collective h100-sxm all_reduce 8 1", request + "\n")
            self.assertEqual(done.returncode, 2, request)
            self.assertTrue(done.stderr.startswith("bench_components: line 2: "), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_every_published_row_is_scored_once(self):
        rows = 0
        for name in ("products.csv", "collectives.csv"):
            with open(os.path.join(ROOT, "tests/data/published", name), encoding="utf-8") as file:
                table = list(csv.DictReader(file))
            self.assertLessEqual({r["split"] for r in table}, {"fitted", "left out"})
            rows += len(table)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, SCRIPT, "--binary", BINARY, "--out", folder], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(folder, "components.csv"), encoding="utf-8") as file:
                lines = list(csv.DictReader(file))
        counts = [sum(int(r["count"]) for r in lines if r["source"].startswith("all ") == whole) for whole in (False, True)]
        self.assertEqual(counts, [rows, rows])

    def test_a_missing_program_is_told_in_one_line(self):
        done = subprocess.run([sys.executable, SCRIPT, "--binary", "/no/such/program"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()

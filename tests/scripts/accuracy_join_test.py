#!/usr/bin/env python3
"""accuracy_join.py pairs predictions with measurements and judges errors and order."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "accuracy_join.py")
KEYS = ("model", "layers", "scope", "seq", "micro_batch", "global_batch", "precision", "ranks", "dp", "tp", "pp", "zero_stage",
        "sequence_parallel", "schedule")


class AccuracyJoin(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, steps, variation):
        """A report with a row for each tp: (step ms); all else alike."""
        with open(os.path.join(self.folder, name), "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=[*KEYS, "step_ms_p50", "step_cv_pct", "iterations"])
            writer.writeheader()
            for tp, step in steps.items():
                writer.writerow(dict.fromkeys(KEYS, "1") | {"tp": tp, "step_ms_p50": step, "step_cv_pct": variation, "iterations": 25})

    def join(self, *places):
        return subprocess.run([sys.executable, SCRIPT, os.path.join(self.folder, "out.csv"), *places], capture_output=True, text=True,
                              check=False)

    def test_errors_and_order(self):
        # tp 1 and 2 are 1% apart, within the spread; 1 and 4 as well as 2 and 4 are not, and one of these is told the wrong way.
        self.write("host-measured.csv", {1: 100, 2: 101, 4: 200, 8: 300}, 10)
        self.write("host-predicted.csv", {1: 110, 2: 101, 4: 105}, 0)
        done = self.join("host=" + os.path.join(self.folder, "host"), "link=" + os.path.join(self.folder, "link"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 configurations, mean absolute error 19.2%, median 10.0%, worst -47.50%", done.stdout)
        self.assertIn("1 of 2 pairs in the right order", done.stdout)
        with open(os.path.join(self.folder, "out.csv"), encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["error_pct"] for row in rows], ["10.00", "0.00", "-47.50"])

    def test_rounds_count_by_their_median(self):
        path = os.path.join(self.folder, "host-measured.csv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=[*KEYS, "step_ms_p50", "step_cv_pct", "iterations"])
            writer.writeheader()
            for step in (100, 190, 104):
                writer.writerow(dict.fromkeys(KEYS, "1") | {"step_ms_p50": step, "step_cv_pct": 1, "iterations": 25})
        self.write("host-predicted.csv", {1: 130}, 0)
        self.assertIn("1 configurations, mean absolute error 25.0%", self.join("host=" + os.path.join(self.folder, "host")).stdout)
        with open(os.path.join(self.folder, "out.csv"), encoding="utf-8") as file:
            row = next(csv.DictReader(file))
        self.assertEqual((row["rounds"], row["measured_ms"]), ("3", "104.000"))
        self.assertAlmostEqual(float(row["measured_half_width_ms"]), 2.5 * 50.83 / 3**0.5, delta=1)

    def test_nothing_to_join_fails(self):
        self.assertEqual(self.join("host=" + os.path.join(self.folder, "none")).returncode, 1)
        self.assertEqual(self.join().returncode, 2)


if __name__ == "__main__":
    unittest.main()

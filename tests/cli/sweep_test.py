#!/usr/bin/env python3
"""A sweep has a row for each point, runs those that fit, says why others do not, and goes on where it stopped."""
import json
import unittest

from cli import QUICK, CliTest


class Sweep(CliTest):
    def test_every_cut_over_four_ranks(self):
        out = self.path("sweep.csv")
        words = ["sweep", *self.model, *QUICK, "--micro-batch", "1", "--global-batch", "8", "--dp", "1,2,4", "--tp", "1,2,4", "--pp", "1,2,4",
                 "--ranks", "4", "--check", "--out", out]
        text = self.call(*words)
        self.assertIn("6 passed, 21 skipped", text)
        rows = self.rows(out)
        self.assertEqual(len(rows), 27)
        self.assertEqual(len({(row["dp"], row["tp"], row["pp"]) for row in rows}), 27)
        for row in rows:
            product = int(row["dp"]) * int(row["tp"]) * int(row["pp"])
            self.assertEqual(row["outcome"], "passed" if product == 4 else "skipped", row)
            if product == 4:
                self.check_passed(row)
            else:
                self.assertIn(f"uses {product} rank", row["reason"])
                self.assertIn("4 asked", row["reason"])
                self.assertEqual(row["step_ms_p50"], "")
        self.assertIn("nothing to do", self.call(*words, "--resume"))
        self.assertEqual(len(self.rows(out)), 27)

    def test_knobs_of_an_axis_of_one_rank_are_said(self):
        out = self.path("knobs.csv")
        words = ["sweep", *self.model, *QUICK, "--global-batch", "2", "--dp", "1,2", "--tp", "1,2", "--zero", "1", "--sequence-parallel",
                 "--out", out]
        self.call(*words)
        rows = {(row["dp"], row["tp"]): row for row in self.rows(out)}
        self.assertEqual({row["outcome"] for row in rows.values()}, {"passed"})
        for (dp, tp), row in rows.items():
            self.assertEqual("zero: 1 has no effect at dp 1" in row["reason"], dp == "1", row["reason"])
            self.assertEqual("sequence-parallel: true has no effect at tp 1" in row["reason"], tp == "1", row["reason"])
        again = self.call(*self.flags_of(rows["1", "1"]))
        self.assertIn("has no effect at dp 1", again)

    def check_passed(self, row):
        self.assertLess(float(row["max_rel_error"]), 1e-4)
        self.assertEqual(int(row["microbatches"]), 8 // int(row["dp"]))
        self.assertEqual(row["device_count"], "4")
        parts = sum(float(row[name]) for name in ("compute_ms", "exposed_comm_ms", "idle_ms"))
        self.assertAlmostEqual(parts, float(row["instrumented_step_ms"]), delta=1e-6 * parts)
        for name in ("parameter_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "memory_peak_bytes"):
            self.assertGreater(float(row[name]), 0, name)
        for axis in ("dp", "tp", "pp"):
            used = int(row[axis]) > 1
            for name in ("payload_bytes", "wire_bytes"):
                self.assertEqual(row[f"{name}_{axis}"] != "" and float(row[f"{name}_{axis}"]) > 0, used, (axis, row))

    def test_illegal_points_name_the_legal_values(self):
        (one, two, three) = json.loads(self.call("sweep", "--model", "smollm-360m", "--layers", "1", "--seq", "16", "--tp", "2,3,15", "--json"))
        for row in (one, two, three):
            self.assertEqual(row["outcome"], "skipped")
            self.assertIn("1, 5", row["reason"])

    def test_skipped_points_are_folded_by_their_reason(self):
        """The table is of what ran; what did not run is told with a count and an example, with and without --out."""
        words = ["sweep", *self.model, *QUICK, "--global-batch", "2", "--tp", "1,2,3,5", "--dp", "1,2", "--ranks", "2"]
        for extra in ([], ["--out", self.path("folded.csv")]):
            text = self.call(*words, *extra)
            lines = text[text.index("configuration"):].splitlines()
            self.assertEqual([line.split("  ")[0] for line in lines[1:3]], ["tp 1, dp 2", "tp 2, dp 1"])
            self.assertEqual(lines[3], "")
            self.assertEqual(lines[4:6], ["2 skipped, e.g. tp 1, dp 1: uses 1 rank, 2 asked",
                                          "4 skipped, e.g. tp 3, dp 1: uses 3 ranks, 2 asked; tp: 3 does not divide 4 query heads, does not "
                                          f"divide 256 ffn, and 4 kv heads: neither divides the other; legal for {self.tiny}: 1, 2, 4"])
            self.assertEqual(lines[7].split(";")[0], "2 passed, 6 skipped")
        text = self.call("sweep", *self.model, "--tp", "3,5")
        self.assertNotIn("configuration", text)
        self.assertIn("2 skipped, e.g. tp 3: tp: 3 does not divide", text)

    def test_rank_counts_may_differ_and_order_is_kept(self):
        rows = json.loads(self.call("sweep", *self.model, *QUICK, "--tp", "2,1", "--json"))
        self.assertEqual([(row["tp"], row["ranks"], row["outcome"]) for row in rows], [(2, 2, "passed"), (1, 1, "passed")])

    def test_resume_runs_only_what_is_new(self):
        out = self.path("grow.csv")
        self.call("sweep", *self.model, *QUICK, "--micro-batch", "1,2", "--out", out)
        text = self.call("sweep", *self.model, *QUICK, "--micro-batch", "1,2,4", "--out", out, "--resume")
        self.assertIn("1 to run", text)
        self.assertIn("2 already in", text)
        self.assertEqual([row["micro_batch"] for row in self.rows(out)], ["1", "2", "4"])
        self.call("sweep", *self.model, *QUICK, "--micro-batch", "4", "--out", out)
        self.assertEqual(len(self.rows(out)), 4)

    def test_a_spec_and_flags_that_override_it(self):
        spec = self.write("s.yaml", f"model: {self.tiny}\nseq: 32\nmax-iterations: 2\nwarmup: 0\nmicro-batch: [1, 2]\ncheck: [true]\n")
        rows = json.loads(self.call("sweep", "--spec", spec, "--micro-batch", "4", "--seq", "16", "--json"))
        self.assertEqual([(row["micro_batch"], row["seq"]) for row in rows], [(4, 16)])
        self.assertIsNone(rows[0]["max_rel_error"])  # one rank: the unsharded step itself
        self.assertIn("nothing compared", rows[0]["reason"])


if __name__ == "__main__":
    unittest.main()

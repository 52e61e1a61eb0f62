#!/usr/bin/env python3
"""The benchmark binaries list what they measure, measure it, and leave results that hold together."""
import json
import os
import subprocess
import sys
import unittest

FOLDER = os.path.dirname(os.environ.get("SHARDBENCH", "build/bin/shardbench"))
MPIRUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "mpirun.sh")


def binary(name):
    return os.path.join(FOLDER, name)


class Benchmarks(unittest.TestCase):
    def call(self, *words, expect=0):
        done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
        self.assertEqual(done.returncode, expect, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout + done.stderr

    def measured(self, *words):
        text = self.call(*words, "--benchmark_format=json")
        return json.loads(text[text.index("{") :])["benchmarks"]

    def test_each_lists_what_it_measures(self):
        for name in ("bench_kernels", "bench_simulate", "bench_planner"):
            self.assertGreaterEqual(len(self.call(binary(name), "--benchmark_list_tests").split()), 1, name)

    def test_collectives_are_right_and_have_the_bus_bandwidth_of_their_ranks(self):
        """Over 4 ranks: all-reduce 2 * 3/4 of algbw, gathers and exchanges 3/4, the others all of it."""
        factors = {"all_reduce": 1.5, "reduce_scatter": 0.75, "all_gather": 0.75, "all_to_all": 0.75, "broadcast": 1, "send_receive": 1}
        found = self.measured(MPIRUN, "4", binary("bench_collectives"), "--largest=4K")
        self.assertEqual({one["name"].split("/")[0] for one in found}, set(factors))
        sizes = set()
        for one in found:
            name, size = one["name"].split("/")[:2]
            size = int(size.split(":")[1])
            sizes.add(size)
            self.assertEqual(one["wrong"], 0)
            self.assertAlmostEqual(one["algbw_GB/s"] / (size / one["median_us"] / 1e3), 1, delta=1e-6)
            self.assertAlmostEqual(one["busbw_GB/s"] / one["algbw_GB/s"], factors[name], delta=1e-9)
        self.assertEqual(sizes, {256, 1024, 4096})

    def test_a_size_that_cannot_be_read_is_refused(self):
        """C09: one parser for sizes; 2X is none."""
        text = self.call(MPIRUN, "1", binary("bench_collectives"), "--largest=2X", expect=2)
        self.assertIn("--largest: '2X'", text)


if __name__ == "__main__":
    if not all(os.path.exists(binary(name)) for name in ("bench_kernels", "bench_simulate", "bench_planner", "bench_collectives")):
        sys.exit(77)  # only the tests were built
    unittest.main()

#!/usr/bin/env python3
"""The scores of published steps by hand: order, regret, bands, and a fit that finds what made the data."""
import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import accuracy
import fit_stacks
import published_steps as steps

BINARY = os.path.join(os.environ.get("SHARDBENCH_BIN", os.path.join(ROOT, "build/bin")), "bench_steps")


def row(name="r", measured="100", **more):
    return {"source": "s", "where": "", "name": name, "model": "gpt2", "system": "a100-80gb-sxm", "stack": "megatron-unfused",
            "seq": "1024", "tp": "1", "pp": "1", "vpp": "1", "dp": "8", "cp": "1", "ep": "1", "micro_batch": "1",
            "global_batch": "8", "recompute": "none", "note": "", "measured_ms": measured, **more}


def told(measured, predicted, **more):
    made = row(measured=str(measured), **more)
    t = accuracy.Told(made, [(made, steps.Answer(f"1 2 {predicted} 0 {predicted} 0"))])
    t.split = "fitted"
    return t


class Scores(unittest.TestCase):
    def test_order_and_regret_by_hand(self):
        # Measured 100 < 110 < 120; told 105 > 101 < 130: one pair of three the wrong way round, and 110 chosen for 100.
        group = [told(100, 105), told(110, 101), told(120, 130)]
        self.assertEqual(accuracy.kendall(group), (2, 1))
        self.assertAlmostEqual(accuracy.regret(group), 10)

    def test_rows_within_a_percent_are_no_pair(self):
        self.assertEqual(accuracy.kendall([told(100, 1), told(100.5, 2), told(200, 3)]), (2, 0))

    def test_a_band_holds_four_of_five(self):
        rows = [told(100, 100 + e) for e in (1, -2, 3, -4, 50)]
        self.assertEqual(accuracy.bands_of(rows)[0]["band_pct"], "4.0")
        self.assertEqual(accuracy.bands_of(rows[:4]), [])

    def test_swept_rows_and_experts_are_no_part_of_the_mean(self):
        self.assertEqual(accuracy.split_of(row(micro_batch="1,2")), "swept")
        self.assertEqual(accuracy.split_of(row(ep="8")), "experts")
        self.assertEqual(accuracy.split_of(row(measured="")), "out of memory")

    def test_variants_are_all_combinations(self):
        found = steps.variants(row(micro_batch="1,2", recompute="none,full"))
        self.assertEqual([(v["micro_batch"], v["recompute"]) for v in found], [("1", "none"), ("1", "full"), ("2", "none"), ("2", "full")])


class Made:
    """Steps made of a share of products, at their sustained rate, and a share of traffic."""

    def __init__(self, rows, values, truth):
        self.rows, self.keys = rows, [[("sustained", "a100 bf16"), ("elementwise_traffic", "megatron")] for _ in rows]
        self.base = {k: fit_stacks.in_units(k, v) for k, v in values.items()}
        self.at, self.slopes = [], []
        for i in range(len(rows)):
            share = 0.3 + 0.6 * i / len(rows)
            slopes = [share * truth[self.keys[i][0]], (1 - share) / truth[self.keys[i][1]]]
            self.slopes.append(slopes)
            self.at.append(sum(s * self.base[k] for s, k in zip(slopes, self.keys[i])))

    told = fit_stacks.Surrogate.told


class Fits(unittest.TestCase):
    def test_a_fit_finds_the_numbers_that_made_the_steps(self):
        truth = {**fit_stacks.START, ("sustained", "a100 bf16"): 0.8, ("elementwise_traffic", "megatron"): 1.4}
        made = Made([row(str(i)) for i in range(20)], fit_stacks.START, truth)
        found = fit_stacks.fit(made, range(20), fit_stacks.START)
        for key in made.keys[0]:
            self.assertAlmostEqual(found[key] / truth[key], 1, delta=0.05)

    def test_a_group_without_rows_takes_what_its_family_has_in_common(self):
        truth = {**fit_stacks.START, ("elementwise_traffic", "megatron"): 2.2}
        made = Made([row(str(i)) for i in range(20)], fit_stacks.START, truth)
        found = fit_stacks.fit(made, range(20), fit_stacks.START)
        ratio = found["elementwise_traffic", "megatron"] / fit_stacks.START["elementwise_traffic", "megatron"]
        self.assertAlmostEqual(found["norm_traffic", "eager"] / fit_stacks.START["norm_traffic", "eager"], ratio, delta=0.01)

    def test_a_stack_has_four_fitted_numbers_at_most(self):
        for stack in {r["stack"] for r in steps.read_rows()}:
            names = {k[0] for r in steps.read_rows() if r["stack"] == stack for k in fit_stacks.keys_of(r)}
            self.assertLessEqual(len({n for n in names if not fit_stacks.FAMILY[n].of_device}), 4, stack)

    def test_the_seed_draws_half(self):
        rows = steps.read_rows()
        large = [r for r in rows if r["source"] not in fit_stacks.SMALL]
        self.assertAlmostEqual(sum(map(fit_stacks.drawn, large)) / len(large), 0.5, delta=0.05)
        for source in {r["source"] for r in rows}:
            few = sum(r["source"] == source for r in rows) < 30
            self.assertEqual(few, source in fit_stacks.SMALL, source)


class Batch(unittest.TestCase):
    def ask(self, *lines):
        return subprocess.run([BINARY], input="".join(line + "\n" for line in lines), capture_output=True, text=True).stdout.splitlines()

    def test_answers_what_simulate_does_and_says_why_not(self):
        flags = {"model": "gpt2", "layers": "2", "seq": "128", "dp": "2", "global-batch": "4", "precision": "bf16"}
        line = "h100-sxm te-2025,ours " + " ".join(f"{k}={v}" for k, v in flags.items())
        good, bad, nonsense = self.ask(line, line + " tp=7", "h100-sxm ours")
        needed, capacity, step, optimizer, ours, _ = map(float, good.split())
        self.assertEqual(capacity, 80e9)
        self.assertTrue(0 < optimizer < step and 0 < needed < capacity and ours > 0)
        self.assertTrue(bad.startswith("! ") and "tp" in bad)
        self.assertIn("FLAG=VALUE", nonsense)


if __name__ == "__main__":
    unittest.main()

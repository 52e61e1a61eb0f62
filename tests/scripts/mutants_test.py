#!/usr/bin/env python3
"""Small faults are drawn from code alone, the same for a seed, and each changes one place of one line."""
import collections
import os
import subprocess
import sys
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import mutants  # noqa: E402

TEXT = """#include <vector>
// a + b < 3 && true
double f(double a, double b, bool c) {
  EXPECT(a < 1);
  if (a < b && !c) return 2.5;
  log("a - b < 4", a);
  total += weigh(a, b);
  return -a + std::max(a, b) * 7;
}
"""


class Mutants(unittest.TestCase):
    def setUp(self):
        self.all = list(mutants.mutants_of("harness/f.cpp", TEXT))
        self.lines = {(m.kind, m.apply(TEXT).split("\n")[m.line - 1].strip()) for m in self.all}

    def test_comments_literals_and_checks_of_programmer_errors_are_left_alone(self):
        self.assertEqual({m.line for m in self.all}, {5, 6, 7, 8})
        self.assertEqual([m for m in self.all if m.line == 6 and m.kind != "dropped"], [])

    def test_each_kind_is_there(self):
        for kind, line in (("comparison", "if (a <= b && !c) return 2.5;"), ("comparison", "if (a > b && !c) return 2.5;"),
                           ("boolean", "if (a < b || !c) return 2.5;"), ("boolean", "if (a < b && c) return 2.5;"),
                           ("boolean", "if (!(a < b && !c)) return 2.5;"), ("constant", "if (a < b && !c) return 5.0;"),
                           ("dropped", "if (a < b && !c) ;"), ("dropped", ";"), ("arithmetic", "total -= weigh(a, b);"),
                           ("swapped", "total += weigh(b, a);"), ("sign", "return a + std::max(a, b) * 7;"),
                           ("swapped", "return -a + std::min(a, b) * 7;"), ("constant", "return -a + std::max(a, b) * 8;"),
                           ("arithmetic", "return -a - std::max(a, b) * 7;"), ("arithmetic", "return -a + std::max(a, b) / 7;")):
            self.assertIn((kind, line), self.lines)

    def test_one_line_changes(self):
        for m in self.all:
            changed = [i for i, (a, b) in enumerate(zip(TEXT.split("\n"), m.apply(TEXT).split("\n")), 1) if a != b]
            self.assertEqual(changed, [m.line], m.key())

    def test_a_key_names_one_fault_wherever_its_line_is(self):
        keys = [m.key() for m in self.all]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(keys, [m.key() for m in mutants.mutants_of("harness/f.cpp", "\n\n" + TEXT)])
        twice = collections.Counter(m.key() for m in mutants.mutants_of("harness/f.cpp", TEXT + TEXT))
        self.assertEqual(set(twice.values()), {1})

    def test_a_seed_draws_the_same(self):
        first, again, other = (mutants.draw(ROOT, seed, 40, ["harness/record/*", "kernels/rope/*"]) for seed in (5, 5, 6))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(all(m.path.startswith(("harness/", "kernels/")) and "_cuda" not in m.path for m in first))
        self.assertEqual({m.module() for m in first}, {"harness/record", "kernels"})

    def test_the_list_needs_no_build_and_bad_flags_are_refused(self):
        run = lambda *words: subprocess.run([os.path.join(ROOT, "scripts", "mutate.sh"), *words], capture_output=True, text=True, check=False)
        self.assertEqual(len(run("--list", "--count", "7", "--files", "harness/record/*").stdout.splitlines()), 7)
        self.assertEqual(run("--list", "--count", "0").returncode, 2)
        self.assertIn("--files", run("--list", "--files", "nothing/*").stderr)


if __name__ == "__main__":
    unittest.main()

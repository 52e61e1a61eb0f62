#!/usr/bin/env python3
"""The check on product functions that only tests reach finds one, and leaves called ones alone."""
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "unreached_test.py")


class Unreached(unittest.TestCase):
    def problems(self, **files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {"harness/a.hpp": "#pragma once\n/// What it does.\nint lonely(int a);\n",
                               "harness/a.cpp": "int lonely(int a) {\n  return a;\n}\n",
                               "tests/a_test.cpp": "TEST(A, B) { EXPECT_EQ(lonely(1), 1); }\n", **files}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            done = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1 if done.stdout else 0, done.stderr)
            return done.stdout.splitlines()

    def test_one_that_tests_alone_call_is_named(self):
        self.assertEqual(self.problems(), ["harness/a.hpp: lonely is called by tests alone"])
        self.assertEqual(self.problems(**{"tests/a_test.cpp": ""}), ["harness/a.hpp: lonely is called by nobody"])

    def test_a_word_in_a_comment_or_a_text_is_no_call(self):
        self.assertEqual(len(self.problems(**{"bench/b.cpp": '// lonely(1)\nchar const* text = "lonely(1)";\n'})), 1)

    def test_a_call_of_a_command_is_enough(self):
        for call in ("int main() { return lonely(1); }\n", "auto const f = &lonely;\n", "int main() {\n  if (x) lonely(1);\n}\n"):
            self.assertEqual(self.problems(**{"bench/b.cpp": call}), [], call)


if __name__ == "__main__":
    unittest.main()

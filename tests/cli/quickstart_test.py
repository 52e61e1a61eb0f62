#!/usr/bin/env python3
"""The commands of scripts/quickstart.sh, word for word but for a small GPT-2, shorter sequences and fewer iterations, give whole rows that pass."""
import os
import re
import shlex
import unittest

from cli import CliTest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "quickstart.sh")


class Quickstart(CliTest):
    def commands(self):
        with open(SCRIPT, encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
        model = re.search(r"^model=\((.*)\)$", text, re.MULTILINE).group(1)
        for line in re.findall(r"^build/bin/shardbench (.*)$", text, re.MULTILINE):
            yield shlex.split(line.replace('"${model[@]}"', model).replace("$out", self.folder))

    def test_every_row_passes(self):
        commands = list(self.commands())
        self.assertEqual([words[0] for words in commands], ["run", "sweep", "sweep"])
        for words in commands:
            self.assertEqual(words[words.index("--model") + 1], "gpt2")
            words[words.index("--model") + 1] = self.tiny
            words[words.index("--seq") + 1] = "16"
            if "--max-seconds" in words:
                at = words.index("--max-seconds")
                del words[at : at + 2]
            if "--warmup" not in words:
                words += ["--warmup", "1"]
            self.call(*words, "--max-iterations", "2")
        cut = lambda row: tuple(int(row[axis]) for axis in ("dp", "tp", "pp"))
        timing, check = self.rows(self.path("timing.csv")), self.rows(self.path("check.csv"))
        self.assertEqual([cut(row) for row in timing if row["outcome"] == "passed"], [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1)])
        passed = {cut(row) for row in check if row["outcome"] == "passed"}
        self.assertEqual(passed, {(dp, tp, 4 // dp // tp) for dp in (1, 2, 4) for tp in (1, 2, 4) if dp * tp <= 4})
        self.assertTrue({row["outcome"] for row in timing + check} <= {"passed", "skipped"})
        for row in check:
            if row["outcome"] == "passed":
                self.assertLess(float(row["max_rel_error"]), 1e-5)


if __name__ == "__main__":
    unittest.main()

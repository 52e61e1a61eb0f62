#!/usr/bin/env python3
"""schedule prints the table of the papers, the bubble and the activation peak."""
import re
import unittest

from cli import CliTest


class Schedule(CliTest):
    def test_chunks_that_a_schedule_does_not_have_are_refused(self):
        for words, part in ((["--schedule", "1f1b", "--vpp", "2"], "interleaved"), (["--schedule", "gpipe", "--vpp", "2"], "gpipe has 1 chunk"),
                            (["--schedule", "zb-v", "--vpp", "3"], "zb-v has 2 chunks"), (["--schedule", "interleaved"], "vpp >= 2"),
                            (["--vpp", "2", "--pp", "1"], "pp >= 2")):
            self.assertIn(part, self.refused("schedule", *words))

    def test_microbatches_that_run_refuses_are_not_drawn(self):
        """P05: the rules are those of `run`, in its words."""
        for count in (9, 6, 1):
            words = ["--schedule", "dualpipe", "--pp", "4"]
            drawn = self.refused("schedule", *words, "--microbatches", str(count))
            run = self.refused("run", "--model", "gpt2", "--seq", "16", *words, "--global-batch", str(count))
            self.assertEqual(drawn, run)
            self.assertIn(f"{count} microbatches", drawn)
        for count in (2, 6, 7, 9, 10, 11):
            self.schedule("--schedule", "interleaved", "--pp", "4", "--vpp", "2", "--microbatches", str(count))
        for schedule in ("zb-v", "zb-h1", "1f1b", "gpipe"):  # which take any number
            self.schedule("--schedule", schedule, "--pp", "4", "--microbatches", "3")

    def schedule(self, *words):
        text = self.call("schedule", *words)
        bubble = float(re.search(r"bubble +([0-9.]+)", text).group(1))
        peak = [int(n) for n in re.search(r"peak .*: ([0-9 ]+)", text).group(1).split()]
        return text, bubble, peak

    def test_one_forward_one_backward(self):
        text, bubble, peak = self.schedule("--schedule", "1f1b", "--pp", "4", "--microbatches", "8")
        self.assertEqual(bubble, (4 - 1) * (1 + 2))
        self.assertEqual(peak, [4, 3, 2, 1])
        rows = [line.split()[2:] for line in text.splitlines() if line.startswith("stage ")]
        self.assertEqual(rows[3][:9], [".", ".", ".", "F0", "B0", "B0", "F1", "B1", "B1"])
        self.assertEqual(rows[0][:4], ["F0", "F1", "F2", "F3"])
        for row in rows:
            self.assertEqual(sum(cell.startswith("F") for cell in row), 8)
            self.assertEqual(sum(cell.startswith("B") for cell in row), 16)

    def test_gpipe(self):
        _, bubble, peak = self.schedule("--schedule", "gpipe", "--pp", "4", "--microbatches", "8")
        self.assertEqual(bubble, 9)
        self.assertEqual(peak, [8, 8, 8, 8])

    def test_interleaving_divides_the_bubble(self):
        text, bubble, _ = self.schedule("--pp", "4", "--vpp", "2", "--microbatches", "8")
        self.assertIn("interleaved", text)
        self.assertEqual(bubble, 4.5)

    def test_one_stage_has_none(self):
        self.assertEqual(self.schedule("--pp", "1", "--microbatches", "3")[1], 0)

    def test_a_wide_one_is_text(self):
        text, _, _ = self.schedule("--pp", "8", "--microbatches", "64")
        self.assertIn("1f1b stages=8 chunks=1 microbatches=64", text)


if __name__ == "__main__":
    unittest.main()

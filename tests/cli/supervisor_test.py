#!/usr/bin/env python3
"""A configuration that crashes or hangs becomes a row, and the sweep goes on behind it; an interrupt leaves whole rows."""
import os
import signal
import subprocess
import time
import unittest

from cli import BINARY, QUICK, CliTest


class Supervisor(CliTest):
    def sweep(self, fault, *words, ranks="2", expect=1):
        out = self.path("faults.csv")
        cut = ["--dp", ranks] if ranks != "1" else []
        text = self.call("sweep", *self.model, *QUICK, *cut, "--micro-batch", "1,2,4", "--out", out, *words,
                         variables={"SHARDBENCH_TEST_FAULT": fault}, expect=expect)
        return text, self.rows(out)

    def test_a_crash_over_ranks(self):
        text, rows = self.sweep("crash@1")
        self.assertEqual([(row["micro_batch"], row["outcome"]) for row in rows], [("1", "passed"), ("2", "failed"), ("4", "passed")])
        self.assertRegex(rows[1]["reason"], "signal|Signal|exit status")
        self.assertIn("2 passed, 1 failed", text)
        self.assertIn("\n1 failed: micro-batch 2: ", text)

    def test_a_crash_alone(self):
        _, rows = self.sweep("crash@0", ranks="1")
        self.assertEqual([row["outcome"] for row in rows], ["failed", "passed", "passed"])
        self.assertIn("signal 6", rows[0]["reason"])

    def test_a_hang_over_ranks(self):
        _, rows = self.sweep("hang@1", "--timeout", "5")
        self.assertEqual([(row["micro_batch"], row["outcome"]) for row in rows], [("1", "passed"), ("2", "timeout"), ("4", "passed")])
        self.assertIn("5 s", rows[1]["reason"])
        self.assertEqual(rows[1]["step_ms_p50"], "")

    def test_a_failed_point_is_not_run_again_by_resume(self):
        self.sweep("crash@2", ranks="1")
        text, rows = self.sweep("none", "--resume", ranks="1", expect=0)
        self.assertIn("0 to run", text)
        self.assertEqual(len(rows), 3)

    def test_an_interrupt_before_the_first_row_names_no_file(self):
        for words in ([], ["--out", self.path("never.csv")]):
            process = subprocess.Popen([BINARY, "sweep", *self.model, *QUICK, "--micro-batch", "1,2", *words], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, env={**os.environ, "SHARDBENCH_TEST_FAULT": "hang@0"})
            process.stdout.readline()
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            text, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1)
            self.assertIn("no configuration ended", text)
            self.assertIn("none to --resume from" if words else "which --out does", text)
            self.assertNotIn("never.csv", text)
            self.assertFalse(os.path.exists(self.path("never.csv")))

    def test_a_killed_sweep_does_not_write_behind_its_resumption(self):
        """Its job outlives it (orphan@1) and ends the point that --resume measures meanwhile: one row of each point."""
        out = self.path("killed.csv")
        words = [BINARY, "sweep", *self.model, *QUICK, "--micro-batch", "1,2,4", "--out", out]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "SHARDBENCH_TEST_FAULT": "orphan@1"})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (os.path.exists(out) and len(self.rows(out)) == 1):
            time.sleep(0.05)
        time.sleep(0.5)
        process.kill()
        process.wait(timeout=60)
        text = self.call(*words[1:], "--resume")
        self.assertIn("2 to run", text)
        self.assertEqual([row["micro_batch"] for row in self.rows(out)], ["1", "2", "4"])
        process.stderr.close()

    def test_an_interrupt_leaves_whole_rows(self):
        out = self.path("faults.csv")
        words = [BINARY, "sweep", *self.model, *QUICK, "--dp", "2", "--micro-batch", "1,2", "--out", out]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, "SHARDBENCH_TEST_FAULT": "hang@1"})
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not (os.path.exists(out) and len(self.rows(out)) == 1):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("--resume goes on from there", text)
        self.assertEqual([row["outcome"] for row in self.rows(out)], ["passed"])
        text = self.call("sweep", *self.model, *QUICK, "--dp", "2", "--micro-batch", "1,2", "--out", out, "--resume")
        self.assertIn("1 to run", text)
        self.assertEqual([row["micro_batch"] for row in self.rows(out)], ["1", "2"])


if __name__ == "__main__":
    unittest.main()

"""Multi-node runs over a shaped link: right numbers, and never faster than the link. Skipped, with the reason, where namespaces
cannot be made."""
import csv
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "netns_cluster.sh")
BIN = os.environ.get("SHARDBENCH_BIN", os.path.join(ROOT, "build", "bin"))
NAME = f"sbt{os.getpid()}"
SKIPPED = 77


def call(*words, check=True):
    env = os.environ | {"NETNS_RELAY": os.path.join(BIN, "netns_relay")}
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, env=env, check=False, timeout=200)
    if check and done.returncode != 0:
        raise AssertionError(f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class BadInput(unittest.TestCase):
    def test_refusals_are_one_line(self):
        for words in (("up", "--rate", "fast"), ("up", "--delay", "3"), ("up", "--nodes", "1"), ("fly",), ("up", "--bogus"),
                      ("run", "--name", "nothere", "true"), ("up", "--name", "Bad Name")):
            done = call(*words, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


class Cluster(unittest.TestCase):
    rate_bits = 400e6

    @classmethod
    def setUpClass(cls):
        call("up", "--nodes", "2", "--rate", "400mbit", "--delay", "300us", "--name", NAME)

    @classmethod
    def tearDownClass(cls):
        call("down", "--name", NAME)

    def test_ranks_of_two_nodes_agree_and_wait_for_the_link(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "run.csv")
            call("run", "--ranks", "2", "--name", NAME, "--", os.path.join(BIN, "shardbench"), "run", "--model", "gpt2", "--layers", "1",
                 "--seq", "16", "--scope", "layer", "--dp", "2", "--check", "--warmup", "1", "--max-iterations", "3", "--device", "cpu",
                 "--out", out)
            with open(out, encoding="utf-8") as file:
                (row,) = csv.DictReader(file)
        self.assertEqual(row["outcome"], "passed", row["reason"])
        # Gradients of a block, reduced over two ranks, cross the link once in each direction.
        self.assertGreater(float(row["payload_bytes_dp"]), 20e6)
        self.assertGreater(float(row["step_ms_min"]), 1e3 * float(row["payload_bytes_dp"]) * 8 / self.rate_bits)

    def test_status_tells_what_is_up(self):
        self.assertIn("2 nodes, 400mbit, 300us", call("status", "--name", NAME).stdout)
        self.assertEqual(call("up", "--name", NAME, check=False).returncode, 2)


if __name__ == "__main__":
    able = call("check", check=False)
    if able.returncode != 0:
        print(f"skipped: {able.stdout.strip()}")
        sys.exit(SKIPPED)
    unittest.main()

"""What the tests of the command line share: the binary, a model that runs in milliseconds, readers of its output."""
import csv
import json
import os
import shlex
import subprocess
import tempfile
import unittest

BINARY = os.environ.get("SHARDBENCH", "build/bin/shardbench")
DATA = os.environ.get("SHARDBENCH_DATA", os.path.join(os.path.dirname(__file__), "..", "data"))
TINY = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 500,
        "tie_word_embeddings": True}
# Parameters of TINY by hand: embeddings, blocks (qkv, out, two MLP products, two norms, all with biases), last norm.
TINY_PARAMETERS = 500 * 64 + 64 * 64 + 4 * (64 * 192 + 192 + 64 * 64 + 64 + 2 * 64 * 256 + 256 + 64 + 4 * 64) + 2 * 64
QUICK = ["--max-iterations", "2", "--warmup", "1"]


class CliTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.tiny = self.write("tiny.json", json.dumps(TINY))
        self.model = ["--model", self.tiny, "--seq", "32"]

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def call(self, *words, variables=None, expect=0):
        """Standard output of a run that must end with this exit code."""
        result = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=250,
                                env={**os.environ, **(variables or {})}, check=False)
        self.assertEqual(result.returncode, expect, f"{words}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def refused(self, *words, variables=None):
        """The one line of a call that must be refused with exit code 2."""
        result = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, check=False,
                                env={**os.environ, **(variables or {})})
        self.assertEqual(result.returncode, 2, f"{words}\n{result.stdout}\n{result.stderr}")
        self.assertEqual(result.stdout, "", words)
        lines = result.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"{words}\n{result.stderr}")
        self.assertTrue(lines[0].startswith("shardbench: "), lines[0])
        return lines[0]

    def rows(self, path):
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def flags_of(self, row):
        """The words after the program's name of the command that reproduces a row."""
        words = shlex.split(row["command"])
        self.assertEqual(words[0], "shardbench")
        return words[1:]

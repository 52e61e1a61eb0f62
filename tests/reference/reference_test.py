"""A small model of each family against what PyTorch and transformers computed for it (tests/data/reference, made by
scripts/reference): loss, logits, gradient norms, next tokens, parameters, FLOPs and cache, uncut and cut.

Usage: reference_test.py FIXTURE.json"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "reference"))
import draw  # noqa: E402

BINARY = os.environ.get("SHARDBENCH", "build/bin/shardbench")
QUICK = ["--max-iterations", "1", "--warmup", "0", "--json"]
LOSS, NORM, LOGITS = 1e-6, 1e-5, 1e-5


def rms(values):
    return math.sqrt(math.fsum(v * v for v in values) / len(values))


def worst(mine, theirs):
    """Largest |a - b| / (|b| + rms)."""
    scale = rms(theirs)
    return max(abs(a - b) / (abs(b) + scale) for a, b in zip(mine, theirs))


class Reference(unittest.TestCase):
    fixture = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        f = cls.fixture
        with open(cls.path("config.json"), "w", encoding="utf-8") as file:
            json.dump(f["config"], file)
        drawn = {name: (shape, draw.tensor(f["seed"], name, shape)) for name, shape in f["tensors"].items()}
        draw.write_safetensors(cls.path("weights.safetensors"), drawn)
        cls.size = ["--global-batch", str(f["samples"])]
        if "vision_cfg" in f["config"] or f["config"].get("model_type") in ("vit", "yolo26"):
            return
        with open(cls.path("tokens.json"), "w", encoding="utf-8") as file:
            json.dump(draw.tokens(f["seed"], f["samples"], f["seq"] + 1, f["config"]["vocab_size"]), file)
        cls.size += ["--seq", str(f["seq"]), "--token-ids", cls.path("tokens.json")]
        if "experts" in json.dumps(f["config"]):
            cls.size += ["--routing", "learned"]

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def call(self, command, *words):
        result = subprocess.run([BINARY, command, "--model", self.path("config.json"), *words], capture_output=True,
                                text=True, timeout=250, check=False)
        self.assertEqual(result.returncode, 0, f"{words}\n{result.stdout}\n{result.stderr}")
        return json.loads(result.stdout)

    def run_cut(self, cut, *more):
        """A run's row, and what it dumped."""
        dump = self.path("dump")
        ranks = math.prod(int(value) for flag, value in zip(cut[::2], cut[1::2]) if flag != "--ep")
        row = self.call("run", *self.size, "--ranks", str(ranks), "--seed", str(self.fixture["seed"]), "--weights",
                        self.path("weights.safetensors"), "--dump", dump, *cut, *QUICK, *more)[0]
        return row, dump

    def dumped(self, dump, name):
        return draw.read_safetensors(os.path.join(dump, name + ".safetensors"))

    def cuts(self):
        if "yolo26" == self.fixture["config"].get("model_type"):
            return [[], ["--dp", "2"]]
        return [[], *self.fixture["cuts"]]

    def test_step(self):
        f = self.fixture
        for cut in self.cuts():
            if cut == ["--dp", "2"] and "outputs" in f:
                continue  # batch norm is over the samples of a rank: another model
            # Of one sample each where ranks share them, all at once where batch norm sees them.
            batch = ["--micro-batch", "1" if cut else str(f["samples"])]
            with self.subTest(cut=cut):
                row, dump = self.run_cut(cut, *batch)
                self.check_values(row, dump)

    def check_values(self, row, dump):
        f = self.fixture
        weights = self.dumped(dump, "weights")
        for name, (shape, values) in weights.items():
            self.assertEqual(shape, f["tensors"][name], name)
            self.assertEqual(values, draw.tensor(f["seed"], name, shape), name)
        if "loss" in f:
            self.assertLess(abs(row["loss"] - f["loss"]) / abs(f["loss"]), LOSS)
            self.assertLess(worst(self.dumped(dump, "logits")["logits"][1], f["logits"]), LOGITS)
        for name, values in f.get("outputs", {}).items():
            self.assertLess(worst(self.dumped(dump, "outputs")[name][1], values), self.bound("outputs", LOGITS), name)
        self.assertLess(abs(row["grad_norm"] - f["grad_norm"]) / f["grad_norm"], self.bound("norm", NORM))
        gradients = self.dumped(dump, "gradients")
        scale = rms(list(f["grad_norms"].values()))
        for name, (_, values) in gradients.items():
            norm = math.sqrt(math.fsum(v * v for v in values))
            self.assertLess(abs(norm - f["grad_norms"][name]) / (f["grad_norms"][name] + scale), self.bound("norms", NORM), name)
        self.assertLessEqual(set(f["grad_norms"]) - set(gradients), self.untrained())

    def bound(self, what, usual):
        """The usual one, or three times as far from double precision as PyTorch's fp32 is where that is farther."""
        return max(usual, 3 * self.fixture.get("fp32_error", {}).get(what, 0))

    def untrained(self):
        """Tensors of the checkpoint that are no weights of the step."""
        return {name for name in self.fixture["tensors"] if name.endswith("e_score_correction_bias")}

    def test_updated_weights(self):
        """One AdamW step moves no weight by more than its rate, and every trained tensor."""
        _, dump = self.run_cut([])
        before, after = self.dumped(dump, "weights"), self.dumped(dump, "updated_weights")
        for name in self.dumped(dump, "gradients"):
            self.assertNotEqual(before[name][1], after[name][1], name)
            self.assertLess(max(abs(a - b) for a, b in zip(before[name][1], after[name][1])), 2e-3, name)

    def test_inference(self):
        f = self.fixture
        if "next_tokens" not in f:
            self.skipTest("generates nothing")
        vocab, seq = f["config"]["vocab_size"], f["seq"]
        last = [v for s in range(f["samples"]) for v in f["logits"][(s * seq + seq - 1) * vocab:(s + 1) * seq * vocab]]
        for phase in (["--phase", "prefill"], ["--phase", "decode", "--context", str(seq - 1)]):
            for cut in ([], ["--tp", "2"]):
                with self.subTest(phase=phase, cut=cut):
                    _, dump = self.run_cut(cut, *phase, "--micro-batch", str(f["samples"]))
                    self.assertLess(worst(self.dumped(dump, "logits")["logits"][1], last), LOGITS)
                    with open(os.path.join(dump, "next_tokens.json"), encoding="utf-8") as file:
                        self.assertEqual(json.load(file), [[token] for token in f["next_tokens"]])

    def test_counts(self):
        f = self.fixture
        size = [word for word in self.size if word not in ("--token-ids", self.path("tokens.json"))]
        found = self.call("describe", *size, "--json")
        self.assertEqual(found["parameters"], f["parameters"])
        if "flops" in f:
            self.assertLess(abs(found["flops_per_step_per_rank"]["model_full_attention"] / f["flops"] - 1), 1e-9)
        if "cache_bytes" in f:
            cached = self.call("describe", *size, "--phase", "prefill", "--json")["memory_of_fullest_rank"]
            self.assertEqual(cached["kv_cache_bytes"], f["cache_bytes"])


if __name__ == "__main__":
    with open(sys.argv.pop(1), encoding="utf-8") as fixture_file:
        Reference.fixture = json.load(fixture_file)
    unittest.main()

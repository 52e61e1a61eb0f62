"""results/tutorial: every command of every lab is run, and every line of its answer must be in what it prints; the numbers are worked
out by hand here, apart from the program."""
import json
import os
import re
import shlex
import subprocess
import unittest

from cli import BINARY, CliTest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LABS = os.path.join(ROOT, "results", "tutorial", "README.md")


def squeezed(text):
    return " ".join(text.split())


class Answers(CliTest):
    def test_each_lab_says_what_its_command_prints(self):
        with open(LABS, encoding="utf-8") as file:
            blocks = re.findall(r"```\n(.*?)```", file.read(), re.DOTALL)
        commands = 0
        for block in blocks:
            outputs = []
            for line in block.splitlines():
                if line.startswith("$ "):
                    words = shlex.split(line[2:])
                    program = {"shardbench": [BINARY], "scripts/mpirun.sh": [os.path.join(ROOT, "scripts/mpirun.sh")]}[words[0]]
                    words = [os.path.join(os.path.dirname(BINARY), os.path.basename(word)) if word.startswith("build/bin/") else word for word in words[1:]]
                    result = subprocess.run(program + words, capture_output=True, text=True, check=False, timeout=200, cwd=ROOT)
                    self.assertIn(result.returncode, (0, 1), result.stderr)
                    outputs = [squeezed(text) for text in result.stdout.splitlines()]
                    commands += 1
                elif line.strip() and line.strip() != "...":
                    self.assertTrue(any(squeezed(line) in text for text in outputs), f"{line}\n--- is not in ---\n" + "\n".join(outputs))
        self.assertGreaterEqual(commands, 8)


class ByHand(CliTest):
    """Llama 3.1 8B, tp 8: hidden 4096, ffn 14336, 32 query and 8 KV heads of 128; one sequence of 8192 tokens in bf16."""

    def explain(self, *words):
        return json.loads(self.call("explain", "--model", "llama3.1-8b", "--seq", "8192", "--precision", "bf16", "--json", *words))

    def ops(self, explanation, phase):
        return {(op["operation"], op["kind"]): op for op in explanation[phase]}

    def test_column_cut(self):
        up = self.ops(self.explain("--tp", "8"), "forward")["mlp.up", "gemm"]
        self.assertEqual(up["weight"]["local"], [2 * 14336 // 8, 4096])  # gate and up, packed
        self.assertEqual(up["weight"]["global"], [2 * 14336, 4096])
        self.assertTrue(up["weight"]["placement"].startswith("shard(0)"))
        self.assertEqual(up["result"]["local"], [8192, 3584])
        self.assertEqual(up["result"]["placement"], "shard(features)")
        self.assertEqual(up["flops"], 2 * 8192 * 3584 * 4096)

    def test_row_cut_and_the_sum_that_follows(self):
        forward = self.ops(self.explain("--tp", "8"), "forward")
        down = forward["mlp.down", "gemm"]
        self.assertEqual(down["weight"]["local"], [4096, 14336 // 8])
        self.assertEqual(down["result"]["placement"], "partial(sum)")
        reduce = next(op for (name, kind), op in forward.items() if kind == "all_reduce" and op["caused_by"] == "mlp.down")
        self.assertEqual(reduce["bytes"], 8192 * 4096 * 2)
        self.assertIn("cut along its inputs", reduce["why"])
        self.assertEqual((reduce["axis"], reduce["ranks"], reduce["result"]["placement"]), ("tp", 8, "replicate"))

    def test_backward_names_the_product_that_causes_a_sum(self):
        backward = self.explain("--tp", "8")["backward"]
        sums = [op for op in backward if op["kind"] == "all_reduce"]
        self.assertEqual([op["caused_by"] for op in sums], ["mlp.up", "attention.qkv"])
        for op in sums:
            self.assertIn("cut along its outputs", op["why"])
            self.assertEqual(op["bytes"], 8192 * 4096 * 2)

    def test_sequence_parallelism_halves_each_sum(self):
        explanation = self.explain("--tp", "8", "--sequence-parallel")
        forward = [op for op in explanation["forward"] if op["axis"] == "tp"]
        self.assertEqual([op["kind"] for op in forward], ["all_gather", "reduce_scatter", "all_gather", "reduce_scatter"])
        self.assertEqual([op["caused_by"] for op in forward], ["attention.qkv", "attention.out", "mlp.up", "mlp.down"])
        norm = next(op for op in explanation["forward"] if op["kind"] == "norm_forward")
        self.assertEqual((norm["result"]["local"], norm["result"]["global"], norm["result"]["placement"]), ([1024, 4096], [8192, 4096], "shard(sequence)"))
        backward = [op for op in explanation["backward"] if op["axis"] == "tp"]
        self.assertEqual(sorted(op["kind"] for op in backward), ["all_gather"] * 4 + ["reduce_scatter"] * 2)

    def test_layers_and_microbatches_multiply(self):
        explanation = self.explain("--tp", "8", "--global-batch", "4", "--micro-batch", "1", "--system", "h100-sxm")
        up = self.ops(explanation, "forward")["mlp.up", "gemm"]
        self.assertEqual(up["calls"], 32 * 4)
        self.assertAlmostEqual(up["step_share_pct"], 100 * up["calls"] * up["predicted_us"] / 1e3 / explanation["step_ms"])

    def test_a_strategy_of_ones_own(self):
        path = self.write("mine.yaml", "name: mlp-only\nweights: {mlp.up: {tp: shard(0)}, mlp.down: {tp: shard(1)}}\nactivations: {block: {tp: replicate}}\n")
        explanation = self.explain("--tp", "8", "--strategy", path)
        self.assertEqual([op["caused_by"] for op in explanation["forward"] if op["axis"] == "tp"], ["mlp.down"])
        self.assertEqual([op["caused_by"] for op in explanation["backward"] if op["axis"] == "tp"], ["mlp.up"])
        qkv = self.ops(explanation, "forward")["attention.qkv", "gemm"]
        self.assertEqual((qkv["weight"]["placement"], qkv["weight"]["local"]), ("replicate", qkv["weight"]["global"]))

    def test_data_parallelism_once_a_step(self):
        once = self.explain("--dp", "4", "--global-batch", "4")["once_a_step"]
        self.assertEqual([(op["kind"], op["ranks"]) for op in once], [("all_reduce", 4)])
        once = self.explain("--dp", "4", "--global-batch", "4", "--zero", "1")["once_a_step"]
        self.assertEqual(sorted(op["kind"] for op in once), ["all_gather", "reduce_scatter"])

    def test_refusals(self):
        self.assertIn("allowed: 0 to 31", self.refused("explain", "--model", "llama3.1-8b", "--layer", "32"))
        self.assertIn("detectors", self.refused("explain", "--model", "yolo26n"))
        self.assertIn("--stack", self.refused("explain", "--model", "llama3.1-8b", "--stack", "te-2025"))


if __name__ == "__main__":
    unittest.main()

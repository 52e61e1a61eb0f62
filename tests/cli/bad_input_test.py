#!/usr/bin/env python3
"""Whatever is wrong with the input gives one line that names it, and exit code 2, before any work."""
import json
import os
import subprocess
import unittest

from cli import BINARY, DATA, TINY, CliTest


class BadInput(CliTest):
    def check(self, words, *parts):
        with self.subTest(words=words):
            line = self.refused(*words)
            for part in parts:
                self.assertIn(part, line)

    def test_commands_and_flags(self):
        self.check(["frobnicate"], "'frobnicate'", "models", "doctor")
        self.check(["swep"], "did you mean sweep")
        self.check([], "no command")
        self.check(["run", "--modle", "gpt2"], "--modle", "did you mean --model")
        self.check(["run", "surplus"], "surplus")
        self.check(["run", "--tp"], "--tp")
        self.check(["compare", "a.csv"], "B.csv")
        self.check(["schedule", "--dp", "2"], "--dp")

    def test_a_flag_belongs_to_the_commands_that_use_it(self):
        system = ["--system", "h100-sxm"]
        for flag in ("--check", "--verify-collectives", "--share-gpu", "--cuda-graph"):
            self.check(["describe", *self.model, flag], flag, "'describe'", "run, sweep")
            self.check(["simulate", *self.model, *system, flag], flag, "'simulate'", "run, sweep")
        for flag in ("--max-iterations", "--warmup", "--max-seconds", "--target-ci", "--seed", "--device", "--nccl-algo",
                     "--nccl-proto", "--nccl-channels", "--attention"):
            self.check(["describe", *self.model, flag, "1"], flag, "run")
            self.check(["simulate", *self.model, *system, flag, "1"], flag, "run")
        self.check(["run", *self.model, "--stack", "ours"], "--stack", "'ours'", "--source replayed")
        self.check(["run", *self.model, "--system", "h100-sxm"], "--system", "'h100-sxm'", "--source replayed")
        for flag in (["--check"], ["--verify-collectives"]):
            self.check(["run", *self.model, "--source", "replayed", *system, *flag], flag[0], "replayed")
            self.check(["sweep", *self.model, "--source", "replayed", *system, *flag], flag[0], "replayed")
        self.check(["calibrate", "--topo", "x", "--link", "3"], "--link", "--nccl-log")
        self.check(["calibrate", "--link", "3", "--out", "x.yaml"], "--link", "--nccl-log")

    def test_lost_output_is_told(self):
        for words in (["describe", *self.model], ["simulate", *self.model, "--system", "h100-sxm"], ["systems"], ["models"], ["--help"],
                      ["schedule", "--pp", "2", "--microbatches", "4"], ["sweep", *self.model, "--tp", "3", "--ranks", "2"]):
            with open("/dev/full", "w", encoding="utf-8") as full, self.subTest(words=words):
                result = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                said = [line for line in result.stderr.splitlines() if ": note: " not in line]
                self.assertEqual(said, ["shardbench: cannot write to standard output: No space left on device"])

    def test_a_flag_is_given_once_and_with_a_value(self):
        for twice in (["--seq", "16", "--seq", "32"], ["--seq=16", "--seq=16"], ["--check", "--check"], ["--out", "a", "--out", "b"],
                      ["--check=true", "--check=false"]):
            self.check(["run", "--model", self.tiny, *twice], twice[0].split("=")[0] + ": given twice")
        for flag in ("--out", "--trace", "--source"):
            self.check(["run", *self.model, flag, ""], flag, "'' is empty")
        self.check(["sweep", *self.model, "--out", ""], "--out", "'' is empty")
        self.check(["sweep", *self.model, "--tp", "1,2,1"], "--tp", "'1' is given twice")
        self.check(["sweep", *self.model, "--tp", "1,01"], "--tp", "'01' is given twice")

    def test_mpirun_is_asked_before_it_speaks(self):
        self.check(["run", *self.model, "--dp", "2", "--mpirun-arg", "--nonsense"], "--mpirun-arg", "--nonsense")
        # L02, L03: what hosts cannot take, and slips in a hostfile with their line.
        self.check(["run", *self.model, "--dp", "16", "--mpirun-arg=--host", "--mpirun-arg", "a,b"], "16 ranks asked for, 2 slots", "a:8,b:8")
        for name, where in (("typo_lots", ".txt:2"), ("missing_blank", ".txt:1"), ("duplicate_host", "is already on line")):
            path = os.path.join(DATA, "hostfiles", f"hostfile_{name}.txt")
            self.check(["run", *self.model, "--dp", "2", "--mpirun-arg=--hostfile", "--mpirun-arg", path], where)
        good = os.path.join(DATA, "hostfiles", "hostfile_good.txt")
        self.check(["run", *self.model, "--dp", "32", "--mpirun-arg=--hostfile", "--mpirun-arg", good], "32 ranks asked for, 16 slots")
        self.check(["sweep", *self.model, "--dp", "1,2", "--mpirun-arg", "--nonsense"], "--mpirun-arg", "--nonsense")
        self.check(["run", *self.model, "--mpirun-arg", "-v"], "--mpirun-arg", "'-v'", "one rank")

    def test_sizes_that_no_machine_has(self):
        huge = str(2**30)
        self.check(["describe", "--model", "llama3.1-8b", "--seq", huge, "--micro-batch", huge], "micro-batch", "at most")
        self.check(["schedule", "--pp", "1024", "--microbatches", "4096"], "--microbatches", "at most")
        self.check(["calibrate", "--out", self.path("x.yaml"), "--precision", "fp8"], "--precision", "fp32|bf16")
        self.check(["run", "--tp"], "--tp: no value given")

    def test_files_that_cannot_be(self):
        self.check(["run", *self.model, "--trace", "/proc/x.json"], "--trace", "/proc/x.json")
        self.check(["run", *self.model, "--trace", self.folder], "--trace", "not a file")
        self.check(["compare", self.folder, self.folder], "folder")
        self.check(["sweep", "--spec", self.folder], self.folder, "cannot be read")
        for text in ("", "---", "~", "[]", "{a: [1", "\t"):
            for words in (["sweep", "--spec"], ["simulate", *self.model, "--system"]):
                self.assertNotIn(":0:", self.refused(*words, self.write("odd.yaml", text)))

    def test_values(self):
        self.check(["run", *self.model, "--seq", "16"], "--seq", "given twice")
        for flag in ("--seq", "--micro-batch", "--global-batch", "--layers", "--dp", "--tp", "--pp", "--ranks"):
            for value in ("0", "-1", "many", "1.5", "99999999999999999999", ""):
                self.check(["run", "--model", self.tiny, flag, value], flag, "integer")
        self.check(["run", *self.model, "--precision", "f7"], "--precision", "bf16")
        self.check(["run", *self.model, "--schedule", "nope"], "--schedule", "1f1b")
        self.check(["sweep", *self.model, "--tp", "1,,2"], "--tp", "empty")
        self.check(["sweep", *self.model, "--tp", "1,x"], "--tp", "'x'")
        self.check(["sweep", *self.model, "--timeout", "0"], "--timeout")
        self.check(["schedule", "--microbatches", "0"], "--microbatches")
        self.check(["schedule", "--schedule", "dualpipe", "--pp", "3"], "dualpipe")

    def test_models(self):
        self.check(["describe", "--model", "no-such-model"], "no-such-model", "gpt2")
        self.check(["describe", "--model", self.path("missing.json")], "missing.json")
        self.check(["describe", "--model", self.write("broken.json", '{"model_type": "gpt2", ')], "broken.json")
        self.check(["describe", "--model", self.write("negative.json", '{"model_type": "gpt2", "n_layer": -4}')], "n_layer")
        self.check(["describe", *self.model, "--layers", "5"], "--layers", "4")

    def test_cuts(self):
        self.check(["run", *self.model, "--tp", "3"], "tp", "3", "1, 2, 4")
        self.check(["run", *self.model, "--tp", "2", "--ranks", "4"], "ranks", "4", "2")
        self.check(["run", *self.model, "--dp", "2", "--global-batch", "3"], "global-batch", "3")
        self.check(["run", "--model", self.tiny, "--seq", "65"], "seq", "64")
        self.check(["describe", *self.model, "--pp", "5"], "pp", "5")

    def test_images(self):
        self.check(["run", "--model", "yolo26n", "--tp", "2"], "tp", "2", "cut over data only")
        # L06: every rank takes the same number of images.
        self.check(["run", "--model", "yolo26n", "--dp", "2", "--global-batch", "17"], "global-batch", "17", "16, 18")
        self.check(["run", "--model", "yolo26n", "--global-batch", "-1"], "--global-batch", "integer >= 1")
        self.check(["run", "--model", "yolo26n", "--dp", "2", "--zero", "3"], "zero", "3", "0, 1, 2")
        self.check(["run", "--model", "yolo26n", "--image-size", "100"], "--image-size", "100", "32")
        self.check(["run", "--model", "yolo26n", "--seq", "7"], "seq", "7", "--image-size")
        # C12: 257 is prime, and an image is not padded.
        self.check(["run", "--model", "vit-h", "--tp", "2", "--sequence-parallel"], "257", "16*16 patches and a class token", "not padded")
        self.check(["run", "--model", "vit-h", "--image-size", "225"], "--image-size", "225", "14")
        self.check(["run", "--model", "vit-h", "--seq", "100"], "seq", "100", "257")
        self.check(["run", "--model", self.tiny, "--image-size", "224"], "--image-size", "takes no images")
        self.check(["run", "--model", self.tiny, "--classes", "10"], "--classes", "10")

    def test_smollm_names_the_legal_degrees(self):
        for tp in ("2", "3", "15"):
            self.check(["run", "--model", "smollm-360m", "--layers", "2", "--tp", tp], "tp", tp, "1, 5")

    def test_outputs(self):
        for command in ("run", "sweep", "describe"):
            self.check([command, *self.model, "--out", self.path("no/such/folder.csv")], "folder")
            self.check([command, *self.model, "--out", self.folder], self.folder)
            self.check([command, *self.model, "--out", self.write("other.csv", "not,our,header\n")], "other.csv")
        self.check(["run", *self.model, "--trace", self.path("no/such/trace.json")], "--trace")
        self.check(["sweep", *self.model, "--resume"], "--resume", "--out")
        with open(self.path("other.csv"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "not,our,header\n")

    def test_a_dash_is_no_file(self):
        """One rule for every flag that names a file to write: --json is what prints rows."""
        system = ["--system", "h100-sxm"]
        for words in (["run", *self.model], ["sweep", *self.model], ["describe", *self.model, "--json"], ["simulate", *self.model, *system],
                      ["plan", *self.model, *system, "--gpus", "2"]):
            self.check([*words, "--out", "-"], "--out", "'-' is not the name of a file", "FILE.csv", "--json")
        self.check(["run", *self.model, "--trace", "-"], "--trace", "'-'", "FILE.json")
        self.check(["calibrate", "--out=-"], "--out", "'-'", "FILE.yaml")
        self.assertFalse(os.path.exists("-"))

    def test_a_trace_never_overwrites_rows(self):
        rows = self.path("rows.csv")
        self.call("run", *self.model, "--max-iterations", "2", "--warmup", "1", "--out", rows)
        with open(rows, encoding="utf-8") as file:
            before = file.read()
        for trace in (rows, self.path("rows_ops.csv")):
            self.check(["run", *self.model, "--trace", trace], "--trace", trace)
            self.check(["simulate", *self.model, "--system", "h100-sxm", "--trace", trace], "--trace", trace)
        for trace in ("new.csv", "new_ops.csv"):  # not there yet, and about to be
            self.check(["run", *self.model, "--out", self.path("new.csv"), "--trace", self.path(trace)], "--trace")
        with open(rows, encoding="utf-8") as file:
            self.assertEqual(file.read(), before)

    def test_strategy_files_are_refused_once(self):
        for command in ("run", "sweep", "describe"):
            self.check([command, *self.model, "--tp", "2", "--strategy", self.path("none.yaml")], "none.yaml")
            self.check([command, *self.model, "--tp", "2", "--strategy", self.write("s.yaml", "weighs: {}\n")], "weighs")

    def test_what_has_no_step_is_refused_before_any_job(self):
        """Ranks that each refuse it end in any order, and the one that speaks was sometimes ended first."""
        cut = self.write("cut.yaml", "weights: {}\nactivations: {block: {tp: shard(sequence)}}\n")
        words = ["run", "--model", self.tiny, "--seq", "30", "--tp", "4", "--strategy", cut, "--out", self.path("none.csv")]
        for variables in ({}, {"PATH": "/nowhere"}):  # where nothing could start a job either
            self.assertIn("seq 30 does not divide by tp=4", self.refused(*words, variables=variables))
        self.assertFalse(os.path.exists(self.path("none.csv")))

    def test_nothing_is_made_by_a_refused_run(self):
        self.refused("run", *self.model, "--tp", "3", "--out", self.path("none.csv"))
        self.assertFalse(os.path.exists(self.path("none.csv")))

    def test_specs(self):
        self.check(["sweep", "--spec", self.path("none.yaml")], "none.yaml")
        self.check(["sweep", "--spec", self.write("bad.yaml", "tp: [1, 2\n")], "bad.yaml")
        self.check(["sweep", "--spec", self.write("key.yaml", "tpp: 1\n")], "key.yaml:1", "--tpp")

    def test_fractions_where_a_file_counts(self):
        self.check(["sweep", "--spec", self.write("half.yaml", "tp: [1, 2.5]\n")], "half.yaml:1", "--tp", "'2.5'", "integer")
        self.check(["sweep", "--spec", self.write("half.yaml", "seq: 16.0\n")], "half.yaml:1", "--seq", "'16.0'", "integer")
        self.check(["run", *self.model, "--tp", "2", "--strategy", self.write("s.yaml", "weights: {mlp.up: {tp: shard(0.5)}}\n")],
                   "s.yaml", "shard(0.5)")
        for key in ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size"):
            for number in (4.5, 64.0):
                model = self.write("half.json", json.dumps({**TINY, key: number}))
                self.check(["describe", "--model", model, "--seq", "16"], "half.json", key, str(number), "integer")

    def test_comparison_files(self):
        self.check(["compare", self.path("a.csv"), self.path("b.csv")], "a.csv")
        self.check(["compare", self.write("a.csv", "x\n1\n"), self.path("a.csv")], "a.csv")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""run measures one configuration, alone or over ranks that it starts itself, and leaves whole rows behind."""
import csv
import json
import os
import socket
import subprocess
import unittest

from cli import BINARY, QUICK, CliTest

COLUMNS = """run_id command model layers hidden ffn_hidden heads kv_heads vocab padded_vocab seq micro_batch global_batch microbatches
precision ranks dp tp pp schedule attention_kernel device device_count ranks_per_core comm_backend host versions time_utc step_ms_p50
step_ms_p95 step_ms_min iterations instrumented_step_ms compute_ms exposed_comm_ms idle_ms bubble_ms comm_ms optimizer_ms tokens_per_s
tokens_per_s_per_rank samples_per_s model_tflops_per_rank hardware_tflops_per_rank flops_convention parameter_bytes gradient_bytes
optimizer_bytes activation_bytes memory_peak_bytes memory_measured_bytes max_rel_error""".split()


class Run(CliTest):
    def test_two_ranks_checked(self):
        out, trace = self.path("run.csv"), self.path("trace.json")
        text = self.call("run", *self.model, *QUICK, "--tp", "2", "--check", "--out", out, "--trace", trace)
        self.assertIn("check     passed", text)
        (row,) = self.rows(out)
        for column in COLUMNS + ["payload_bytes_tp", "wire_bytes_tp", "comm_tp_ms", "exposed_tp_ms"]:
            self.assertNotEqual(row[column], "", column)
        for column in ("mfu_pct", "peak_tflops", "payload_bytes_dp", "comm_pp_ms", "predicted_step_ms"):
            self.assertEqual(row[column], "", column)
        self.assertLess(float(row["max_rel_error"]), 1e-4)
        parts = sum(float(row[name]) for name in ("compute_ms", "exposed_comm_ms", "idle_ms"))
        self.assertAlmostEqual(parts, float(row["instrumented_step_ms"]), delta=1e-6 * parts + 1e-9)
        self.assertAlmostEqual(float(row["tokens_per_s"]) * float(row["step_ms_p50"]), 32e3, delta=1)
        self.check_ops(out, row)
        self.check_trace(trace)
        self.check_again(text, row)

    def check_ops(self, out, row):
        ops = self.rows(out.replace(".csv", "_ops.csv"))
        self.assertEqual({op["run_id"] for op in ops}, {row["run_id"]})
        product = next(op for op in ops if op["label"] == "mlp.up" and op["phase"] == "forward")
        # [32, 64] x [128, 64] and a bias: 2mnk + mn, in each of four layers.
        self.assertEqual((product["kind"], product["axis"], product["count"], float(product["flops"])), ("gemm", "compute", "4", 2 * 32 * 64 * 128 + 32 * 128))
        reduction = next(op for op in ops if op["axis"] == "tp" and op["label"] == "mlp.down.reduce" and op["phase"] == "forward")
        self.assertEqual(float(reduction["bytes"]), 32 * 64 * 4)
        self.assertEqual(reduction["algbw_gb_per_s"], reduction["busbw_gb_per_s"])

    def check_trace(self, path):
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({event["pid"] for event in spans}, {0, 1})
        self.assertTrue(any(event["name"] == "mlp.up" for event in spans))

    def check_again(self, text, row):
        self.assertIn(row["command"], text)
        (again,) = json.loads(self.call(*self.flags_of(row), "--json"))
        self.assertEqual(again["command"], row["command"])
        self.assertEqual(again["payload_bytes_tp"], float(row["payload_bytes_tp"]))
        self.assertEqual(again["outcome"], "passed")

    def test_rates_of_images_are_of_images(self):
        """In the words of simulate: images/s, where a text model has tokens/s."""
        words = ["--model", "yolo26n", "--image-size", "64"]
        self.assertRegex(self.call("run", *words, *QUICK), r"rate +[0-9,]+ images/s, ")
        self.assertRegex(self.call("simulate", *words, "--system", "h100-sxm"), r"step .* [0-9,]+ images/s, ")
        table = self.call("sweep", *words, *QUICK)
        self.assertIn("images/s", table)
        self.assertNotIn("tokens/s", table)
        self.assertRegex(self.call("run", *self.model, *QUICK), r"rate +[0-9,]+ tokens/s, ")

    def test_alone_there_is_no_traffic(self):
        (row,) = json.loads(self.call("run", *self.model, *QUICK, "--check", "--json"))
        self.assertEqual((row["comm_backend"], row["ranks"], row["exposed_comm_ms"]), ("self", 1, 0))
        self.assertIsNone(row["payload_bytes_tp"])

    def test_ranks_without_mpi_meet_over_tcp(self):
        out = self.path("met.csv")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [subprocess.Popen([BINARY, "run", *self.model, *QUICK, "--tp", "2", "--check", "--out", out],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2",
                                       "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)})
                 for rank in (1, 0)]
        for rank in ranks:
            text, problems = rank.communicate(timeout=120)
            self.assertEqual(rank.returncode, 0, text + problems)
        (row,) = self.rows(out)
        self.assertEqual((row["comm_backend"], row["outcome"], row["ranks"]), ("tcp", "passed", "2"))
        self.assertIn("WORLD_SIZE", self.refused("run", *self.model, variables={
            "RANK": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}))

    def alone(self, *words, **variables):
        """A rank 0 of two whose peer never comes."""
        return subprocess.run([BINARY, "run", *self.model, *QUICK, "--tp", "2", *words], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "29871", **variables})

    def test_a_run_ends_at_its_limit(self):
        done = self.alone("--timeout", "0.5")
        self.assertEqual((done.returncode, done.stderr), (1, "shardbench: not done after 0.5 s (--timeout)\n"))
        self.assertIn("--timeout", self.refused("run", *self.model, "--timeout", "0"))

    def test_beyond_this_machine_ranks_need_a_secret(self):
        done = self.alone(MASTER_ADDR="192.0.2.1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("SHARDBENCH_SECRET is not set", done.stderr)
        done = self.alone("--insecure-rendezvous", "--timeout", "0.5", MASTER_ADDR="192.0.2.1")
        self.assertNotIn("SHARDBENCH_SECRET", done.stderr)

    def test_ops_of_every_stage(self):
        out = self.path("stages.csv")
        self.call("run", *self.model, *QUICK, "--pp", "2", "--out", out)
        (row,) = self.rows(out)
        ops = self.rows(out.replace(".csv", "_ops.csv"))
        # Positions are added on the first stage and the loss taken on the last; each label is there once.
        labels = [(op["label"], op["kind"], op["phase"], op["axis"]) for op in ops]
        self.assertTrue({"embedding.position", "final_norm", "loss"} <= {label for label, *_ in labels}, labels)
        self.assertEqual(len(labels), len(set(labels)))
        compute = sum(float(op["total_ms"]) for op in ops if op["axis"] == "compute")
        self.assertAlmostEqual(compute, float(row["compute_ms"]), delta=0.02 * compute + 0.05)

    def test_a_large_tensor_is_not_incorrect_by_chance(self):
        """Of millions of elements the worst is 2e-4 of its tensor off; in norm the tensors agree to rounding."""
        (row,) = json.loads(self.call("run", "--model", "vit-l", "--tp", "2", "--layers", "2", "--image-size", "112", "--classes", "10",
                                      "--global-batch", "2", *QUICK, "--check", "--json"))
        self.assertEqual(row["outcome"], "passed", row["reason"])
        self.assertLess(row["max_rel_error"], 1e-5)

    def test_one_sample_does_not_scatter(self):
        (row,) = json.loads(self.call("run", *self.model, "--max-iterations", "1", "--warmup", "1", "--json"))
        self.assertEqual((row["iterations"], row["step_ms_p95"], row["step_cv_pct"]), (1, None, None))
        self.assertGreater(row["step_ms_p50"], 0)
        self.assertIn("1 iteration", self.call("run", *self.model, "--max-iterations", "1", "--warmup", "1"))

    def test_a_difference_within_the_scatter_is_noise(self):
        """T04: 1.57952 +- 0.00299 (0.1893%) differ from 0.54% on."""
        self.call("run", *self.model, *QUICK, "--out", self.path("a.csv"))
        (row,) = self.rows(self.path("a.csv"))
        for factor, noise in ((1.003, True), (1.01, False)):
            for name, ms in (("x", 1.57952), ("y", 1.57952 * factor)):
                with open(self.path(name + ".csv"), "w", newline="", encoding="utf-8") as file:
                    writer = csv.DictWriter(file, row.keys())
                    writer.writeheader()
                    writer.writerow({**row, "step_ms_p50": str(ms), "step_cv_pct": "0.1893"})
            self.assertEqual("within noise" in self.call("compare", self.path("x.csv"), self.path("y.csv")), noise, factor)

    def test_compare_two_runs(self):
        for name in ("a.csv", "b.csv"):
            self.call("run", *self.model, *QUICK, "--out", self.path(name))
        self.assertIn("1 compared; 0 only in A, 0 only in B", self.call("compare", self.path("a.csv"), self.path("b.csv")))


if __name__ == "__main__":
    unittest.main()

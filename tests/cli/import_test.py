"""import: rows from other programs' files, which compare with predictions of the same cut."""
import os
import unittest

from cli import DATA, CliTest

LOGS = os.path.join(DATA, "imports")


class Import(CliTest):
    def test_a_log_compares_with_the_prediction_of_its_cut(self):
        """A log of the small model, as Megatron-LM prints one; the cut is read from it, not given again."""
        steps = "".join(f" [2024-04-06 02:59:{36 + i}] iteration       {i}/     100 | consumed samples:         8 | elapsed time per iteration (ms): {time} | "
                        "learning rate: 1.0E-06 | global batch size:     8 | lm loss: 1.0E+00 |\n" for i, time in enumerate((900.0, 110.0, 100.0, 105.0)))
        log = self.write("train.log", "using world size: 4, data-parallel size: 2, context-parallel size: 1 tensor-model-parallel size: 2, "
                         "pipeline-model-parallel size: 1\n  bf16 ............................ True\n  micro_batch_size ................ 2\n"
                         f"  seq_length ...................... 32\n{steps}")
        out = self.path("measured.csv")
        said = self.call("import", log, "--model", self.tiny, "--out", out)
        self.assertIn("--tp 2", said)
        row = self.rows(out)[0]
        self.assertEqual((row["source"], row["tp"], row["dp"], row["global_batch"], row["precision"]), ("external", "2", "2", "8", "bf16"))
        self.assertEqual((float(row["step_ms_p50"]), row["iterations"]), (105.0, "3"))
        self.assertAlmostEqual(float(row["tokens_per_s"]), 8 * 32 / 0.105)
        predicted = self.path("predicted.csv")
        self.call("simulate", "--model", self.tiny, "--seq", "32", "--tp", "2", "--dp", "2", "--micro-batch", "2", "--global-batch", "8",
                  "--precision", "bf16", "--system", "h100-sxm", "--out", predicted)
        self.assertIn("1 compared; 0 only in A, 0 only in B", self.call("compare", out, predicted))

    def test_kernels_have_no_configuration(self):
        out = self.path("kernels.csv")
        said = self.call("import", os.path.join(LOGS, "kineto_two_kernels.json"), "--out", out)
        self.assertIn("communication 0.180 ms, of which 0.120 beside compute", said)
        row = self.rows(out)[0]
        self.assertEqual((row["model"], row["tp"], row["ranks"]), ("", "", ""))
        self.assertEqual(float(row["exposed_comm_ms"]), 0.06)
        ops = self.rows(self.path("kernels_ops.csv"))
        self.assertEqual([op["kind"] for op in ops], ["kernel", "all_reduce", "kernel"])

    def test_outputs_of_nccl_tests(self):
        out = self.path("nccl.csv")
        self.call("import", os.path.join(DATA, "nccl_logs", "allreduce_1node_8xH100_nvls_indented.log"), "--out", out)
        ops = self.rows(self.path("nccl_ops.csv"))
        self.assertTrue(ops and all(op["kind"] == "all_reduce" for op in ops))

    def test_several_at_once(self):
        out = self.path("all.csv")
        self.call("import", *(os.path.join(LOGS, name) for name in ("nanotron.log", "deepspeed.log", "torchtitan_gpt2.log")), "--out", out)
        self.assertEqual([round(float(row["step_ms_p50"])) for row in self.rows(out)], [11500, 952, 366])

    def test_refusals(self):
        self.assertIn("no file that is known", self.refused("import", self.write("x.txt", "hello\n")))
        self.assertIn("no such file", self.refused("import", self.path("none")))
        self.assertIn("byte", self.refused("import", self.write("cut.json", '{"traceEvents": [{"ph":')))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""calibrate reads logs and topologies and writes profiles that simulate takes; run --source replayed needs one process for any cut."""
import os
import subprocess
import unittest

from cli import BINARY, DATA, QUICK, CliTest


class Calibrate(CliTest):
    def log(self, name):
        return os.path.join(DATA, "nccl_logs", name)

    def test_logs_are_printed_with_what_is_suspicious_and_a_fit(self):
        text = self.call("calibrate", "--nccl-log", self.log("allreduce_4xRTX4090_pcie.log"), self.log("allreduce_2rank_sharedgpu_tagged_rep1.log"))
        for part in ("all_reduce of float, 4 ranks", "fit: latency", "shared device, not a link measurement", "no fit: "):
            self.assertIn(part, text)
        text = self.call("calibrate", "--nccl-log", self.log("allreduce_1node_8xH100_nvls_indented.log"), "--link", "450")
        self.assertIn("in-network reduction or tree", text)

    def test_a_log_with_a_wrong_result_fails(self):
        """One rule for all logs (B07, F03): 1 where a value is WRONG, the footer counts failures or there is no row, else 0."""
        folder, codes = os.path.join(DATA, "nccl_logs"), {}
        for name in sorted(os.listdir(folder)):
            done = subprocess.run([BINARY, "calibrate", "--nccl-log", self.log(name)], capture_output=True, text=True, timeout=60, check=False)
            wrong = " WRONG" in done.stdout or "values out of bounds" in done.stdout
            self.assertEqual(done.returncode, 1 if wrong or "no row can be read" in done.stdout else 0, name + done.stderr)
            self.assertEqual("wrong result: " in done.stdout, wrong, name)
            codes[name] = done.returncode
        self.assertEqual([name for name, code in codes.items() if code == 1],
                         ["alltoall_64rank_oldformat_blank_redop.log", "duplicate_header_two_hosts_real.log", "gh200_4node_corrupted_v2.17.9.log",
                          "oldformat_allgather_8xV100_failed_4GiB.log", "srun_label_FAILED_footer.log"])
        self.call("calibrate", "--nccl-log", self.log("oldformat_allgather_8xV100_failed_4GiB.log"), self.log("broadcast_2x2080ti.log"), expect=1)
        header = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        table = header + "{}  float     sum      -1    10.00    0.10    0.10      {}    10.00    0.10    0.10      {}\n"
        for sides, size in ((("0", "3"), "1024  256"), (("3", "0"), "1024  256"), (("0", "3"), "0  0"), (("0", "0"), "1024  256"),
                            (("N/A", "N/A"), "1024  256")):
            wrong = "3" in sides
            text = self.call("calibrate", "--nccl-log", self.write("made.log", table.format(size, *sides)), expect=1 if wrong else 0)
            self.assertEqual("WRONG" in text, wrong, text)

    def test_a_log_without_samples_is_no_success(self):
        """T03: n = 0 is said and is a failure; a file without anything of nccl-tests is bad input."""
        header = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        self.assertIn("no valid sample", self.call("calibrate", "--nccl-log", self.write("head.log", header), expect=1))
        self.assertIn("nothing of nccl-tests", self.refused("calibrate", "--nccl-log", self.write("empty.log", "")))

    def test_an_all_to_all_tells_what_a_hosts_network_carries(self):
        """B04: over 2 hosts of 8, half of what a rank sends leaves the host: 32.05 / (15/16) / 2."""
        text = self.call("calibrate", "--nccl-log", self.log("alltoall_2node_16rank_cliff_case2.log"))
        self.assertIn("carries 17.09 GB/s at its best: 1 of 2 hosts are elsewhere", text)
        self.assertNotIn("carries", self.call("calibrate", "--nccl-log", self.log("allreduce_2node_8xH100_spikes.log")))

    def test_a_log_becomes_part_of_a_system(self):
        out = self.path("pcie.yaml")
        self.call("calibrate", "--nccl-log", self.log("allreduce_4xRTX4090_pcie.log"), "--system", "pcie-box", "--out", out)
        text = self.call("simulate", *self.model, "--tp", "4", "--system", out)
        self.assertIn("with measured collectives", text)
        self.assertIn("no log supports a fit", self.refused_after_output(
            "calibrate", "--nccl-log", self.log("reduce_1rank_header_shift.log"), "--system", "pcie-box", "--out", out))

    def test_of_several_types_one_becomes_the_system_and_is_named(self):
        """The curve written is that of float alone, 66,326.9 us at 16 GiB, not a mean over types."""
        out = self.path("types.yaml")
        text = self.call("calibrate", "--nccl-log", self.log("dall_int8_and_float.log"), "--system", "h200-sxm", "--out", out)
        self.assertIn("float stands for all types in the system; the run has int8, float", text)
        self.assertIn("1 curve written", text)
        with open(out, encoding="utf-8") as file:
            written = file.read()
        self.assertIn("66326.9", written)
        self.assertNotIn("82908", written)

    def refused_after_output(self, *words):
        done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        return done.stderr

    def test_topologies(self):
        text = self.call("calibrate", "--topo", os.path.join(DATA, "topology", "topo_8xA40.txt"))
        self.assertIn("(GPU0,GPU1: NV4)", text)

    def test_bad_input(self):
        log = self.log("allreduce_4xRTX4090_pcie.log")
        for words in (("calibrate",), ("calibrate", "--out", self.path("x.csv")), ("calibrate", "--nccl-log", self.path("none.log")),
                      ("calibrate", "--nccl-log", log, "--out", self.path("x.yaml")), ("calibrate", "--nccl-log", log, "--ranks", "2"),
                      ("calibrate", "--out", "/no/such/folder/x.yaml"), ("run", *self.model, "--source", "told"),
                      ("run", *self.model, "--source", "replayed"), ("run", *self.model, "--system", "h100-sxm"),
                      ("run", *self.model, "--source", "replayed", "--system", "h100-sxm", "--check")):
            self.refused(*words)

    def test_replay_is_one_process_for_any_cut(self):
        out = self.path("replay.csv")
        for cut in (("--tp", "4"), ("--dp", "8", "--zero", "1"), ("--pp", "4", "--global-batch", "8")):
            self.call("run", *self.model, *QUICK, *cut, "--source", "replayed", "--system", "pcie-box", "--device", "cpu", "--out", out)
        rows = self.rows(out)
        self.assertEqual([row["source"] for row in rows], ["replayed"] * 3)
        for row in rows:
            self.assertEqual(row["outcome"], "passed", row["reason"])
            self.assertGreater(float(row["compute_ms"]), 0)
            self.assertGreater(float(row["step_ms_p50"]), float(row["compute_ms"]))
        self.assertEqual([row["ranks"] for row in rows], ["4", "8", "4"])
        self.assertIn("--source replayed --system pcie-box", rows[0]["command"])

    def test_a_sweep_replays_and_resumes(self):
        out = self.path("sweep.csv")
        words = ("sweep", *self.model, *QUICK, "--tp", "1,2,3", "--dp", "2", "--source", "replayed", "--system", "pcie-box", "--device", "cpu",
                 "--out", out)
        self.call(*words)
        rows = self.rows(out)
        self.assertEqual({(row["tp"], row["source"], row["outcome"]) for row in rows},
                         {("1", "replayed", "passed"), ("2", "replayed", "passed"), ("3", "replayed", "skipped")})
        self.call(*words, "--resume")
        self.assertEqual(len([row for row in self.rows(out) if row["outcome"] == "passed"]), 2)


if __name__ == "__main__":
    unittest.main()

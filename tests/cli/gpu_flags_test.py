#!/usr/bin/env python3
"""What only a GPU can honour: refused on a CPU, carried out on the emulated GPU."""
import unittest
import unittest.mock

from cli import QUICK, CliTest


class GpuFlags(CliTest):
    emulated = ["--device", "cuda-emulated"]

    def setUp(self):
        super().setUp()
        # The emulation keeps its kernels' shared memory in thread-local storage, of which a library that is opened late
        # is given little.
        tunables = unittest.mock.patch.dict("os.environ", GLIBC_TUNABLES="glibc.rtld.optional_static_tls=65536")
        tunables.start()
        self.addCleanup(tunables.stop)

    def sweep(self, *words, variables=None, expect=0):
        out = self.path("rows.csv")
        self.call("sweep", *self.model, *QUICK, "--layers", "2", *words, "--out", out, variables=variables, expect=expect)
        return self.rows(out)

    def test_a_cpu_refuses_them_in_words(self):
        for flag in (["--nccl-algo", "Ring"], ["--nccl-proto", "LL"], ["--nccl-channels", "4"], ["--share-gpu"],
                     ["--cuda-graph"]):
            with self.subTest(flag=flag):
                line = self.refused("run", *self.model, "--tp", "2", "--device", "cpu", *flag)
                self.assertIn(flag[0], line)
                self.assertIn("--device cuda", line)

    def test_unknown_names_are_refused_with_what_is_allowed(self):
        self.assertIn("auto|Ring|Tree|", self.refused("run", *self.model, "--nccl-algo", "ring"))
        self.assertIn("auto|LL|LL128|Simple", self.refused("run", *self.model, "--nccl-proto", "LL256"))
        self.assertIn("--nccl-channels", self.refused("run", *self.model, "--nccl-channels", "65"))

    def test_one_rank_has_nobody_to_tell(self):
        row, = self.sweep(*self.emulated, "--ranks", "1", "--nccl-algo", "Ring")
        self.assertEqual(row["outcome"], "passed", row["reason"])
        self.assertIn("nccl-algo: Ring has no effect at one rank", row["reason"])
        self.assertNotIn("algo=Ring", row["comm_options"])

    def test_nccl_options_are_an_axis_of_a_sweep(self):
        rows = self.sweep(*self.emulated, "--tp", "2", "--ranks", "2", "--nccl-algo", "auto,Ring,Tree", "--nccl-channels", "0,4")
        self.assertEqual({row["outcome"] for row in rows}, {"passed"}, [row["reason"] for row in rows])
        for row, asked in zip(rows, ("", "channels=4", "algo=Ring", "algo=Ring channels=4", "algo=Tree", "algo=Tree channels=4")):
            self.assertTrue(row["comm_options"].startswith(asked), row["comm_options"])
            # The very process that ran had them in force.
            self.assertEqual("NCCL_ALGO=" + asked[5:9] in row["comm_options"], asked.startswith("algo"), row["comm_options"])
            self.assertEqual(row["comm_backend"], "nccl")

    def test_more_ranks_than_gpus_are_refused_with_both_numbers(self):  # L01
        rows = self.sweep(*self.emulated, "--tp", "2", "--ranks", "2", variables={"SHARDBENCH_EMU_GPUS": "1"})
        self.assertEqual([row["outcome"] for row in rows], ["skipped"])
        for part in ("2 ranks on", "1 GPU:", "--share-gpu"):
            self.assertIn(part, rows[0]["reason"])

    def test_a_shared_gpu_gives_the_right_numbers_and_says_so(self):
        rows = self.sweep(*self.emulated, "--tp", "2", "--ranks", "2", "--share-gpu", "--check",
                          variables={"SHARDBENCH_EMU_GPUS": "1"})
        self.assertEqual([row["outcome"] for row in rows], ["passed"], rows[0]["reason"])
        self.assertIn("share a GPU", rows[0]["reason"])
        for part in ("share-gpu", "NCCL_HOSTID=r0", "NCCL_SOCKET_IFNAME=lo"):
            self.assertIn(part, rows[0]["comm_options"])

    def test_the_emulated_gpu_has_no_graphs(self):
        self.assertIn("no CUDA graphs", self.refused("run", *self.model, *self.emulated, "--cuda-graph"))

    def test_out_of_memory_names_bytes_and_tensors(self):
        rows = self.sweep(*self.emulated, "--tp", "1,2", "--ranks", "2", variables={"SHARDBENCH_EMU_MEMORY_BYTES": "1500000"})
        row = next(row for row in rows if row["tp"] == "2")
        self.assertEqual(row["outcome"], "skipped")
        self.assertRegex(row["reason"], r"a rank needs [0-9.]+ MB, [0-9.]+ MB are free on Emulated GPU.*; largest: .* [0-9.]+ [kM]B, ")

    def test_what_a_gpu_gave_is_the_plan_and_its_workspaces(self):
        row = self.sweep(*self.emulated)[0]
        over = float(row["memory_measured_bytes"]) - float(row["memory_peak_bytes"])
        self.assertGreater(float(row["memory_peak_bytes"]), 4 * 2**20)  # two workspaces, each a 1024th of the 2 GiB of memory
        self.assertGreaterEqual(over, 0)
        self.assertLess(over, 0.5 * 2**20)  # what the arena rounds up

    def test_doctor_prints_every_variable_and_what_it_spoils(self):  # L08
        text = self.call("doctor", variables={"NCCL_P2P_LEVEL": "LOC", "NCCL_DEBUG": "WARN"})
        self.assertRegex(text, r"variable +NCCL_DEBUG=WARN")
        self.assertRegex(text, r"variable +NCCL_P2P_LEVEL=LOC")
        self.assertRegex(text, r"WRONG +NCCL_P2P_LEVEL=LOC .*unset it")
        for part in ("mpi ", "threads ", "binding ", "toolkit ", "driver ", "cuda "):
            self.assertIn("\n" + part, text)


if __name__ == "__main__":
    unittest.main()

"""Importers against what is known of the files by other means: hand arithmetic, other tools' definitions, time stamps."""
import os
import sqlite3
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import import_kernels as kernels  # noqa: E402
import import_runs  # noqa: E402
import import_training_logs as logs  # noqa: E402
from tool import BadInput  # noqa: E402

DATA = os.path.join(ROOT, "tests", "data", "imports")


def read(name):
    return import_runs.read(os.path.join(DATA, name))


class Overlap(unittest.TestCase):
    def test_of_two_streams(self):
        """Compute [1000,1200] and [1260,1320], communication [1100,1280]: by hand 260, 180, together 320."""
        results = read("kineto_two_kernels.json")["results"]
        self.assertAlmostEqual(results["compute_ms"], 0.260)
        self.assertAlmostEqual(results["comm_ms"], 0.180)
        self.assertAlmostEqual(results["exposed_comm_ms"], 0.060)
        self.assertAlmostEqual((results["comm_ms"] - results["exposed_comm_ms"]) / results["comm_ms"], 0.6667, 4)

    def test_the_operator_on_the_host_is_no_kernel(self):
        self.assertEqual([op["count"] for op in read("kineto_two_kernels.json")["ops"]], [1, 1, 1])

    def test_slices_that_overrun_each_other(self):
        entry = read("kineto_overrun.json")
        self.assertAlmostEqual(entry["results"]["compute_ms"], 0.060)  # the plain sum is 60.25 us
        self.assertEqual(sum(op["count"] for op in entry["ops"]), 3)

    def test_late_time_stamps_keep_their_digits(self):
        self.assertEqual(kernels.union([(1.7e15, 1.7e15 + 1), (1.7e15 + 1, 1.7e15 + 2)]), 2)

    def test_gathers_beside_any_compute(self):
        """Of 241.95 ms of gathers 134.18 lie beside products and 228.45 beside any compute: 13.50 are exposed."""
        gathers = [(0, 241.95)]
        products, others = [(0, 134.18)], [(134.18 - 50, 228.45)]
        with_products, with_all = kernels.overlap(products, gathers), kernels.overlap(products + others, gathers)
        self.assertAlmostEqual(with_all["exposed"], 13.50)
        self.assertAlmostEqual(with_products["overlap"] / 241.95, 0.555, 3)
        self.assertAlmostEqual(with_all["overlap"] / 241.95, 0.944, 3)

    def test_a_trace_that_is_cut_or_broken_is_refused_with_its_byte(self):
        with open(os.path.join(DATA, "kineto_two_kernels.json"), encoding="utf-8") as file:
            whole = file.read()
        for broken in (whole[: len(whole) // 2], whole.replace("elementwise", "element\x01wise")):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                file.write(broken)
                file.flush()
                with self.assertRaisesRegex(BadInput, r"byte \d+: no JSON"):
                    import_runs.read(file.name)


class Stats(unittest.TestCase):
    def test_the_old_table(self):
        entry = read("nsys_old_table.txt")
        self.assertEqual(len(entry["ops"]), 11)
        first = entry["ops"][0]
        self.assertAlmostEqual(first["total_ms"], 5448.188578)
        self.assertEqual((first["kind"], first["share_pct"], first["count"]), ("all_reduce", 27.8, 554))
        for op in entry["ops"]:  # the printed average is what total and count give
            self.assertAlmostEqual(op["total_ms"] * 1e6 / op["count"], op["p50_us"] * 1e3, delta=0.06)
        self.assertTrue(any("the table is cut" in note for note in entry["notes"]))

    def test_the_new_form(self):
        entry = read("nsys_new_kern_sum.csv")
        self.assertEqual(len(entry["ops"]), 10)
        self.assertEqual((entry["ops"][0]["label"], entry["ops"][0]["share_pct"]), ("flash_attention_prefill_f16", 50.1))
        self.assertAlmostEqual(entry["ops"][0]["p50_us"], 3041.179)

    def test_a_quoted_name_is_one_field(self):
        self.assertEqual([op["label"] for op in read("nsys_new_kern_sum_quoted_name.csv")["ops"]], ["burn(float *, int, int)"])

    def test_names_of_all_releases_are_communication(self):
        entry = read("nsys_mixed_nccl_names.csv")
        shares = [op["share_pct"] for op in entry["ops"] if op["axis"] == "communication"]
        self.assertAlmostEqual(sum(shares), 96.3)
        self.assertEqual([op["kind"] for op in entry["ops"]], ["send, receive", "all_reduce", "all_reduce", "communication", "kernel"])
        self.assertTrue(kernels.is_communication("ncclkernel_allreduce") and not kernels.is_communication("nccl:all_reduce"))

    def test_the_launch_entry_is_not_called_the_protocol(self):
        self.assertIn(kernels.ENTRY_NOTE, read("nsys_mixed_nccl_names.csv")["notes"])
        self.assertNotIn(kernels.ENTRY_NOTE, read("nsys_new_kern_sum.csv")["notes"])


class Sqlite(unittest.TestCase):
    def test_kernels_of_an_export(self):
        """The tables as Nsight Systems writes them: names in StringIds, times in nanoseconds."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.sqlite")
            database = sqlite3.connect(path)
            database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            database.execute('CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, "end" INTEGER, deviceId INTEGER, streamId INTEGER, '
                             "correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER)")
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm"), (2, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)")])
            database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, 1, 1, ?, ?)",
                                 [(1_000_000, 3_000_000, 1, 1), (2_000_000, 5_000_000, 2, 2), (6_000_000, 7_000_000, 1, 1)])
            database.commit()
            database.close()
            entry = import_runs.read(path)
        self.assertEqual(entry["results"], {"instrumented_step_ms": 6.0, "compute_ms": 3.0, "exposed_comm_ms": 2.0, "idle_ms": 1.0, "comm_ms": 3.0})
        self.assertEqual([(op["label"], op["count"], op["p50_us"]) for op in entry["ops"]], [("gemm", 2, 1500.0), ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)", 1, 3000.0)])


class TrainingLogs(unittest.TestCase):
    def test_megatron(self):
        entry = read("megatron_mixtral.log")
        self.assertAlmostEqual(entry["results"]["step_ms_p50"], (5533.8 + 5718.6) / 2)  # the first warms up
        self.assertAlmostEqual(entry["results"]["model_tflops_per_rank"], (236.0 + 228.4) / 2)
        self.assertEqual(entry["results"]["memory_measured_bytes"], 65536 * 2**20)
        self.assertEqual(entry["flags"], {"tp": "2", "pp": "4", "cp": "1", "ep": "2", "dp": "2", "micro-batch": "1", "seq": "2048", "global-batch": "128",
                                          "layers": "32", "precision": "bf16", "sequence-parallel": "true", "zero": "1"})

    def test_megatron_without_throughput(self):
        entry = read("megatron_llm.log")
        self.assertAlmostEqual(entry["results"]["step_ms_p50"], (87871.6 + 89474.8) / 2)
        self.assertEqual(entry["flags"], {"global-batch": "1024"})

    def test_torchtitan_against_its_time_stamps(self):
        entry = read("torchtitan_gpt2.log")
        # Steps 10 to 40 took from 37.109 to 48.083 s.
        self.assertAlmostEqual(entry["results"]["step_ms_p50"], (48.083 - 37.109) / 30 * 1e3, delta=1)
        self.assertEqual((entry["flags"]["dp"], entry["flags"]["global-batch"], entry["flags"]["seq"]), ("4", "20", "8192"))
        self.assertEqual(entry["results"]["iterations"], 4)

    def test_torchtitan_whose_ranks_all_speak(self):
        entry = read("torchtitan_ranks.log")
        self.assertEqual(entry["results"]["iterations"], 2)  # steps 5 and 6, each once
        self.assertAlmostEqual(entry["results"]["step_ms_p50"], 8 * 4096 / 8 * 1e3 * (1 / 10007 + 1 / 10020) / 2, places=6)
        self.assertEqual((entry["flags"]["dp"], entry["flags"]["tp"], entry["flags"]["zero"]), ("4", "2", "3"))
        self.assertEqual(entry["results"]["peak_tflops"], 2250)

    def test_nanotron(self):
        entry = read("nanotron.log")
        self.assertEqual((entry["results"]["step_ms_p50"], entry["results"]["ranks"], entry["flags"]["global-batch"]), (11500, 2, "64"))
        # 64 sequences of 4096 tokens at 22.8 thousand a second take 11.5 s.
        self.assertAlmostEqual(64 * 4096 / entry["results"]["tokens_per_s"], 11.5, delta=0.05)

    def test_deepspeed(self):
        entry = read("deepspeed.log")
        self.assertAlmostEqual(entry["results"]["step_ms_p50"], 16 / 16.807402094161112 * 1e3)
        self.assertEqual((entry["flags"]["global-batch"], entry["flags"]["zero"]), ("16", "0"))

    def test_a_rate_without_its_batch_is_no_step_time(self):
        for name, line in (("torchtitan_gpt2.log", "Training starts"), ("deepspeed.log", "train_batch_size")):
            with open(os.path.join(DATA, name), encoding="utf-8") as file:
                text = "".join(kept for kept in file if line not in kept)
            with self.assertRaisesRegex(BadInput, "no step time"):
                logs.read_training_log(name, text)

    def test_one_queue_and_data_parallelism_is_noted(self):
        """CUDA_DEVICE_MAX_CONNECTIONS=1 orders tensor-parallel communication, and keeps data-parallel reductions from running beside
        compute: worth a word where there is no tensor parallelism."""
        with open(os.path.join(DATA, "megatron_mixtral.log"), encoding="utf-8") as file:
            text = file.read() + "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
        alone = text.replace("tensor-model-parallel size: 2", "tensor-model-parallel size: 1").replace("data-parallel size: 2,", "data-parallel size: 4,")
        told = lambda text: any("CUDA_DEVICE_MAX_CONNECTIONS" in note for note in logs.read_training_log("x", text)["notes"])  # noqa: E731
        self.assertTrue(told(alone))
        self.assertFalse(told(text))


class Unknown(unittest.TestCase):
    def test_is_refused(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("hello\n")
            file.flush()
            with self.assertRaisesRegex(BadInput, "no file that is known"):
                import_runs.read(file.name)


if __name__ == "__main__":
    unittest.main()

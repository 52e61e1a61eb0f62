import csv
import io
import os
import subprocess
import sys
import tempfile
import unittest

from nsys_sample import COMM_THREAD, Sample

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MS = 1_000_000


def report(*arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "nsys_report.py"), *arguments],
                          capture_output=True, text=True, check=False)


def rows_of(result):
    return list(csv.DictReader(io.StringIO(result.stdout)))


class NsysReport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "rank0.sqlite")
        self.addCleanup(self.folder.cleanup)

    def numbers(self, row):
        return {key: float(value) for key, value in row.items() if key.endswith("_ms")}

    def step_with_overlap(self, sample, offset):
        """Launches in [0, 1] ms, kernels in [10, 110] ms after `offset`: 50 compute, 20 tp alone, 10 tp + dp, 20 idle."""
        at = lambda ms: offset + int(ms * MS)  # noqa: E731
        sample.range("step", "compute", at(0), at(2))
        sample.range("qkv", "compute", at(0.1), at(0.4), payload=1e9, registered=True)
        sample.range("all_reduce", "tp", at(0.5), at(0.7), payload=4096.0)
        sample.range("bucket", "dp", at(0.8), at(0.9), payload=8192.0)
        sample.kernel("gemm", at(0.2), at(10), at(60))
        sample.kernel("ncclDevKernel_AllReduce", at(0.6), at(50), at(90))
        sample.kernel("ncclDevKernel_ReduceScatter", at(0.85), at(80), at(90))
        sample.kernel("adamw", at(1.5), at(109), at(110))

    def test_device_step_adds_up_by_lane(self):
        sample = Sample(self.path)
        self.step_with_overlap(sample, 0)
        self.step_with_overlap(sample, 1000 * MS)
        sample.close()
        result = report(self.path, "--range", "step")
        self.assertEqual(result.returncode, 0, result.stderr)
        (row,) = rows_of(result)
        self.assertEqual((row["instances"], row["process"], row["spans"]), ("2", "4242", "device"))
        values = self.numbers(row)
        expected = {"step_ms": 100, "compute_ms": 51, "exposed_comm_ms": 30, "idle_ms": 19, "comm_ms": 40, "comm_tp_ms": 40,
                    "comm_dp_ms": 10, "exposed_tp_ms": 25, "exposed_dp_ms": 5, "exposed_pp_ms": 0, "exposed_other_comm_ms": 0}
        for name, value in expected.items():
            self.assertAlmostEqual(values[name], value, msg=name)
        self.assertAlmostEqual(values["compute_ms"] + values["exposed_comm_ms"] + values["idle_ms"], values["step_ms"])

    def test_kernels_outside_our_ranges_are_billed_by_their_kind(self):
        sample = Sample(self.path)
        sample.range("step", None, 0, 10 * MS)
        sample.range("ncclAllReduce", "tp", 1 * MS, 2 * MS, domain=4)
        sample.kernel("ncclDevKernel_AllReduce", 1 * MS, 20 * MS, 25 * MS)
        sample.kernel("other_kernel", 3 * MS, 25 * MS, 29 * MS)
        sample.close()
        values = self.numbers(rows_of(report(self.path, "--range", "step"))[0])
        self.assertAlmostEqual(values["exposed_other_comm_ms"], 5)
        self.assertAlmostEqual(values["comm_tp_ms"], 0)
        self.assertAlmostEqual(values["compute_ms"], 4)

    def test_host_trace_uses_the_innermost_ranges(self):
        sample = Sample(self.path)
        sample.range("step", "compute", 0, 100 * MS)
        sample.range("layer", "compute", 10 * MS, 60 * MS)
        sample.range("gemm", "compute", 10 * MS, 40 * MS)
        sample.range("norm", "compute", 45 * MS, 60 * MS)
        sample.range("all_reduce", "dp", 30 * MS, 80 * MS, thread=COMM_THREAD)
        sample.close()
        (row,) = rows_of(report(self.path, "--range", "step"))
        values = self.numbers(row)
        self.assertEqual(row["spans"], "host")
        self.assertAlmostEqual(values["compute_ms"], 45)
        self.assertAlmostEqual(values["exposed_dp_ms"], 25)
        self.assertAlmostEqual(values["idle_ms"], 30)
        self.assertAlmostEqual(values["step_ms"], 100)

    def test_without_a_range_the_capture_is_one_window(self):
        sample = Sample(self.path)
        self.step_with_overlap(sample, 0)
        sample.close()
        (row,) = rows_of(report(self.path))
        self.assertEqual(row["instances"], "1")
        self.assertAlmostEqual(self.numbers(row)["step_ms"], 100)

    def test_ops_count_kernels_of_each_range(self):
        sample = Sample(self.path)
        self.step_with_overlap(sample, 0)
        sample.close()
        rows = {row["name"]: row for row in rows_of(report(self.path, "--ops"))}
        self.assertEqual(rows["qkv"]["lane"], "compute")
        self.assertAlmostEqual(float(rows["qkv"]["total_ms"]), 50)
        self.assertAlmostEqual(float(rows["bucket"]["payload"]), 8192)
        self.assertEqual(rows["all_reduce"]["count"], "1")

    def test_bad_input_is_one_line_and_exit_2(self):
        text = os.path.join(self.folder.name, "text.sqlite")
        with open(text, "w", encoding="utf-8") as file:
            file.write("not a database, and long enough to be read as one" * 40)
        sample = Sample(self.path)
        self.step_with_overlap(sample, 0)
        sample.close()
        for arguments in ((text,), (os.path.join(self.folder.name, "absent.sqlite"),), (self.path, "--range", "no such range")):
            result = report(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            self.assertIn(arguments[-1] if len(arguments) > 1 else arguments[0], result.stderr)


if __name__ == "__main__":
    unittest.main()

import os
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "scripts", "gpu_check.sh")


class GpuCheck(unittest.TestCase):
    """scripts/gpu_check.sh where there is no GPU, and with programs that stand in for one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.out = os.path.join(self.folder, "out")
        os.makedirs(os.path.join(self.folder, "tools"))
        os.makedirs(os.path.join(self.folder, "build", "bin"))

    def program(self, where, name, text):
        path = os.path.join(self.folder, where, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)

    def fake_gpu(self, capability="9.0"):
        self.program("tools", "nvidia-smi", 'case "$*" in *compute_cap*) echo ' + capability +
                     ';; *) echo NVIDIA Fake;; esac\n')
        self.program("tools", "nvcc", "true\n")

    def run_check(self, *words, path=None, **variables):
        environment = {"PATH": path or f"{self.folder}/tools:{os.environ['PATH']}", "HOME": self.folder,
                       "BUILD_DIR": f"{self.folder}/build", **variables}
        return subprocess.run(["bash", SCRIPT, *words], capture_output=True, text=True, check=False, env=environment,
                              timeout=60)

    def summary(self, result):
        lines = result.stdout.split("key figure\n")[1].splitlines()
        self.assertIn(self.out, lines[-1])
        return {words[0]: (words[1], " ".join(words[3:])) for words in (line.split() for line in lines[:-1])}

    def test_without_a_gpu_it_says_what_is_missing(self):
        # A PATH with the plain tools only, whatever this machine has.
        tools = os.path.join(self.folder, "plain")
        os.makedirs(tools)
        for name in ("bash", "dirname", "head", "tr", "sed", "cat"):
            os.symlink(shutil.which(name), os.path.join(tools, name))
        result = self.run_check(self.out, path=tools)
        self.assertEqual(result.returncode, 2)
        self.assertIn("no GPU: nvidia-smi", result.stderr)
        self.assertFalse(os.path.exists(self.out))
        self.program("tools", "nvidia-smi", "echo 'No devices were found'; exit 6\n")
        result = self.run_check(self.out)
        self.assertEqual(result.returncode, 2)
        self.assertIn("lists none", result.stderr)
        self.fake_gpu("7.5")
        self.assertIn("compute capability 75", self.run_check(self.out).stderr)

    def test_the_plan_fits_nine_minutes(self):
        result = self.run_check("--plan")
        self.assertEqual(result.returncode, 0)
        for step in ("build", "kernels", "parity-fp32", "parity-bf16", "shared-gpu-2-ranks", "shared-gpu-4-ranks",
                     "kernel-bench", "layer-bench", "memory", "sanitizer", "replayed"):
            self.assertIn("\n" + step + " ", result.stdout)
        self.assertLessEqual(int(result.stdout.split("all together at most ")[1].split()[0]), 540)

    def test_bad_arguments_are_refused_in_one_line(self):
        for words in (("--bogus",), ("--bundle", "/no/such/folder"), ("a", "b")):
            result = self.run_check(*words)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertIn(words[-1], result.stderr)

    def test_every_step_has_a_line_and_a_failure_ends_nothing_else(self):
        self.fake_gpu()
        self.program("build/bin", "shardbench", 'case "$1" in\n'
                     'doctor) echo "verdict nothing wrong was found";;\n'
                     'sweep|run) [[ "$*" != *replayed* ]] || echo "$*"\n'
                     '  [[ "$*" != *fp32* ]] || { echo "shardbench: broken"; exit 1; }\n'
                     '  for ((i = 1; i <= $#; i++)); do [ "${!i}" != --out ] || { j=$((i + 1)); out=${!j}; }; done\n'
                     '  [ -e "$out" ] || printf "model,scope,precision,max_rel_error,model_tflops_per_rank,memory_peak_bytes,memory_measured_bytes,step_ms_p50,outcome\\r\\n" >"$out"\n'
                     '  printf "m,layer,bf16,0.001,321.5,1000000000,1090000000,12.5,passed\\r\\n" >>"$out";;\n'
                     'esac\n')
        self.program("build/bin", "test_cuda", 'echo "[  PASSED  ] 61 tests."\n')
        self.program("build/bin", "bench_kernels", 'echo "gemm/llama3-8b/tp1/bf16 1.0 600.0 300.0 61.0% 12.0%"\n')
        result = self.run_check(self.out, "--only", "doctor,kernels,parity-fp32,parity-bf16,kernel-bench,layer-bench,memory,replayed")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        steps = self.summary(result)
        self.assertEqual({name for name, (verdict, _) in steps.items() if verdict == "FAIL"}, {"parity-fp32"})
        self.assertIn("broken", steps["parity-fp32"][1])
        self.assertIn("61 tests", steps["kernels"][1])
        self.assertIn("0.001", steps["parity-bf16"][1])
        self.assertIn("61% of peak", steps["kernel-bench"][1])
        self.assertIn("321.5", steps["layer-bench"][1])
        self.assertEqual(steps["memory"][0], "pass", steps["memory"])
        self.assertEqual(steps["replayed"], ("pass", "network of h100-sxm, step_ms_p50 12.5, 12.5"))
        with open(os.path.join(self.out, "replayed.log"), encoding="utf-8") as log:
            asked = log.read().splitlines()
        self.assertEqual(["--model llama3.1-8b" in asked[0], "--model llama3.1-70b" in asked[1]], [True, True])
        for line in asked[:2]:
            self.assertIn("--source replayed --system h100-sxm", line)
            self.assertIn("--tp 1,2,4,8", line)
        with open(os.path.join(self.out, "parity-fp32.log"), encoding="utf-8") as log:
            self.assertIn("shardbench: broken", log.read())

    def test_a_step_that_hangs_is_ended(self):
        self.fake_gpu()
        self.program("build/bin", "shardbench", "sleep 100\n")
        result = self.run_check(self.out, "--only", "doctor", GPU_CHECK_SECONDS="11")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not done after", self.summary(result)["doctor"][1])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""plan answers with rows that simulate reproduces, weighs objectives, explains itself, and says in one line what it cannot take."""
import json
import shlex
import unittest

from cli import CliTest

SMALL = ["--system", "h100-sxm", "--gpus", "8", "--global-batch", "32", "--seq", "1024", "--model", "gpt2-medium", "--layers", "8"]
SERVE = ["--system", "h100-sxm", "--model", "llama3.1-8b", "--layers", "4", "--seq", "512"]


class Plan(CliTest):
    def test_rows_reproduce(self):
        out = self.path("plan.csv")
        rows = json.loads(self.call("plan", *SMALL, "--top", "2", "--json", "--out", out, "--tokens", "1B", "--price", "2"))
        self.assertEqual([row["source"] for row in rows], ["planned"] * 2)
        self.assertLessEqual(rows[0]["step_ms_p50"], rows[1]["step_ms_p50"])
        self.assertEqual(len(self.rows(out)), 2)
        (again,) = json.loads(self.call(*shlex.split(rows[0]["command"])[1:], "--json"))
        self.assertAlmostEqual(again["step_ms_p50"], rows[0]["step_ms_p50"], delta=1e-9 * again["step_ms_p50"])
        self.assertEqual(again["memory_peak_bytes"], rows[0]["memory_peak_bytes"])
        for row in rows:
            self.assertTrue(row["run_command"].startswith("shardbench run --model gpt2-medium"))
            self.assertIn("--global-batch-size 32", row["megatron_flags"])
            self.assertIn("--training.global_batch_size 32", row["torchtitan_flags"])
            self.assertAlmostEqual(row["device_hours"], 24 * 8 * row["training_days"], places=6)
            self.assertAlmostEqual(row["cost_usd"], 2 * row["device_hours"], places=6)
        self.assertTrue(rows[0]["pareto"])

    def test_gradients_of_half_the_size(self):
        cut = ["--top", "1", "--json", "--fix", "tp=1,pp=1,zero=0,micro-batch=1,recompute=none"]
        (whole,) = json.loads(self.call("plan", *SMALL, "--precision", "bf16", *cut))
        (half,) = json.loads(self.call("plan", *SMALL, "--precision", "bf16", "--gradient-dtype", "bf16", *cut))
        self.assertAlmostEqual(2 * half["gradient_bytes"], whole["gradient_bytes"], delta=0.01 * whole["gradient_bytes"])
        self.assertIn("--gradient-dtype bf16", half["command"])
        self.assertIn("--grad-reduce-in-bf16", half["megatron_flags"])
        self.assertNotIn("--grad-reduce-in-bf16", whole["megatron_flags"])

    def test_fixed_axes_and_training(self):
        text = self.call("plan", *SMALL, "--fix", "tp=2,pp=2", "--exclude", "zero=3", "--tokens", "1B", "--deadline", "1d",
                         "--stragglers", "5%", "--max-memory", "90%")
        self.assertIn("best      tp 2, pp 2, dp 2", text)
        self.assertIn("1,000,000,000 tokens: 30,518 steps", text)
        self.assertIn("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", text)
        self.assertIn("deadline  1 days: met", text)
        self.assertIn("stragglers make each step 5% longer", text)

    def test_scaling_curve(self):
        text = self.call("plan", *SMALL[:2], "--gpus", "1..4", *SMALL[4:], "--top", "1", "--tokens", "1B", "--price", "2",
                         "--objective", "cost")
        self.assertIn("scaling of gpt2-medium at a fixed global batch of 32", text)
        self.assertIn("bend      ", text)
        self.assertIn("USD", text)

    def test_explains(self):
        text = self.call("plan", *SMALL, "--top", "2", "--what-if", "--pareto", "--fix", "micro-batch=4")
        for words in ("next      ", "plain     data parallelism alone wins", "front of time, memory and cost", "on b200",
                      "twice the memory bandwidth", "half the micro-batch"):
            self.assertIn(words, text)

    def test_fewest_devices(self):
        fast = ["--model", "gpt2-medium", "--layers", "8", "--seq", "1024", "--global-batch", "32", "--system", "h100-sxm",
                "--fix", "micro-batch=1|2|4"]
        text = self.call("plan", *fast, "--objective", "gpus", "--tokens", "10B", "--deadline", "12h", "--gpus", "1..64", "--top", "1")
        self.assertIn("fewest devices with the run over within 0.5 days", text)
        self.assertIn("deadline  0.5 days: met", text)
        self.assertIn("every smaller count with a legal cut is not", text)
        # 14 = 7 replicas of a batch of 63 over 2 devices each: no doubling comes by it.
        text = self.call("plan", "--model", "llama3.1-8b", "--system", "h100-sxm", "--objective", "gpus", "--global-batch", "63",
                         "--tokens", "1e12", "--deadline", "70d", "--seq", "8192", "--top", "1")
        self.assertIn("devices   14 are enough", text)
        none = self.call("plan", *fast, "--objective", "gpus", "--tokens", "10T", "--deadline", "1d", "--gpus", "8", "--top", "1", expect=1)
        self.assertIn("none of these counts is enough", none)

    def test_nothing_fits(self):
        big = ["--model", "llama3.1-405b", "--system", "h100-sxm", "--gpus", "8", "--global-batch", "8", "--seq", "4096"]
        text = self.call("plan", *big, "--fix", "micro-batch=1", expect=1)
        self.assertIn("nothing fits", text)
        self.assertIn("change    fits on 128 devices", text)
        (row,) = json.loads(self.call("plan", *big, "--fix", "micro-batch=1", "--json", expect=1))
        self.assertEqual(row["outcome"], "failed")
        self.assertIn("out of memory", row["reason"])
        # A block of 7.9e9 parameters takes 18 bytes each.
        text = self.call("plan", "--model", "megatron-1t", "--layers", "2", "--system", "h100-sxm", "--gpus", "8", "--global-batch", "8",
                         "--seq", "2048", "--fix", "tp=1,zero=0", expect=1)
        self.assertIn("layer     one layer of 7,864,652,800 parameters", text)
        self.assertIn("at least tp 2", text)
        self.assertIn("change    fits without --fix tp=1", text)

    def test_serving(self):
        rows = json.loads(self.call("plan", *SERVE, "--gpus", "4", "--ttft", "500ms", "--tpot", "20ms", "--top", "1", "--json"))
        self.assertEqual([row["phase"] for row in rows], ["prefill", "decode"])
        self.assertLessEqual(rows[0]["ttft_ms"], 500)
        self.assertLessEqual(rows[1]["tpot_ms"], 20)
        for row in rows:
            (again,) = json.loads(self.call(*shlex.split(row["command"])[1:], "--json"))
            self.assertAlmostEqual(again["step_ms_p50"], row["step_ms_p50"], delta=1e-9 * again["step_ms_p50"])
        text = self.call("plan", *SERVE, "--gpus", "4", "--objective", "latency", "--global-batch", "8")
        self.assertIn("; by latency", text)
        text = self.call("plan", *SERVE, "--objective", "gpus", "--tpot", "2ms", "--gpus", "1..8", "--global-batch", "8", "--price", "2")
        self.assertIn("fewest devices with tpot 2 ms", text)
        text = self.call("plan", *SERVE, "--gpus", "2", "--ttft", "0.01ms", expect=1)
        self.assertIn("too slow", text)
        # 70.6e9 parameters of 2 bytes fit two devices of 80 GB, and no single one.
        text = self.call("plan", "--model", "llama3.1-70b", "--system", "h100-sxm", "--gpus", "1", "--objective", "latency", "--seq", "128", expect=1)
        self.assertIn("nothing fits", text)
        self.assertIn("change    2 devices: tp 2", text)

    def test_failed_targets_are_told(self):
        """Nothing serves as asked: the same shape of answer, failed, with the limit that is missed and by how much."""
        rows = json.loads(self.call("plan", *SERVE, "--gpus", "2", "--ttft", "0.01ms", "--json", expect=1))
        self.assertEqual([row["outcome"] for row in rows], ["failed", "failed"])
        self.assertIn("keeps ttft 0.01 ms: the least ttft is", rows[0]["reason"])
        self.assertIn("more than 0.01 ms", rows[0]["reason"])
        rows = json.loads(self.call("plan", *SERVE, "--objective", "gpus", "--gpus", "1..2", "--tpot", "0.01ms", "--json", expect=1))
        self.assertIn("tpot", rows[0]["reason"])
        rows = json.loads(self.call("plan", "--model", "gpt2", "--system", "h100-sxm", "--global-batch", "64", "--objective", "gpus",
                                    "--gpus", "8", "--tokens", "100T", "--deadline", "1d", "--json", expect=1))
        self.assertIn("deadline of 1 days missed by", rows[0]["reason"])
        self.assertIn("of 1 to 2 (--gpus)", self.call("plan", *SERVE, "--objective", "gpus", "--gpus", "2", "--tpot", "1s"))

    def test_a_detector_has_few_axes(self):
        text = self.call("plan", "--model", "yolo26n", "--system", "h100-sxm", "--gpus", "4", "--global-batch", "32")
        self.assertIn("  pp                1\n", text)
        self.assertNotIn("selective", text)
        self.assertIn("Megatron-LM has no detectors", text)

    def test_wrong_input(self):
        for words in (["--gpus", "0"], ["--gpus", "8..4"], ["--fix", "tp=zero"], ["--fix", "heads=1"], ["--tokens", "-1"],
                      ["--tokens", "1Q"], ["--tokens", "1e12x"], ["--deadline", "3d"], ["--system", "h101"], ["--max-memory", "no"], ["--max-memory", "101%"],
                      ["--objective", "speed"], ["--objective", "cost"], ["--ttft", "5h"], ["--price", "free"], ["--context", "9"],
                      ["--stragglers", "x"], ["--mtbf-hours", "0"]):
            # SMALL gives some of these flags already: the words replace them.
            rest = [w for i, w in enumerate(SMALL) if w != words[0] and SMALL[i - 1] != words[0]]
            self.assertIn(words[0].strip("-") if words[0] != "--fix" else "-", self.refused("plan", *rest, *words))
        self.assertIn("--ttft: '1us' is not a number from 0.001 to 1000000, with ms or s behind it (without: ms)",
                      self.refused("plan", *SERVE, "--gpus", "2", "--ttft", "1us"))
        self.assertIn("--fix zero=7: '7' is not an integer from 0 to 3", self.refused("plan", *SMALL, "--fix", "zero=7"))
        for words in (["--pareto"], ["--what-if"], ["--stragglers", "5%"], ["--mtbf-hours", "50000"]):
            self.assertIn("allowed with", self.refused("plan", *SERVE, "--gpus", "2", "--ttft", "1s", *words))

    def test_more_choice_is_never_slower(self):
        """A class of cuts whose closed form is far too fast must not hide the others (it did: ZeRO 2 with experts)."""
        words = ["plan", "--model", "mixtral-8x7b", "--system", "h100-sxm", "--stack", "te-2025", "--gpus", "64",
                 "--global-batch", "256", "--seq", "4096", "--top", "1", "--json"]
        (whole,) = json.loads(self.call(*words))
        for fixed in ("zero=1", "schedule=interleaved"):
            (part,) = json.loads(self.call(*words, "--fix", fixed))
            self.assertLessEqual(whole["step_ms_p50"], part["step_ms_p50"] * 1.0001, fixed)

    def test_a_count_without_a_cut_is_a_row(self):
        words = ["plan", "--model", "yolo26n", "--system", "pcie-box", "--global-batch", "64"]
        rows = json.loads(self.call(*words, "--gpus", "8..13", "--top", "1", "--json"))
        self.assertEqual([row["outcome"] for row in rows], ["passed", "skipped"])
        self.assertIn("no legal cut for 13 devices", rows[1]["reason"])
        self.assertIn("as 4 or 8 devices have", self.refused(*words, "--gpus", "7"))

    def test_impossible_demands_are_named(self):
        self.assertIn("--fix tp=3: leaves no legal cut", self.refused("plan", *SMALL, "--fix", "pp=2,tp=3"))
        self.assertIn("--fix tp=8 and --fix pp=8: together", self.refused("plan", *SMALL, "--fix", "tp=8,pp=8"))
        self.assertIn("--exclude: tp=1|2|4|8|16: leaves no value", self.refused("plan", *SMALL, "--exclude", "tp=1|2|4|8|16"))
        self.assertIn("--fix: zero=1: serving", self.refused("plan", *SERVE, "--gpus", "2", "--ttft", "1s", "--fix", "zero=1"))
        self.assertIn("--objective: 'step-time'", self.refused("plan", *SERVE, "--gpus", "2", "--ttft", "1s", "--objective", "step-time"))
        self.assertIn("--model", self.refused("plan", "--model", "yolo26n", "--system", "h100-sxm", "--gpus", "2", "--tpot", "1s"))


class Flags(CliTest):
    """What the cut is called elsewhere; expectations from the checks of Megatron-LM's and torchtitan's own sources."""

    def flags(self, fix, *words, model="llama3.1-8b", layers="8", precision="bf16"):
        (row,) = json.loads(self.call("plan", "--model", model, "--layers", layers, "--system", "h100-sxm", "--gpus", "8", "--global-batch",
                                      "32", "--seq", "1024", "--precision", precision, "--top", "1", "--json", *words,
                                      "--fix", ("" if "cp=" in fix else "cp=1,") + "micro-batch=1,tp-overlap=none," + fix))
        return row["megatron_flags"], row["torchtitan_flags"]

    def test_data_parallel(self):
        _, titan = self.flags("tp=1,pp=1,zero=0,recompute=none")
        self.assertIn("--parallelism.data_parallel_replicate_degree 8 --parallelism.data_parallel_shard_degree 1 --", titan)
        self.assertNotIn("[", titan)
        _, titan = self.flags("tp=1,pp=1,zero=1,recompute=none", "--gradient-dtype", "bf16")
        self.assertIn("data_parallel_replicate_degree 8 --parallelism.data_parallel_shard_degree 1 [no option for zero 1]", titan)
        self.assertIn("--training.mixed_precision_reduce bfloat16 [", titan)
        for stage in ("0", "1"):  # replicas alone are refused beside tensor parallelism
            megatron, titan = self.flags(f"tp=2,pp=1,recompute=selective,zero={stage}", precision="fp32")
            self.assertNotIn("replicate", titan)
            self.assertIn(f"data_parallel_shard_degree 4 --parallelism.fsdp_reshard_after_forward never [no zero {stage} beside", titan)
            self.assertIn("--training.mixed_precision_param float32", titan)
            self.assertIn("--activation_checkpoint.mode selective [keeps attention and every other GEMM", titan)
            self.assertEqual("--use-distributed-optimizer" in megatron, stage == "1")
        for stage, strategy, reshard in (("2", "optim_grads", "never"), ("3", "optim_grads_params", "always")):
            megatron, titan = self.flags(f"tp=1,pp=1,zero={stage},recompute=none")
            self.assertIn(f"--use-megatron-fsdp --data-parallel-sharding-strategy {strategy} --use-distributed-optimizer --ckpt-format "
                          "fsdp_dtensor --no-gradient-accumulation-fusion [CUDA_DEVICE_MAX_CONNECTIONS must not be 1]", megatron)
            self.assertIn(f"data_parallel_shard_degree 8 --parallelism.fsdp_reshard_after_forward {reshard} --", titan)
        _, titan = self.flags("cp=8,tp=1,pp=1,zero=0,recompute=none")
        self.assertIn("data_parallel_shard_degree 1 --parallelism.fsdp_reshard_after_forward never [no zero 0 beside another cut", titan)
        _, titan = self.flags("tp=8,pp=1,zero=0,recompute=none")
        self.assertIn("[its mixed precision takes effect beside tp or pp only with", titan)

    def test_pipeline(self):
        less = "--parallelism.pipeline_parallel_first_stage_less_layers 0 --parallelism.pipeline_parallel_last_stage_less_layers 0"
        for schedule in ("1f1b", "zb-v"):
            _, titan = self.flags(f"tp=1,pp=4,zero=1,recompute=none,schedule={schedule}")
            self.assertIn(less + " --", titan)
            self.assertNotIn("layers_per_stage", titan)
        cut = "tp=1,pp=4,zero=1,recompute=none,schedule=interleaved,vpp=2"
        megatron, titan = self.flags(cut)
        self.assertIn("--pipeline-model-parallel-size 4 --num-virtual-stages-per-pipeline-rank 2", megatron)
        self.assertIn(less + " --parallelism.pipeline_parallel_layers_per_stage 1 ", titan)
        # 11 layers over 8 chunks: the leftovers sit before the last.
        megatron, titan = self.flags(cut, layers="11")
        self.assertIn("--pipeline-model-parallel-layout 'E(t|)*4(t*2|)*3tL'", megatron)
        self.assertNotIn("virtual", megatron)
        self.assertIn(less + " [11 layers over 8 chunks: name the modules of each in parallelism.module_fqns_per_model_part, with 4 of "
                      "1, 3 of 2, 1 of 1 layers]", titan)
        megatron, _ = self.flags("tp=1,pp=2,zero=1,recompute=none,schedule=gpipe", layers="9")
        self.assertIn("[no flag for schedule gpipe]", megatron)
        megatron, _ = self.flags("tp=1,pp=2,zero=1,recompute=none,schedule=1f1b", layers="9")
        self.assertIn("--pipeline-model-parallel-layout 'Et*5|t*4L'", megatron)

    def test_experts(self):
        def moe(fix):
            return self.flags("pp=1,zero=1,recompute=none," + fix, model="qwen3-30b-a3b", layers="2")
        megatron, titan = moe("tp=2,ep=4,etp=1,sequence-parallel=false")
        self.assertIn("--expert-model-parallel-size 4 --expert-tensor-parallel-size 1 [refuses experts under tensor", megatron)
        self.assertIn("data_parallel_shard_degree 4", titan)
        self.assertIn("--parallelism.expert_parallel_degree 4 --", titan)
        megatron, titan = moe("tp=2,ep=4,etp=2,sequence-parallel=true")
        self.assertIn("--expert-tensor-parallel-size 2 --sequence-parallel", megatron)
        self.assertIn("--parallelism.expert_parallel_degree 4 --parallelism.expert_tensor_parallel_degree 2 --", titan)
        _, titan = moe("tp=4,ep=2,etp=1,sequence-parallel=true")
        self.assertIn("[refuses ep 2: it takes multiples of 4 that divide 8]", titan)
        _, titan = moe("tp=2,ep=1,etp=1,sequence-parallel=true")
        self.assertIn("[without expert parallelism its experts are cut over tp]", titan)

    def test_models(self):
        for model, has in (("gpt2-medium", False), ("mixtral-8x7b", False), ("gemma-2-2b", False), ("qwen3-4b", True),
                           ("deepseek-v2-lite", True), ("llama3.1-70b", True)):
            _, titan = self.flags("tp=1,pp=1,ep=1,zero=3,recompute=full", model=model, layers="2")
            self.assertEqual("[torchtitan has no such model]" in titan, not has, model)


if __name__ == "__main__":
    unittest.main()

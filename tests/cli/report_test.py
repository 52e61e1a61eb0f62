"""--report and --facts of the commands: the page is made, and the facts agree with the row."""
import json
import unittest

from cli import QUICK, CliTest

SIMULATE = ["--system", "h100-sxm", "--precision", "bf16"]


class Facts(CliTest):
    def simulate(self, *words):
        self.call("simulate", *self.model, *SIMULATE, *words, "--out", self.path("s.csv"), "--facts", self.path("s.json"))
        with open(self.path("s.json"), encoding="utf-8") as file:
            return self.rows(self.path("s.csv"))[-1], json.load(file)

    def test_timeline_holds_every_pass_of_every_stage(self):
        row, facts = self.simulate("--pp", "2", "--global-batch", "8", "--micro-batch", "2")
        self.assertEqual(facts["run_id"], row["run_id"])
        self.assertAlmostEqual(facts["timeline"]["step_ms"], float(row["step_ms_p50"]), places=6)
        self.assertEqual([stage["stage"] for stage in facts["timeline"]["stages"]], [0, 1])
        for stage in facts["timeline"]["stages"]:
            passes = [(kind, microbatch) for _, _, kind, microbatch, _ in stage["blocks"] if kind in "FB"]
            self.assertEqual(sorted(passes), [(kind, m) for kind in "BF" for m in range(4)])
            self.assertTrue(stage["communication"]["pp"])
            starts = [block[0] for block in stage["blocks"]]
            self.assertEqual(starts, sorted(starts))
            # The operations of a block lie within it, and know their layer: two a stage.
            for kind in ("F0", "B0"):
                layers = {op[4] for op in stage["ops"][kind]} - {-1}
                self.assertEqual(layers, {2 * stage["stage"], 2 * stage["stage"] + 1})

    def test_memory_parts_add_up(self):
        row, facts = self.simulate("--tp", "2")
        parts = {name: size for name, size in facts["memory"]["parts"]}
        self.assertAlmostEqual(sum(parts.values()), float(row["memory_peak_bytes"]), delta=1)
        self.assertEqual(float(row["reserved_bytes"]), parts["reserved"])
        self.assertEqual(float(row["memory_capacity_bytes"]), 80e9)

    def test_operations_have_bytes_and_flops(self):
        self.simulate("--tp", "2")
        with_label = {(op["label"], op["phase"]): op for op in self.rows(self.path("s_ops.csv"))}
        up = with_label["mlp.up", "forward"]
        # 32 tokens of 64 channels onto half of 256: 2 m n k, and the bias; operands of two bytes read once, the output written once.
        self.assertEqual(float(up["flops"]), 2 * 32 * 128 * 64 + 32 * 128)
        self.assertGreaterEqual(float(up["bytes"]), 2 * (32 * 64 + 128 * 64 + 32 * 128))
        self.assertAlmostEqual(float(up["tflops"]), float(up["flops"]) / float(up["predicted_us"]) / 1e6, places=9)
        reduce = with_label["mlp.down.reduce", "forward"]
        self.assertEqual(float(reduce["bytes"]), 2 * 32 * 64)
        self.assertAlmostEqual(float(reduce["busbw_gb_per_s"]), float(reduce["algbw_gb_per_s"]))  # 2 (n - 1) / n of two ranks


class FailAbove(CliTest):
    def test_exit_code_follows_the_slowest(self):
        for name, words in (("a.csv", ["--tp", "2"]), ("b.csv", ["--tp", "2"])):
            self.call("simulate", *self.model, *SIMULATE, *words, "--out", self.path(name))
        with open(self.path("b.csv"), encoding="utf-8") as file:
            text = file.read()
        step = self.rows(self.path("a.csv"))[0]["step_ms_p50"]
        with open(self.path("b.csv"), "w", encoding="utf-8") as file:
            file.write(text.replace(step, str(1.05 * float(step))))
        files = [self.path("a.csv"), self.path("b.csv")]
        self.assertIn("0 of 1 configurations", self.call("compare", *files, "--fail-above", "6%"))
        self.assertIn("1 of 1 configurations", self.call("compare", *files, "--fail-above", "4", expect=1))
        self.call("compare", *reversed(files), "--fail-above", "0%")  # faster is no failure
        self.assertIn("--fail-above", self.refused("compare", *files, "--fail-above", "much"))


class Page(CliTest):
    def page(self, *words, says, code=0):
        self.call(*words, "--report", self.path("r.html"), expect=code)
        with open(self.path("r.html"), encoding="utf-8") as file:
            text = file.read()
        for word in says:
            self.assertIn(word, text)
        return text

    def test_of_each_command(self):
        self.page("simulate", *self.model, *SIMULATE, "--pp", "2", "--global-batch", "4", says=('class="timeline"', "on 2 H100s", 'id="memory"'))
        self.page("plan", *self.model, *SIMULATE, "--gpus", "4", "--global-batch", "8", says=('class="timeline"', 'id="what-if"', 'id="rows"'))
        self.page("run", *self.model, *QUICK, "--tp", "2", "--ranks", "2", "--out", self.path("run.csv"), says=('class="timeline"', "rank 1", "Measured on"))
        self.page("sweep", *self.model, *QUICK, "--dp", "1,2", "--global-batch", "4", "--ranks", "2", "--out", self.path("sweep.csv"), says=('id="rows"', "Measured on"))
        self.page("compare", self.path("run.csv"), self.path("run.csv"), says=("B takes 1.000 times as long as A",))

    def test_what_does_not_fit_is_a_page_too(self):
        self.page("simulate", "--model", "llama3.1-405b", *SIMULATE, code=1, says=("No configuration has a step time: 1 failed",))

    def test_refusals(self):
        out = self.path("s.csv")
        self.call("simulate", *self.model, *SIMULATE, "--out", out)
        for words in (["--report", out], ["--out", self.path("t.csv"), "--report", self.path("t.csv")], ["--facts", out]):
            self.assertIn("rows", self.refused("simulate", *self.model, *SIMULATE, *words))
        self.assertIn("no folder", self.refused("simulate", *self.model, *SIMULATE, "--report", self.path("none/r.html")))
        self.assertIn("needs --out", self.refused("sweep", *self.model, "--report", self.path("r.html")))


if __name__ == "__main__":
    unittest.main()

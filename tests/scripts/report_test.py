"""The report page without a browser: what it says against arithmetic by hand, its structure, its size, what it escapes."""
import html.parser
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import sample_csv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, "scripts")
sys.path.insert(0, SCRIPTS)
import report_data  # noqa: E402
import report_svg  # noqa: E402
import report_units as units  # noqa: E402

EXTRA = ["system", "software_stack", "microbatches", "mfu_pct", "peak_tflops", "memory_capacity_bytes", "reserved_bytes", "predicted_step_ms",
         "flops_convention", "cost_usd", "training_days", "device_hours", "tokens_per_s_per_rank", "error_band_pct", "routing"]
HEADER = sample_csv.HEADER + EXTRA
# One stage: a forward and a backward, whose ops add up to them, and one all-reduce below.
STAGE = {"rank": 0, "stage": 0, "chunks": [[0, 4]], "blocks": [[0, 100, "F", 0, 0], [100, 200, "B", 0, 0]],
         "communication": {"tp": [[60, 20, 2, 4096, "mlp.down.reduce"]]},
         "ops": {"F0": [["mlp.up", "gemm", 0, 60, 0, 1e6, 1e9], ["mlp.down", "gemm", 60, 40, 0, 1e6, 1e9]],
                 "B0": [["mlp.up.dx", "gemm", 0, 200, 0, 1e6, 1e9]]}}


def planned_row(dp, tp, pp, **changes):
    return sample_csv.passed_row(dp, tp, pp, **({"source": "planned", "run_id": f"r{dp}-{tp}-{pp}", "system": "h100-sxm", "software_stack": "te-2025",
                                 "device": "NVIDIA H100-SXM5-80GB", "microbatches": 8 // dp, "mfu_pct": 40.0, "peak_tflops": 989.4,
                                 "memory_capacity_bytes": 12e9, "ranks_per_core": "", "command": f"shardbench simulate --model gpt2 --tp {tp}"} | changes))


class Reader(html.parser.HTMLParser):
    """What a page is made of: tags with attributes, and its text without scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.raw = [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.raw = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self.raw = None

    def handle_data(self, data):
        if not self.raw:
            self.text += data

    def all(self, tag, **attributes):
        return [held for name, held in self.tags if name == tag and all(held.get(key.rstrip("_")) == value for key, value in attributes.items())]


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words, code=0):
        result = subprocess.run([sys.executable, os.path.join(SCRIPTS, "report.py"), *words], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def page(self, rows, facts=None, header=None):
        sample_csv.write_csv(self.path("rows.csv"), rows, header or HEADER)
        words = [self.path("rows.csv"), "--out", self.path("rows.html"), "--no-run"]
        if facts is not None:
            with open(self.path("facts.json"), "w", encoding="utf-8") as file:
                json.dump(facts, file)
            words += ["--facts", self.path("facts.json")]
        self.call(*words)
        with open(self.path("rows.html"), encoding="utf-8") as file:
            self.html = file.read()
        return Reader(self.html)

    def data(self):
        return json.loads(self.html.split('<script id="data" type="application/json">')[1].split("</script>")[0])


class Answer(Report):
    def test_the_fastest_cut_is_the_answer(self):
        rows = [planned_row(dp, tp, 1) for dp in (1, 2, 4) for tp in (1, 2)]
        best = min((row for row in rows), key=lambda row: row["step_ms_p50"])
        page = self.page(rows)
        self.assertIn("tp 2 · dp 4 is the fastest of 6 cuts:", page.text.replace("\u00a0", " "))
        self.assertEqual((best["dp"], best["tp"]), (4, 2))
        # 1000 / 8 + 25 * 3 + 40 + 5 = 245 ms as broken down, of which the step is 97%.
        self.assertIn("238\u00a0ms a step on 8 H100s at 40.0% MFU", page.text)

    def test_shared_knobs_stand_once(self):
        page = self.page([planned_row(1, tp, 1, recompute="full", zero_stage=1) for tp in (1, 2)])
        self.assertIn("full recomputation", page.text)
        self.assertEqual(sorted(self.data()["rows"]["label"]), ["one rank", "tp 2"])

    def test_trust_is_said_in_words(self):
        self.assertIn("never scored", self.page([planned_row(1, 1, 1)]).text)
        self.assertIn("dense models in f32 on stack te-2025 were off by 3% on average", self.page([planned_row(1, 1, 1, error_band_pct=3.2)]).text)
        self.assertIn("mixtures of experts", self.page([planned_row(1, 1, 1, routing="learned")]).text)
        crowded = self.page([sample_csv.passed_row(2, 2, 1)])
        self.assertIn("Ranks shared cores", crowded.text)

    def test_no_row_passed(self):
        page = self.page([planned_row(1, 1, 1, outcome="skipped", step_ms_p50="", reason="heads 12 do not divide by tp 16")])
        self.assertIn("No configuration has a step time: 1 skipped.", page.text)
        self.assertIn("heads 12 do not divide", page.text)

    def test_cost_and_days(self):
        page = self.page([planned_row(1, 1, 1, cost_usd=1.25e6, training_days=15.94, device_hours=24393)])
        for words in ("$1.25", "15.9", "24,393 device-hours"):
            self.assertIn(words, page.text)


class Bars(Report):
    def test_widths_follow_the_times(self):
        rows = [planned_row(1, 2, 1), planned_row(1, 1, 1)]
        page = self.page(rows)
        # Device counts have scales of their own: each of these two bars is the longest of its scale.
        segments = [held for held in page.all("span") if (held.get("class") or "").startswith("seg compute")]
        total = {tp: 1000 / tp + 40 * (tp - 1) + 5 for tp in (1, 2)}
        widths = [float(re.search(r"width:([\d.]+)%", held["style"])[1]) for held in segments]
        self.assertEqual([round(width, 1) for width in widths], [round(100 * 500 / total[2], 1), round(100 * 1000 / total[1], 1)])
        self.assertIn("40.0\u00a0ms, 7.3%", self.html)  # of 545 ms

    def test_one_scale_within_a_device_count(self):
        page = self.page([planned_row(2, 1, 1), planned_row(1, 2, 1)])
        widths = [float(re.search(r"width:([\d.]+)%", held["style"])[1]) for held in page.all("span") if (held.get("class") or "").startswith("seg compute")]
        self.assertEqual(round(widths[0], 1), round(100 * 500 / 545, 1))  # the slower one, 545 ms, is the scale of both
        self.assertEqual(widths[0], widths[1])

    def test_memory_against_capacity(self):
        page = self.page([planned_row(1, 1, 1, reserved_bytes=2e9, memory_peak_bytes=11e9)])
        limit = page.all("div", class_="limit")
        self.assertEqual(limit[0]["style"], "left:100.00%")  # 12 GB, more than the 11 that are needed
        reserved = [held for held in page.all("span") if held.get("class") == "seg reserved"]
        self.assertIn("width:16.67%", reserved[0]["style"])
        self.assertIn("11.0\u00a0GB of 12.0\u00a0GB on the fullest device", page.text)


class Charts(Report):
    def test_scaling_against_the_ideal(self):
        page = self.page([planned_row(dp, 1, 1, tokens_per_s=rate) for dp, rate in ((1, 1000.0), (2, 1900.0), (4, 3600.0))])
        self.assertIn("1 to 4 devices: 3.60 times the rate, 90% of ideal.", page.text)
        self.assertIn("Strong scaling", page.text)

    def test_heat_map_holds_the_best_of_each_pair(self):
        rows = [planned_row(8 // (tp * pp), tp, pp, zero_stage=zero, step_ms_p50=1000 * tp + 100 * pp + zero) for tp in (1, 2) for pp in (1, 2) for zero in (0, 1)]
        page = self.page(rows)
        cells = re.findall(r"<td class=\"([^\"]*)\" style=\"--shade:\d+%\" tabindex=\"0\"[^>]*>([^<]*)", self.html)
        self.assertEqual([text for _, text in cells], ["1.10\u00a0s", "2.10\u00a0s", "1.20\u00a0s", "2.20\u00a0s"])
        self.assertEqual(["chosen" in kind for kind, _ in cells], [True, False, False, False])
        self.assertIn("tp 1 with pp 1", page.text)

    def test_front_is_what_nothing_beats(self):
        rows = [{"outcome": "passed", "step_ms_p50": step, "memory_peak_bytes": memory} for step, memory in ((3, 5), (1, 9), (2, 9), (4, 2), (5, 4))]
        front = [(row["step_ms_p50"], row["memory_peak_bytes"]) for row in report_data.front_of(rows)]
        beaten = [any(o != r and o[0] <= r[0] and o[1] <= r[1] for o in ((3, 5), (1, 9), (2, 9), (4, 2), (5, 4))) for r in ((1, 9), (3, 5), (4, 2), (2, 9), (5, 4))]
        self.assertEqual(front, [(1, 9), (3, 5), (4, 2)])
        self.assertEqual(beaten, [False, False, False, True, True])

    def test_agreement_joins_rows_of_one_configuration(self):
        rows = [sample_csv.passed_row(dp, 1, 1, step_ms_p50=100.0 * dp) for dp in (1, 2)]
        rows += [sample_csv.passed_row(dp, 1, 1, source="simulated", device="", step_ms_p50=90.0 * dp) for dp in (1, 2)]
        page = self.page(rows)
        self.assertIn("Off by 10.0% on average over 2 configurations", page.text)
        self.assertIn("too fast by 10.0%", page.text)

    def test_scale_of_a_logarithm(self):
        scale = report_svg.Scale(1, 1000, 0, 300, True)
        self.assertAlmostEqual(scale(10), 100)
        self.assertEqual(scale.ticks(4), [1, 10, 100, 1000])

    def test_roofline_of_the_best_row(self):
        sample_csv.write_csv(self.path("rows_ops.csv"), [
            {"run_id": "r1-1-1", "label": name, "kind": "gemm", "phase": "forward", "axis": "compute", "count": 2, "bytes": 1e6, "flops": flops,
             "predicted_us": 10, "total_ms": total} for name, flops, total in (("mlp.up", 4e9, 6), ("mlp.down", 2e9, 3), ("norm", 1e6, 1))],
            ["run_id", "label", "kind", "phase", "axis", "count", "bytes", "flops", "predicted_us", "total_ms"])
        page = self.page([planned_row(1, 1, 1)])
        self.assertIn("mlp.up takes 60% of the compute time.", page.text)
        self.assertIn("400 TFLOP/s at 4e+03 FLOP a byte", self.html)


class Timeline(Report):
    FACTS = {"run_id": "r1-1-1", "timeline": {"step_ms": 0.3, "stages": [STAGE, STAGE | {"rank": 1, "stage": 1}]},
             "what_ifs": [{"kind": "hardware", "change": "twice the <memory>", "step_ms": 500.0}, {"kind": "cut", "change": "half the tp", "problem": "needs 131 GB of 80 GB"}]}

    def test_stages_share_what_is_alike(self):
        self.page([planned_row(1, 1, 1)], self.FACTS)
        line = self.data()["timeline"]
        self.assertEqual(line["end"], 300)
        self.assertEqual(len(line["ops"]), 2)  # forward and backward, once for both stages
        self.assertEqual([stage["name"] for stage in line["stages"]], ["stage 0", "stage 1"])
        self.assertEqual(line["stages"][0]["blocks"], [[0, 100, 0, 0, 0], [100, 200, 1, 0, 0]])

    def test_what_ifs(self):
        page = self.page([planned_row(1, 1, 1, step_ms_p50=1000)], self.FACTS)
        self.assertIn("twice the <memory>, −50.0%", page.text)
        self.assertIn("half the tp (needs 131 GB of 80 GB)", page.text)

    def test_facts_of_another_row_are_not_shown(self):
        page = self.page([planned_row(1, 1, 1)], self.FACTS | {"run_id": "someone else"})
        self.assertFalse(page.all("div", class_="timeline"))


class Structure(Report):
    def test_text_is_escaped(self):
        bad = '</script><img src=x onerror="alert(1)">'
        page = self.page([planned_row(1, 1, 1, model=bad, device=bad, command=bad), planned_row(1, 2, 1, outcome="failed", model=bad, reason=bad + "\u2028")])
        self.assertFalse(page.all("img"))
        self.assertEqual(len(page.all("script")), 2)
        self.assertEqual([word for row in self.data()["commands"] for word in (self.data()["words"][i] for i in row)][0], "</script><img")

    def test_nothing_comes_from_elsewhere(self):
        page = self.page([planned_row(1, tp, 1) for tp in (1, 2)])
        for tag, held in page.tags:
            for name in ("src", "href"):
                value = held.get(name) or "#"
                self.assertTrue(value.startswith(("#", "data:")), (tag, value))
        self.assertNotRegex(self.html, r"https?://(?!www\.w3\.org/2000/svg)")
        self.assertIn("default-src 'none'", self.html)

    def test_names_for_those_who_listen(self):
        page = self.page([planned_row(8 // (tp * pp), tp, pp) for tp in (1, 2, 4) for pp in (1, 2)], Timeline.FACTS | {"run_id": "r8-1-1"})
        ids = [held["id"] for _, held in page.tags if "id" in held]
        self.assertEqual(len(ids), len(set(ids)))
        for held in page.all("section"):
            self.assertIn(held["aria-labelledby"], ids)
        for tag in ("svg", "input", "select"):
            for held in page.all(tag):
                self.assertTrue(held.get("aria-label"), (tag, held))
        for held in page.all("div", class_="bar"):
            self.assertTrue(held["aria-label"])
        self.assertEqual(page.all("html")[0]["lang"], "en")
        self.assertEqual(len(page.all("h1")), 1)
        for held in page.all("a"):
            self.assertIn(held["href"][1:], ids)

    def test_500_rows_stay_under_a_megabyte_and_a_half(self):
        command = "shardbench simulate --model llama3.1-405b --seq 8192 --micro-batch 2 --global-batch 2048 --precision bf16 --dp 32 --tp 8 --pp 16 --zero 1 --ranks {} --system h100-sxm --stack te-2025"
        rows = [planned_row(1 + i % 32, 2 ** (i % 4), 1 + i % 7, command=command.format(i), megatron_flags="--flag value " * 30, run_command=command, step_ms_p50=100 + i) for i in range(500)]
        self.page(rows, header=HEADER + ["megatron_flags", "run_command"])
        self.assertLess(len(self.html.encode()), 1.5e6)
        self.assertEqual(self.data()["count"], 500)

    def test_several_models_have_parts_of_their_own(self):
        page = self.page([planned_row(1, tp, 1, model=model) for model in ("gpt2", "gpt2-xl") for tp in (1, 2)])
        self.assertEqual(len(page.all("h2", class_="group-name")), 2)
        ids = [held["id"] for _, held in page.tags if "id" in held]
        self.assertEqual(len(ids), len(set(ids)))


class Refusals(Report):
    def refused(self, *words):
        result = self.call(*words, code=2)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        return result.stderr

    def test_what_cannot_be_read(self):
        with open(self.path("bad.csv"), "w", encoding="utf-8") as file:
            file.write("a,b\n1,2\n")
        self.assertIn("no column", self.refused(self.path("bad.csv")))
        self.assertIn("no such file", self.refused(self.path("none.csv")))
        sample_csv.write_csv(self.path("rows.csv"), [planned_row(1, 1, 1)], HEADER)
        self.assertIn("one of the files to read", self.refused(self.path("rows.csv"), "--out", self.path("rows.csv")))
        self.assertIn("no JSON", self.refused(self.path("rows.csv"), "--facts", self.path("bad.csv")))
        self.assertIn("no program", self.refused(self.path("rows.csv"), "--bin", self.path("bad.csv")))


class Units(unittest.TestCase):
    def test_people_read_these(self):
        for value, words in ((4812.3, "4.81 s"), (0.0123, "12.3 µs"), (999.96, "1.00 s"), (150, "150 ms"), (2.7e5, "4.50 min")):
            self.assertEqual(units.time(value), words.replace(" ", "\u00a0"))
        self.assertEqual(units.rate(1.0486e6), "1.05\u00a0M\u00a0tokens/s")
        self.assertEqual(units.data(72.94e9), "72.9\u00a0GB")
        self.assertEqual(units.money(60980), "$61.0\u00a0k")
        self.assertEqual(units.change(90, 100), "−10.0%")
        self.assertEqual(units.significant(12345.6), "12,346")


if __name__ == "__main__":
    unittest.main()

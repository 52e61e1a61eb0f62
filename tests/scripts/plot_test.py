import os
import struct
import subprocess
import sys
import tempfile
import unittest

import sample_csv

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, "scripts")
sys.path.insert(0, SCRIPTS)
import plot_data  # noqa: E402
import report_data  # noqa: E402

try:
    import matplotlib  # noqa: F401

    HAVE_PLOTS = True
except ImportError:
    HAVE_PLOTS = False


def script(name, *arguments):
    return subprocess.run([sys.executable, os.path.join(SCRIPTS, name), *arguments], capture_output=True, text=True,
                          check=False)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, rows, header=None):
        sample_csv.write_csv(self.path(name), rows, header)
        return self.path(name)


class ReadSweep(Files):
    def test_shows_the_fastest_that_passed_and_accounts_for_the_rest(self):
        rows = sample_csv.sweep_rows()
        sweep = plot_data.read_sweeps(self.write("sweep.csv", rows), 5)[0]
        times = [row["step_ms_p50"] for row in sweep.rows]
        self.assertEqual(len(times), 5)
        self.assertEqual(times, sorted(times))
        account = sweep.caption[2]
        self.assertIn(f"5 of {len(rows)} rows shown", account)
        for part in ("1 failed", "1 incorrect", "4 skipped", f"{len(rows) - 6 - 5} slower"):
            self.assertIn(part, account)
        self.assertIn("gpt2", sweep.caption[0])
        self.assertIn("bench-host", sweep.caption[1])

    def test_labels_tell_rows_apart(self):
        rows = [sample_csv.passed_row(1, 1, 2), sample_csv.passed_row(1, 1, 2, schedule="gpipe"),
                sample_csv.passed_row(2, 1, 1)]
        labels = [row["label"] for row in plot_data.read_sweeps(self.write("s.csv", rows), 10)[0].rows]
        self.assertEqual(sorted(labels), ["dp 2", "pp 2 · 1F1B", "pp 2 · gpipe"])

    def test_parts_add_up_to_the_instrumented_step(self):
        for row in plot_data.read_sweeps(self.write("s.csv", sample_csv.sweep_rows()), 50)[0].rows:
            total = sum(value for _, _, value in report_data.time_parts(row))
            self.assertAlmostEqual(total, row["instrumented_step_ms"], places=6)

    def test_models_and_phases_do_not_share_a_figure(self):
        rows = [sample_csv.passed_row(1, 2, 1), sample_csv.passed_row(1, 2, 1, phase="decode"), sample_csv.passed_row(2, 1, 1, phase="decode"),
                sample_csv.passed_row(1, 2, 1, model="/some/where/tiny.json"), sample_csv.passed_row(1, 2, 1, model="bert", outcome="failed")]
        sweeps = plot_data.read_sweeps(self.write("s.csv", rows), 10)
        self.assertEqual([(sweep.name, len(sweep.rows)) for sweep in sweeps],
                         [("gpt2_train", 1), ("gpt2_decode", 2), ("tiny_train", 1)])
        self.assertIn("gpt2, decode", sweeps[1].caption[0])
        self.assertEqual([row["label"] for row in sweeps[1].rows], ["dp 2", "tp 2"])

    def test_unmeasured_stays_unmeasured(self):
        row = sample_csv.passed_row(1, 2, 1, compute_ms="", idle_ms="", memory_measured_bytes="")
        shown = plot_data.read_sweeps(self.write("s.csv", [row]), 5)[0].rows[0]
        self.assertIsNone(report_data.time_parts(shown))
        self.assertIsNone(shown["memory_measured_bytes"])


class BadInput(Files):
    def refused(self, path, *words):
        for name in ("plot.py", "show.py"):
            result = script(name, path)
            self.assertEqual(result.returncode, 2, (name, result.stderr))
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
            for word in (path, *words):
                self.assertIn(word, result.stderr)

    def test_missing_file(self):
        self.refused(self.path("absent.csv"))

    def test_missing_column(self):
        header = [name for name in sample_csv.HEADER if name != "step_ms_p50"]
        self.refused(self.write("s.csv", sample_csv.sweep_rows(), header), "step_ms_p50")

    def test_no_rows(self):
        self.refused(self.write("s.csv", []))

    def test_empty_file(self):
        open(self.path("empty.csv"), "w", encoding="utf-8").close()
        self.refused(self.path("empty.csv"))

    def test_not_text(self):
        with open(self.path("b.csv"), "wb") as file:
            file.write(bytes(range(128, 256)) * 8)
        self.refused(self.path("b.csv"))

    def test_words_where_numbers_belong(self):
        path = self.write("s.csv", [sample_csv.passed_row(1, 2, 1, compute_ms="fast")])
        result = script("plot.py", path)
        self.assertEqual(result.returncode, 2)
        for word in ("line 2", "compute_ms", "fast"):
            self.assertIn(word, result.stderr)

    def test_torn_row(self):
        path = self.write("s.csv", [sample_csv.passed_row(1, 2, 1)])
        with open(path, "a", encoding="utf-8") as file:
            file.write("1,r,measured,pas")
        result = script("plot.py", path)
        self.assertEqual(result.returncode, 2)
        self.assertIn("line 3", result.stderr)

    def test_nothing_passed(self):
        path = self.write("s.csv", [sample_csv.passed_row(1, 2, 1, outcome="skipped")])
        self.assertEqual(script("plot.py", path).returncode, 2)
        self.assertEqual(script("show.py", path).returncode, 0)


class OneLine(Files):
    """What is wrong is one line that names it, exit code 2, no traceback."""

    def check(self, words, *parts):
        with self.subTest(words=words):
            result = script(*words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            for part in parts + (words[0],):
                self.assertIn(part, result.stderr)
            for noise in ("Traceback", "[Errno", "usage:"):
                self.assertNotIn(noise, result.stderr)

    def test_files(self):
        good = self.write("s.csv", [sample_csv.passed_row(1, 2, 1)])
        torn, empty, header = self.path("torn.csv"), self.path("empty.csv"), self.path("header.csv")
        with open(good, encoding="utf-8") as file:
            text = file.read()
        for path, part in ((torn, text[:-40]), (empty, ""), (header, text.splitlines()[0] + "\n")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(part)
        for name in ("show.py", "plot.py"):
            self.check([name, self.path("missing.csv")], "missing.csv", "no such file")
            self.check([name, self.folder], "is a directory")
            self.check([name, torn], "line 2", "cells")
            self.check([name, empty], "empty file")
            self.check([name, header], "no rows")
        self.check(["show.py", self.write("w.csv", [sample_csv.passed_row(1, 2, 1, step_ms_p50="fast")])], "line 2", "step_ms_p50", "fast")
        self.check(["plot.py", good, "--out", "/proc/x"], "--out", "/proc/x")
        self.check(["plot.py", good, "--out", good], "--out", good)
        self.check(["plot.py", good, "--out", "-"], "--out", "'-'")
        self.check(["nsys_report.py", self.path("missing.sqlite")], "missing.sqlite")
        self.check(["accuracy_join.py", self.path("out.csv"), f"x={self.path('none')}", "y"], "PLACE=PREFIX")
        self.check(["accuracy.py", "--rows", self.path("missing.csv"), "--binary", sys.executable], "missing.csv")
        self.check(["accuracy.py", "--binary", self.folder], "--binary")
        self.check(["planner_published.py", "--binary", sys.executable, "--source", "nobody"], "nobody", "sc21")

    def test_flags(self):
        self.check(["show.py"], "no file")
        self.check(["show.py", "--nonsense"], "--nonsense")
        self.check(["plot.py"], "FILE.csv")
        for top in ("0", "-1", "many", "1.5", ""):
            self.check(["plot.py", "s.csv", f"--top={top}"], "--top", f"'{top}'", "integer >= 1")
        for name in ("plot.py", "nsys_report.py", "accuracy.py", "planner_published.py"):
            self.check([name, "x", "--nonsense"], "--nonsense" if name in ("accuracy.py", "planner_published.py") else "")


class Show(Files):
    def test_rows_of_one_cut_are_told_apart(self):
        rows = [sample_csv.passed_row(1, 2, 1), sample_csv.passed_row(1, 2, 1, recompute="full", tp_overlap="chunked")]
        text = script("show.py", self.write("s.csv", rows)).stdout
        self.assertIn("tp 2, tp_overlap chunked, recompute full", text)

    def test_models_phases_and_overlap_are_told_apart(self):
        rows = [sample_csv.passed_row(1, 2, 1), sample_csv.passed_row(1, 4, 1, tp_overlap="chunked"),
                sample_csv.passed_row(2, 1, 1, model="bert"), sample_csv.passed_row(4, 1, 1, phase="decode")]
        lines = script("show.py", self.write("s.csv", rows)).stdout.splitlines()
        self.assertIn("2 models (gpt2, bert), 2 phases (train, decode)", lines[1])
        cuts = [line.split("  ")[1] for line in lines[3:]]
        self.assertEqual(sorted(cuts), ["bert, train, dp 2", "gpt2, decode, dp 4", "gpt2, train, tp 2", "gpt2, train, tp 4, tp_overlap chunked"])
        one = script("show.py", self.write("s.csv", rows[1:2])).stdout
        self.assertIn("model gpt2, layers 4", one)
        self.assertIn("tp 4, tp_overlap chunked", one)

    def test_prints_rows_fastest_first_and_reasons(self):
        result = script("show.py", self.write("s.csv", sample_csv.sweep_rows()))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLess(result.stdout.index("dp 8"), result.stdout.index("one rank"))
        self.assertIn("4 skipped", result.stdout)
        self.assertIn("legal: 1, 2, 3, 4, 6, 12", result.stdout)
        self.assertIn("rank 3 died, signal 11", result.stdout)


@unittest.skipUnless(HAVE_PLOTS, "matplotlib is not there: scripts/setup.sh makes .venv")
class Pictures(Files):
    def test_writes_three_pictures_and_a_page(self):
        out = self.path("plots")
        result = script("plot.py", self.write("sweep.csv", sample_csv.sweep_rows()), "--out", out, "--html")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("breakdown", "throughput", "memory"):
            with open(os.path.join(out, f"sweep_{name}.png"), "rb") as file:
                data = file.read()
            self.assertEqual(data[:8], b"\x89PNG\r\n\x1a\n")
            width, height = struct.unpack(">II", data[16:24])
            self.assertGreaterEqual(min(width, height), 500)
            with open(os.path.join(out, f"sweep_{name}.svg"), encoding="utf-8") as file:
                self.assertIn("4 skipped", file.read())  # text stays text
        with open(os.path.join(out, "sweep.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("4 skipped", page)
        self.assertIn("waiting for tp communication", page)
        self.assertNotIn('<script src="http', page)

    def test_all_text_stays_inside_and_apart(self):
        import plot_figures

        rows = sample_csv.sweep_rows() + [sample_csv.passed_row(2, 2, 2, schedule="gpipe", recompute="selective")]
        sweep = plot_data.read_sweeps(self.write("sweep.csv", rows), 30)[0]
        for draw in (plot_figures.draw_breakdown, plot_figures.draw_throughput, plot_figures.draw_memory):
            figure = draw(sweep)
            figure.canvas.draw()
            boxes = []
            for axes in figure.axes:
                low, high = sorted(axes.get_ylim())
                boxes += [text.get_window_extent() for place, text in zip(axes.get_yticks(), axes.get_yticklabels())
                          if low <= place <= high]
                boxes += [axes.title.get_window_extent(), axes._left_title.get_window_extent()]
            boxes += [text.get_window_extent() for text in figure.texts if text.get_text()]
            boxes += [legend.get_window_extent() for legend in figure.legends]
            boxes = [box for box in boxes if box.width > 0]
            for index, box in enumerate(boxes):
                self.assertTrue(figure.bbox.x0 - 1 <= box.x0 and box.x1 <= figure.bbox.x1 + 1, draw.__name__)
                for other in boxes[:index]:
                    self.assertFalse(box.overlaps(other), f"{draw.__name__}: {box} over {other}")


if __name__ == "__main__":
    unittest.main()

"""The report page in headless Chromium, where there is one: it opens without a word in the console, filters, sorts, downloads, answers
the pointer and the keyboard, and fits a telephone."""
import csv
import glob
import os
import sys
import time
import unittest

import browser
import report_test
from report_test import planned_row

SKIPPED = 77  # for ctest


class Page(report_test.Report):
    def setUp(self):
        super().setUp()
        self.browser = browser.Browser(self.folder)
        self.addCleanup(self.browser.close)

    def show(self, rows, facts=None):
        self.page(rows, facts)
        self.browser.open(self.path("rows.html"))

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), [])

    def rows_shown(self):
        return self.browser.run("return [...document.querySelectorAll('table.rows tbody tr')].map(row => row.cells[0].textContent)")

    def rows(self):
        rows = [planned_row(8 // (tp * pp), tp, pp, mfu_pct=10.0 * tp + pp) for tp in (1, 2, 4) for pp in (1, 2)]
        return rows + [planned_row(1, 8, 1, outcome="failed", step_ms_p50="", mfu_pct="", reason="out of memory: stage 0 needs 99 GB, \"much\"")]


class Table(Page):
    def test_filter_and_outcome(self):
        self.show(self.rows())
        self.assertEqual(len(self.rows_shown()), 7)
        self.browser.type("#filter", "mfu>30")
        self.assertEqual(len(self.rows_shown()), 2)  # tp 4: 41 and 42
        self.browser.run("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input'))")
        self.browser.type("#filter", "tp 2")
        self.assertTrue(all("tp 2" in text for text in self.rows_shown()) and len(self.rows_shown()) == 2)
        self.browser.run("const o = document.getElementById('outcome'); document.getElementById('filter').value = ''; o.value = 'failed'; o.dispatchEvent(new Event('change'))")
        self.assertEqual(len(self.rows_shown()), 1)

    def test_sorting_turns_round(self):
        self.show(self.rows())
        values = "return [...document.querySelectorAll('table.rows tbody tr')].map(row => row.cells[%d].textContent)"
        column = self.browser.run("return [...document.querySelectorAll('table.rows th')].findIndex(head => head.dataset.column === 'mfu_pct')")
        self.browser.click("th[data-column=mfu_pct] button")
        rising = self.browser.run(values % column)
        self.browser.click("th[data-column=mfu_pct] button")
        falling = self.browser.run(values % column)
        self.assertEqual(rising[:6], ["11.0%", "12.0%", "21.0%", "22.0%", "41.0%", "42.0%"])
        self.assertEqual(falling, rising[5::-1] + [""])  # what was not measured stays last
        self.assertEqual(self.browser.run("return document.querySelector('th[data-column=mfu_pct]').getAttribute('aria-sort')"), "descending")

    def test_download_is_what_is_shown(self):
        self.show(self.rows())
        self.browser.type("#filter", "memory")  # in the reason of the one that failed
        self.browser.click("#download")
        for _ in range(100):
            files = glob.glob(self.path("*_shown.csv"))
            if files:
                break
            time.sleep(0.1)
        with open(files[0], newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["reason"] for row in rows], ['out of memory: stage 0 needs 99 GB, "much"'])
        self.assertEqual(rows[0]["command"], "shardbench simulate --model gpt2 --tp 8")

    def test_a_row_opens_to_its_command(self):
        self.show(self.rows())
        self.browser.click("table.rows tbody button.copy")
        self.assertIn("shardbench simulate", self.browser.run("return document.querySelector('td.more code').textContent"))


class Marks(Page):
    def tip(self):
        return self.browser.run("const t = document.getElementById('tip'); return t.classList.contains('on') ? t.textContent : ''")

    def test_pointer_on_a_bar(self):
        self.show(self.rows())
        self.browser.point_at(".seg.compute")
        self.assertIn("compute: ", self.tip())

    def test_keyboard_reaches_marks(self):
        self.show(self.rows())
        self.browser.run("document.querySelector('.heat td[tabindex]').focus()")
        self.assertIn("tp 1, pp 1: ", self.tip())

    def test_timeline(self):
        self.show(self.rows(), report_test.Timeline.FACTS | {"run_id": "r8-1-1"})
        width = self.browser.run("return document.querySelector('.timeline svg').getBoundingClientRect().width")
        height = self.browser.run("return document.querySelector('.timeline svg').getBoundingClientRect().height")
        # 20 of 300 us: within the first operation of the forward of 100 us.
        x = 66 + (width - 70) * 20 / 300 - width / 2
        self.browser.point_at(".timeline svg", x, 8 - height / 2)
        self.assertEqual(self.tip(), "stage 0: forward of microbatch 0\n100 µs, from 0 µs\nmlp.up, layer 0: 60.0 µs, 1.00 MB, 1.00 GFLOP")
        self.browser.point_at(".timeline svg", 66 + (width - 70) * 70 / 300 - width / 2, 26 - height / 2)
        self.assertIn("tp communication, mlp.down.reduce and 1 more", self.tip())
        self.browser.run("document.querySelector('.timeline svg').focus()")
        self.browser.type(".timeline svg", "\ue014\ue014")  # right, twice
        self.assertIn("backward of microbatch 0", self.browser.run("return document.querySelector('.said').textContent"))
        self.browser.click('button[data-do="in"]')
        self.assertGreater(self.browser.run("return document.querySelectorAll('.timeline svg path').length"), 1)


class Looks(Page):
    def test_nothing_is_wider_than_a_telephone(self):
        self.show(self.rows(), report_test.Timeline.FACTS | {"run_id": "r8-1-1"})
        for width in (1400, 390):
            self.browser.size(width)
            self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), width)
            shown = self.browser.run("return [...document.querySelectorAll('svg.chart')].filter(c => c.getBoundingClientRect().width > 0).map(c => c.getAttribute('class'))")
            self.assertTrue(shown and all(("narrow" if width < 500 else "wide") in kind for kind in shown), shown)

    def test_light_and_dark(self):
        self.show(self.rows())
        brightness = []
        for scheme in ("light", "dark"):
            self.browser.scheme(scheme)
            colour = self.browser.run("return getComputedStyle(document.body).backgroundColor")
            brightness.append(sum(int(part) for part in colour[4:-1].split(",")))
        self.assertGreater(brightness[0], 600)
        self.assertLess(brightness[1], 120)

    def test_ten_thousand_rows_open_soon(self):
        rows = [planned_row(1 + i % 64, 2 ** (i % 4), 1 + i % 13, step_ms_p50=100 + i, zero_stage=i % 4, memory_peak_bytes=5e9 + 1e6 * (i * 37 % 6000)) for i in range(10000)]
        self.page(rows)
        took = []
        for _ in range(3):
            self.browser.open(self.path("rows.html"))
            took.append(self.browser.run("const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd"))
        self.assertEqual(len(self.rows_shown()), 50)
        self.assertLess(min(took), 2000, took)


if __name__ == "__main__":
    if not (browser.BROWSER and browser.DRIVER):
        print("no chromium with chromedriver here")
        sys.exit(SKIPPED)
    unittest.main()

#!/usr/bin/env python3
"""schedule prints the table of the papers, the bubble and the activation peak."""
import re
import unittest

from cli import CliTest


class Schedule(CliTest):
    def test_chunks_that_a_schedule_does_not_have_are_refused(self):
        for words, part in ((["--schedule", "1f1b", "--vpp", "2"], "interleaved"), (["--schedule", "gpipe", "--vpp", "2"], "gpipe has 1 chunk"),
                            (["--schedule", "zb-v", "--vpp", "3"], "zb-v has 2 chunks"), (["--schedule", "interleaved"], "vpp >= 2"),
                            (["--vpp", "2", "--pp", "1"], "pp >= 2")):
            self.assertIn(part, self.refused("schedule", *words))

    def test_microbatches_that_run_refuses_are_not_drawn(self):
        """P05: the rules are those of `run`, in its words."""
        for count in (9, 6, 1):
            words = ["--schedule", "dualpipe", "--pp", "4"]
            drawn = self.refused("schedule", *words, "--microbatches", str(count))
            run = self.refused("run", "--model", "gpt2", "--seq", "16", *words, "--global-batch", str(count))
            self.assertEqual(drawn, run)
            self.assertIn(f"{count} microbatches", drawn)
        for count in (2, 6, 7, 9, 10, 11):
            self.schedule("--schedule", "interleaved", "--pp", "4", "--vpp", "2", "--microbatches", str(count))
        for schedule in ("zb-v", "zb-h1", "1f1b", "gpipe"):  # which take any number
            self.schedule("--schedule", schedule, "--pp", "4", "--microbatches", "3")

    def schedule(self, *words):
        text = self.call("schedule", *words)
        bubble = float(re.search(r"bubble +([0-9.]+)", text).group(1))
        peak = [int(n) for n in re.search(r"peak .*: ([0-9 ]+)", text).group(1).split()]
        return text, bubble, peak

    def test_one_forward_one_backward(self):
        text, bubble, peak = self.schedule("--schedule", "1f1b", "--pp", "4", "--microbatches", "8")
        self.assertEqual(bubble, (4 - 1) * (1 + 2))
        self.assertEqual(peak, [4, 3, 2, 1])
        rows = [line.split()[2:] for line in text.splitlines() if line.startswith("stage ")]
        self.assertEqual(rows[3][:9], [".", ".", ".", "F0", "B0", "B0", "F1", "B1", "B1"])
        self.assertEqual(rows[0][:4], ["F0", "F1", "F2", "F3"])
        for row in rows:
            self.assertEqual(sum(cell.startswith("F") for cell in row), 8)
            self.assertEqual(sum(cell.startswith("B") for cell in row), 16)

    def orders(self, *words):
        """[stage] of the passes in their order, as the table has them."""
        rows = [line.split()[2:] for line in self.call("schedule", *words).splitlines() if line.startswith("stage ")]
        return [[cell for i, cell in enumerate(row) if cell != "." and (i == 0 or row[i - 1] != cell)] for row in rows]

    def test_order_of_one_forward_one_backward(self):
        """min(p - rank - 1, m) forwards to warm up, then one forward and one backward, then what is left."""
        for stages, count in ((2, 5), (3, 4), (4, 2), (5, 7)):
            for rank, order in enumerate(self.orders("--pp", str(stages), "--microbatches", str(count))):
                warmup = min(stages - rank - 1, count)
                expected = [f"F{m}" for m in range(warmup)]
                for m in range(count - warmup):
                    expected += [f"F{m + warmup}", f"B{m}"]
                expected += [f"B{m}" for m in range(count - warmup, count)]
                self.assertEqual(order, expected, (stages, count, rank))

    def test_order_of_interleaving(self):
        """Megatron-LM: 2(p - rank - 1) + (v - 1)p forwards to warm up; p microbatches of a chunk, then those of the next."""
        for stages, chunks, count in ((2, 2, 4), (3, 2, 6), (2, 3, 4)):
            passes = count * chunks
            for rank, order in enumerate(self.orders("--pp", str(stages), "--vpp", str(chunks), "--microbatches", str(count))):
                def at(k, backward):
                    chunk, group = k % (stages * chunks) // stages, k // (stages * chunks)
                    chunk = chunks - 1 - chunk if backward else chunk
                    return f"{'B' if backward else 'F'}{group * stages + k % stages}{'abc'[chunk]}"
                warmup = min(2 * (stages - rank - 1) + (chunks - 1) * stages, passes)
                expected = [at(k, False) for k in range(warmup)]
                for k in range(passes - warmup):
                    expected += [at(k + warmup, False), at(k, True)]
                expected += [at(k, True) for k in range(passes - warmup, passes)]
                self.assertEqual(order, expected, (stages, chunks, count, rank))

    def test_order_of_dualpipe(self):
        """The phases of DeepSeek's DualPipe: nF0, nF0F1, nB1W1F1, nF0B1F1B0, nB1F1B0, nB1B0, nWB0, nW."""
        for stages, count in ((4, 8), (4, 12), (6, 14)):
            for rank, order in enumerate(self.orders("--schedule", "dualpipe", "--pp", str(stages), "--microbatches", str(count))):
                half, second = min(rank, stages - 1 - rank), rank >= stages // 2
                each, outer, steps, deferred = count // 2, stages // 2 - half - 1, [], []
                done = {"F": [0, 0], "B": [0, 0]}

                def take(kind, side):
                    chunk = side ^ second
                    number = done["F" if kind == "F" else "B"][chunk]
                    done["F" if kind == "F" else "B"][chunk] += 1
                    cell = f"{chunk * each + number}{'ab'[chunk]}"
                    steps.append(kind + cell)
                    if kind == "I":
                        deferred.append("W" + cell)

                def weight():
                    steps.append(deferred.pop(0))

                for _ in range(2 * outer):
                    take("F", 0)
                for _ in range(half + 1):
                    take("F", 0), take("F", 1)
                for _ in range(outer):
                    take("I", 1), weight(), take("F", 1)
                for _ in range(each - stages + half + 1):
                    take("F", 0), take("B", 1), take("F", 1), take("B", 0)
                for _ in range(outer):
                    take("B", 1), take("F", 1), take("B", 0)
                late = False
                for i in range(half + 1):
                    late = late or (i == (half + 1) // 2 and half % 2 == 1)
                    take("I" if late else "B", 1)
                    late = late or (i == (half + 1) // 2 and half % 2 == 0)
                    take("I" if late else "B", 0)
                for _ in range(outer):
                    weight(), take("I", 0)
                for _ in range(half + 1):
                    weight()
                self.assertEqual(order, steps, (stages, count, rank))

    def test_tables_of_zero_bubble_schedules(self):
        """By hand: no stage of zb-h1 is idle but at its start (p-1 parts in all), and none holds more than p microbatches."""
        self.assertEqual(self.orders("--schedule", "zb-h1", "--pp", "2", "--microbatches", "3"),
                         [["F0", "F1", "I0", "W0", "F2", "I1", "W1", "I2", "W2"], ["F0", "I0", "W0", "F1", "I1", "F2", "I2", "W1", "W2"]])
        for stages, count in ((2, 4), (3, 6), (4, 8), (5, 15)):
            text, bubble, peak = self.schedule("--schedule", "zb-h1", "--pp", str(stages), "--microbatches", str(count))
            self.assertEqual(bubble, stages - 1)
            self.assertEqual(peak, [stages] * stages)
            self.assertIn(f"step      {3 * count + stages - 1} forward times, {3 * count} of them work", text)
        for stages, count in ((2, 4), (3, 9), (4, 12)):
            _, bubble, peak = self.schedule("--schedule", "zb-v", "--pp", str(stages), "--microbatches", str(count))
            self.assertLessEqual(bubble, (stages - 1) / 2 + 0.5)
            self.assertLessEqual(max(peak), 2 * stages)

    def test_gpipe(self):
        _, bubble, peak = self.schedule("--schedule", "gpipe", "--pp", "4", "--microbatches", "8")
        self.assertEqual(bubble, 9)
        self.assertEqual(peak, [8, 8, 8, 8])

    def test_interleaving_divides_the_bubble(self):
        text, bubble, _ = self.schedule("--pp", "4", "--vpp", "2", "--microbatches", "8")
        self.assertIn("interleaved", text)
        self.assertEqual(bubble, 4.5)

    def test_one_stage_has_none(self):
        self.assertEqual(self.schedule("--pp", "1", "--microbatches", "3")[1], 0)

    def test_a_wide_one_is_text(self):
        text, _, _ = self.schedule("--pp", "8", "--microbatches", "64")
        self.assertIn("1f1b stages=8 chunks=1 microbatches=64", text)


if __name__ == "__main__":
    unittest.main()

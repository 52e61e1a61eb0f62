"""--dump, --weights and --token-ids: whatever the cut, the same tensors; a dump is weights again; and what is refused."""
import json
import os
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "reference"))
import draw  # noqa: E402
from cli import CliTest  # noqa: E402

SMALL = {"model_type": "mixtral", "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 72, "max_position_embeddings": 64,
         "num_local_experts": 4, "num_experts_per_tok": 2}
QUICK = ["--max-iterations", "1", "--warmup", "0", "--json"]


class ValuesTest(CliTest):
    def setUp(self):
        super().setUp()
        self.small = self.write("config.json", json.dumps(SMALL))
        self.step = ["--model", self.small, "--seq", "8", "--global-batch", "4", "--routing", "learned"]

    def dump(self, name, *words):
        row = json.loads(self.call("run", *self.step, *QUICK, "--dump", self.path(name), *words))[0]
        files = {}
        for part in ("weights", "gradients", "updated_weights", "logits"):
            files[part] = draw.read_safetensors(os.path.join(self.path(name), part + ".safetensors"))
        return row, files

    def near(self, a, b, bound):
        self.assertEqual(a.keys(), b.keys())
        for name, (shape, values) in a.items():
            self.assertEqual(shape, b[name][0], name)
            size = max(abs(v) for v in b[name][1])
            self.assertLess(max(abs(x - y) for x, y in zip(values, b[name][1])), bound * size, name)

    def test_every_cut_dumps_the_same(self):
        row, whole = self.dump("whole")
        for cut in (["--tp", "2"], ["--pp", "2"], ["--dp", "2", "--ep", "2", "--zero", "1"], ["--cp", "2"],
                    ["--dp", "2", "--zero", "3"], ["--tp", "2", "--sequence-parallel"], ["--tp", "2", "--loss-chunks", "2"]):
            with self.subTest(cut=cut):
                other, parts = self.dump("cut", *cut, "--ranks", "2")
                self.assertLess(abs(other["loss"] / row["loss"] - 1), 1e-6)
                self.assertLess(abs(other["grad_norm"] / row["grad_norm"] - 1), 1e-5)
                self.assertEqual(parts["weights"], whole["weights"])
                self.near(parts["logits"], whole["logits"], 1e-5)
                self.near(parts["gradients"], whole["gradients"], 1e-4)

    def test_what_was_dumped_is_loaded(self):
        row, files = self.dump("first", "--seed", "5")
        weights = os.path.join(self.path("first"), "weights.safetensors")
        tokens = self.write("tokens.txt", "\n".join(" ".join(str((7 * s + 3 * i) % 72) for i in range(9)) for s in range(4)))
        again, loaded = self.dump("again", "--seed", "6", "--weights", weights, "--token-ids", tokens)
        self.assertEqual(loaded["weights"], files["weights"])
        self.assertNotEqual(again["loss"], row["loss"])
        self.assertEqual(again["weights"], weights)
        # The same tokens in every form.
        table = [[int(word) for word in line.split()] for line in open(tokens, encoding="utf-8")]
        as_json = self.write("tokens.json", json.dumps(table))
        header = "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 9), }"
        with open(self.path("tokens.npy"), "wb") as file:
            file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
            file.write(struct.pack("<36q", *(i for row_ in table for i in row_)))
        for form in (as_json, self.path("tokens.npy")):
            other = self.dump("form", "--seed", "6", "--weights", weights, "--token-ids", form)[0]
            self.assertEqual(other["loss"], again["loss"], form)

    def test_an_index_names_the_files(self):
        row, files = self.dump("first")
        names = sorted(files["weights"])
        places = {}
        for part, chosen in enumerate((names[::2], names[1::2])):
            draw.write_safetensors(self.path(f"part{part}.safetensors"), {n: files["weights"][n] for n in chosen})
            places |= {name: f"part{part}.safetensors" for name in chosen}
        index = self.write("w.safetensors.index.json", json.dumps({"weight_map": places}))
        self.assertEqual(self.dump("indexed", "--weights", index)[0]["loss"], row["loss"])
        places["lm_head.weight"] = "../part0.safetensors"
        index = self.write("bad.json", json.dumps({"weight_map": places}))
        self.assertIn("is no name of a file beside the index", self.refused("run", *self.step, "--weights", index))

    def test_bad_weights(self):
        def refusal(path):
            return self.refused("run", *self.step, *QUICK, "--weights", path)

        self.assertIn("no such file (allowed: F.safetensors", refusal(self.path("none.safetensors")))
        self.assertIn("truncated", refusal(self.write("short.safetensors", "abc")))
        _, files = self.dump("first")
        weights = dict(files["weights"])
        path = self.path("w.safetensors")

        def rewritten():
            draw.write_safetensors(path, weights)
            return path

        weights["lm_head.weight"] = ([72, 31], weights["lm_head.weight"][1][: 72 * 31])
        self.assertIn("tensor 'lm_head.weight' has shape [72, 31], the model's is [72, 32]", refusal(rewritten()))
        del weights["lm_head.weight"]
        self.assertIn("tensor 'lm_head.weight' is missing", refusal(rewritten()))
        with open(path, "rb") as file:
            text = file.read()
        with open(path, "wb") as file:
            file.write(text.replace(b'"F32"', b'"Q32"', 1))
        self.assertIn("dtype 'Q32' is not one of F64, F32, F16, BF16, I64, I32", refusal(path))
        with open(path, "wb") as file:
            file.write(text[:-1])
        self.assertIn("truncated", refusal(path))
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", 1 << 40) + text)
        self.assertIn("a header of 1099511627776 bytes; at most 16777216 are read", refusal(path))

    def test_bad_tokens(self):
        def refusal(text):
            return self.refused("run", *self.step, *QUICK, "--token-ids", self.write("t.txt", text))

        self.assertIn("72 is no token id (allowed: 0 to 71)", refusal("1 2 72\n"))
        self.assertIn("sample 1 has 2 tokens, the ones before have 3", refusal("1 2 3\n4 5\n"))
        self.assertIn("1 samples, the step takes 4 (global-batch)", refusal("1 2 3 4 5 6 7 8 9\n"))
        self.assertIn("8 tokens a sample, the step takes 9", refusal("1 2 3 4 5 6 7 8\n" * 4))
        self.assertIn("no token ids", refusal("\n"))

    def test_bad_dumps(self):
        line = self.refused("run", *self.step, "--dump", self.path("d"), "--scope", "layer")
        self.assertIn("legal with scope model", line)

    def test_one_rank_compares_with_nothing(self):
        row = json.loads(self.call("run", *self.step, *QUICK, "--check"))[0]
        self.assertIsNone(row.get("max_rel_error"))
        self.assertIn("nothing compared", row["reason"])
        cut = json.loads(self.call("run", *self.step, *QUICK, "--check", "--tp", "2", "--ranks", "2"))[0]
        self.assertGreater(cut["max_rel_error"], 0)
        self.assertNotIn("nothing compared", cut["reason"] or "")


if __name__ == "__main__":
    unittest.main()

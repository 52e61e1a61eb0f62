"""Images, labels and gradients as shardbench draws them, and architectures that transformers has not in plain torch:
CLIP's tower in open_clip's form, ViT-22B (arXiv 2302.05442) and the YOLO26 detector."""
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import draw

MASK = (1 << 64) - 1


def key_of(seed, name):
    value = 0xCBF29CE484222325 ^ seed  # FNV-1a
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def bits(key, counters):
    """kernels/core/counter_rng.hpp: splitmix64's finaliser over key and counter."""
    with np.errstate(over="ignore"):
        k = np.uint64(key)
        z = (k + np.uint64(0x9E3779B97F4A7C15)) ^ (counters * np.uint64(0xD1342543DE82EF95) + np.uint64(0x2545F4914F6CDD1D))
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        z = (z + k) * np.uint64(0xBF58476D1CE4E5B9)
        return z ^ (z >> np.uint64(32))


def normal(seed, name, count):
    """Sums of four uniforms of 16 bits, exact in fp32 but for the last factor."""
    z = bits(key_of(seed, name), np.arange(count, dtype=np.uint64))
    total = np.zeros(count, dtype=np.float32)
    for i in range(4):
        total += ((z >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.float32) * np.float32(2.0**-16)
    return (total - np.float32(2.0) + np.float32(2.0**-15)) * np.float32(1.7320508)


def images(seed, samples, size, channels=3):
    """Rows are (sample, position) where they are drawn: [samples, channels, size, size]."""
    drawn = normal(seed, "images", samples * size * size * channels).reshape(samples, size, size, channels)
    return torch.from_numpy(drawn).permute(0, 3, 1, 2).contiguous()


def labels(seed, samples, outputs):
    drawn = bits(key_of(seed, "tokens"), np.arange(samples, dtype=np.uint64))  # one a sample
    return torch.tensor([int(value % np.uint64(outputs)) for value in drawn])


class Named(nn.Module):
    """Parameters under the dotted names of a checkpoint, drawn."""

    def __init__(self, shapes, seed):
        super().__init__()
        self.shapes = shapes
        self.held = nn.ParameterList()
        self.by_name = {}
        for name, shape in shapes.items():
            values = torch.tensor(draw.tensor(seed, name, shape)).reshape(shape)
            self.by_name[name] = nn.Parameter(values)
            self.held.append(self.by_name[name])

    def __getitem__(self, name):
        return self.by_name[name]

    def get(self, name):
        return self.by_name.get(name)

    def gradients(self):
        return {name: (shape, self.by_name[name].grad.flatten().tolist()) for name, shape in self.shapes.items()}


def heads_of(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def attend(q, k, v):
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class ClipTower(Named):
    def __init__(self, config, seed):
        vision = config["vision_cfg"]
        self_width, layers = vision["width"], vision["layers"]
        wide, size, patch = int(self_width * vision["mlp_ratio"]), vision["image_size"], vision["patch_size"]
        shapes = {"visual.conv1.weight": [self_width, 3, patch, patch], "visual.class_embedding": [self_width],
                  "visual.positional_embedding": [(size // patch) ** 2 + 1, self_width]}
        for name in ("visual.ln_pre", "visual.ln_post"):
            shapes |= {f"{name}.weight": [self_width], f"{name}.bias": [self_width]}
        shapes["visual.proj"] = [self_width, config["embed_dim"]]
        for layer in range(layers):
            at = f"visual.transformer.resblocks.{layer}."
            for norm in ("ln_1", "ln_2"):
                shapes |= {f"{at}{norm}.weight": [self_width], f"{at}{norm}.bias": [self_width]}
            shapes |= {at + "attn.in_proj_weight": [3 * self_width, self_width], at + "attn.in_proj_bias": [3 * self_width],
                       at + "attn.out_proj.weight": [self_width, self_width], at + "attn.out_proj.bias": [self_width],
                       at + "mlp.c_fc.weight": [wide, self_width], at + "mlp.c_fc.bias": [wide],
                       at + "mlp.c_proj.weight": [self_width, wide], at + "mlp.c_proj.bias": [self_width]}
        super().__init__(shapes, seed)
        self.layers, self.heads, self.patch = layers, self_width // vision["head_width"], patch

    def norm(self, x, name):
        return F.layer_norm(x, x.shape[-1:], self[name + ".weight"], self[name + ".bias"], 1e-5)

    def forward(self, x):
        x = F.conv2d(x, self["visual.conv1.weight"], stride=self.patch).flatten(2).transpose(1, 2)
        x = torch.cat([self["visual.class_embedding"].expand(x.shape[0], 1, -1), x], 1)
        x = self.norm(x + self["visual.positional_embedding"], "visual.ln_pre")
        for layer in range(self.layers):
            at = f"visual.transformer.resblocks.{layer}."
            qkv = F.linear(self.norm(x, at + "ln_1"), self[at + "attn.in_proj_weight"], self[at + "attn.in_proj_bias"])
            attended = attend(*(heads_of(part, self.heads) for part in qkv.chunk(3, -1)))
            x = x + F.linear(attended, self[at + "attn.out_proj.weight"], self[at + "attn.out_proj.bias"])
            y = F.gelu(F.linear(self.norm(x, at + "ln_2"), self[at + "mlp.c_fc.weight"], self[at + "mlp.c_fc.bias"]))
            x = x + F.linear(y, self[at + "mlp.c_proj.weight"], self[at + "mlp.c_proj.bias"])
        return self.norm(x[:, 0], "visual.ln_post") @ self["visual.proj"]


class ParallelVit(Named):
    """ViT-22B: attention and MLP side by side behind one norm, normed queries and keys, norms without bias."""

    def __init__(self, config, seed):
        h, wide, labels_ = config["hidden_size"], config["intermediate_size"], config["num_labels"]
        heads, patch, size = config["num_attention_heads"], config["patch_size"], config["image_size"]
        shapes = {"vit.embeddings.cls_token": [1, 1, h],
                  "vit.embeddings.position_embeddings": [1, (size // patch) ** 2 + 1, h],
                  "vit.embeddings.patch_embeddings.projection.weight": [h, 3, patch, patch],
                  "vit.embeddings.patch_embeddings.projection.bias": [h], "vit.layernorm.weight": [h],
                  "classifier.weight": [labels_, h], "classifier.bias": [labels_]}
        for layer in range(config["num_hidden_layers"]):
            at = f"vit.encoder.layer.{layer}."
            shapes[at + "layernorm_before.weight"] = [h]
            for part in ("query", "key", "value"):
                shapes[f"{at}attention.attention.{part}.weight"] = [h, h]
            for part in ("q_norm", "k_norm"):
                shapes[f"{at}attention.attention.{part}.weight"] = [h // heads]
            shapes |= {at + "attention.output.dense.weight": [h, h], at + "attention.output.dense.bias": [h],
                       at + "intermediate.dense.weight": [wide, h], at + "intermediate.dense.bias": [wide],
                       at + "output.dense.weight": [h, wide], at + "output.dense.bias": [h]}
        super().__init__(shapes, seed)
        self.config, self.heads = config, heads

    def forward(self, x):
        c, eps = self.config, self.config["layer_norm_eps"]
        x = F.conv2d(x, self["vit.embeddings.patch_embeddings.projection.weight"],
                     self["vit.embeddings.patch_embeddings.projection.bias"], stride=c["patch_size"])
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self["vit.embeddings.cls_token"].expand(x.shape[0], -1, -1), x], 1)
        x = x + self["vit.embeddings.position_embeddings"]
        for layer in range(c["num_hidden_layers"]):
            at = f"vit.encoder.layer.{layer}."
            y = F.layer_norm(x, x.shape[-1:], self[at + "layernorm_before.weight"], None, eps)
            q, k, v = (heads_of(F.linear(y, self[f"{at}attention.attention.{part}.weight"]), self.heads)
                       for part in ("query", "key", "value"))
            q = F.layer_norm(q, q.shape[-1:], self[at + "attention.attention.q_norm.weight"], None, eps)
            k = F.layer_norm(k, k.shape[-1:], self[at + "attention.attention.k_norm.weight"], None, eps)
            attended = F.linear(attend(q, k, v), self[at + "attention.output.dense.weight"],
                                self[at + "attention.output.dense.bias"])
            y = F.gelu(F.linear(y, self[at + "intermediate.dense.weight"], self[at + "intermediate.dense.bias"]))
            x = x + attended + F.linear(y, self[at + "output.dense.weight"], self[at + "output.dense.bias"])
        x = F.layer_norm(x[:, 0], x.shape[-1:], self["vit.layernorm.weight"], None, eps)
        return F.linear(x, self["classifier.weight"], self["classifier.bias"])


def tower(config, seed):
    """The model, its shapes and the number of its outputs."""
    if "vision_cfg" in config:
        model = ClipTower(config, seed)
        return model, model.shapes, config["embed_dim"]
    model = ParallelVit(config, seed)
    return model, model.shapes, config["num_labels"]


# --- the detector, from its public description (the YOLO26 model file: backbone, head, both detection heads) ---


class Detector(nn.Module):
    """Modules are made as forward first meets them, under the names that shardbench gives their convolutions."""

    def __init__(self, config, seed):
        super().__init__()
        self.c, self.seed, self.dtype = config, seed, torch.float32
        self.shapes, self.by_name, self.held = {}, {}, nn.ParameterList()

    def parameter(self, name, shape):
        if name not in self.by_name:
            self.shapes[name] = list(shape)
            self.by_name[name] = nn.Parameter(torch.tensor(draw.tensor(self.seed, name, shape)).to(self.dtype).reshape(shape))
            self.held.append(self.by_name[name])
        return self.by_name[name]

    def gradients(self):
        return {name: (shape, self.by_name[name].grad.flatten().tolist()) for name, shape in self.shapes.items()}

    def width(self, channels):
        return math.ceil(min(channels, self.c["max_channels"]) * self.c["width_multiple"] / 8) * 8

    def repeats(self, n):
        return max(round(n * self.c["depth_multiple"]), 1) if n > 1 else n

    def conv(self, x, name, out, kernel=1, stride=1, groups=1, act=True, norm=True):
        weight = self.parameter(name + ".weight", [out, x.shape[1] // groups, kernel, kernel])
        bias = None if norm else self.parameter(name + ".bias", [out])
        x = F.conv2d(x, weight, bias, stride, kernel // 2, groups=groups)
        if norm:
            x = F.batch_norm(x, None, None, self.parameter(name + ".norm.weight", [out]),
                             self.parameter(name + ".norm.bias", [out]), True, eps=1e-3)
        return F.silu(x) if act else x

    def bottleneck(self, x, name, hidden):
        return x + self.conv(self.conv(x, name + ".first", hidden, 3), name + ".second", x.shape[1], 3)

    def c3k(self, x, name):
        c = x.shape[1] // 2
        branch, bypass = self.conv(x, name + ".split", c), self.conv(x, name + ".bypass", c)
        for i in range(2):
            branch = self.bottleneck(branch, f"{name}.{i}", c)
        return self.conv(torch.cat([branch, bypass], 1), name + ".join", 2 * c)

    def psa(self, x, name):
        c = x.shape[1]
        heads = max(c // 64, 1)
        key = c // heads // 2
        qkv = self.conv(x, name + ".qkv", c + 2 * key * heads, act=False)
        q, k, v = qkv.split([key * heads, key * heads, c], 1)
        flat = [part.flatten(2).unflatten(1, (heads, -1)).transpose(-1, -2) for part in (q, k, v)]
        scores = (flat[0] @ flat[1].transpose(-1, -2)) / math.sqrt(key)
        attended = (scores.softmax(-1) @ flat[2]).transpose(-1, -2).flatten(1, 2).unflatten(-1, x.shape[2:])
        y = attended + self.conv(v, name + ".position", c, 3, groups=c, act=False)
        x = x + self.conv(y, name + ".project", c, act=False)
        return x + self.conv(self.conv(x, name + ".up", 2 * c), name + ".down", c, act=False)

    def c3k2(self, x, name, channels, n, kind, expansion=0.5):
        out = self.width(channels)
        c = int(out * expansion)
        kept = list(self.conv(x, name + ".split", 2 * c).chunk(2, 1))
        for i in range(self.repeats(n)):
            at = f"{name}.inner.{i}"
            y = self.c3k(kept[-1], at) if kind == "deep" else self.bottleneck(kept[-1], at, c // 2)
            kept.append(self.psa(y, at + ".psa") if kind == "attention" else y)
        return self.conv(torch.cat(kept, 1), name + ".join", out)

    def down(self, x, name, channels):
        return self.conv(x, name + ".conv", self.width(channels), 3, 2)

    def sppf(self, x, name):
        kept = [self.conv(x, name + ".reduce", x.shape[1] // 2, act=False)]
        for _ in range(3):
            kept.append(F.max_pool2d(kept[-1], 5, 1, 2))
        return x + self.conv(torch.cat(kept, 1), name + ".join", x.shape[1])

    def c2psa(self, x, name):
        half = x.shape[1] // 2
        kept, y = self.conv(x, name + ".split", 2 * half).chunk(2, 1)
        for i in range(self.repeats(2)):
            y = self.psa(y, f"{name}.psa.{i}")
        return self.conv(torch.cat([kept, y], 1), name + ".join", x.shape[1])

    def heads(self, levels):
        classes = self.c["nc"]
        box, wide = max(16, levels[0].shape[1] // 4), max(levels[0].shape[1], classes)
        outputs = {}
        for kind in ("one_to_many", "one_to_one"):
            for i, level in enumerate(levels):
                at = f"detect.{kind}.{i}"
                y = self.conv(self.conv(level, at + ".box.0", box, 3), at + ".box.1", box, 3)
                outputs[at + ".box"] = self.conv(y, at + ".box.2", 4, act=False, norm=False)
                y = self.conv(level, at + ".class.0", level.shape[1], 3, groups=level.shape[1])
                y = self.conv(y, at + ".class.1", wide)
                y = self.conv(self.conv(y, at + ".class.2", wide, 3, groups=wide), at + ".class.3", wide)
                outputs[at + ".class"] = self.conv(y, at + ".class.4", classes, act=False, norm=False)
        return outputs

    def forward(self, x):
        b, h = "backbone.", "head."
        x = self.down(self.down(x, b + "0", 64), b + "1", 128)
        x = self.down(self.c3k2(x, b + "2", 256, 2, "plain", 0.25), b + "3", 256)
        p3 = self.c3k2(x, b + "4", 512, 2, "plain", 0.25)
        p4 = self.c3k2(self.down(p3, b + "5", 512), b + "6", 512, 2, "deep")
        x = self.c3k2(self.down(p4, b + "7", 1024), b + "8", 1024, 2, "deep")
        p5 = self.c2psa(self.sppf(x, b + "9"), b + "10")

        def up(y):
            return F.interpolate(y, scale_factor=2, mode="nearest")

        a = self.c3k2(torch.cat([up(p5), p4], 1), h + "0", 512, 2, "deep")
        n3 = self.c3k2(torch.cat([up(a), p3], 1), h + "1", 256, 2, "deep")
        n4 = self.c3k2(torch.cat([self.down(n3, h + "2", 256), a], 1), h + "3", 512, 2, "deep")
        n5 = self.c3k2(torch.cat([self.down(n4, h + "4", 512), p5], 1), h + "5", 1024, 1, "attention")
        return self.heads([n3, n4, n5])


def detector_step(config, seed, samples, dtype):
    """Outputs under the names by which their gradients are drawn, and the model with its gradients."""
    model = Detector(config, seed)
    model.dtype = dtype
    outputs = model(images(seed, samples, config["imgsz"]).to(dtype))
    ends = {}
    for name, value in outputs.items():
        # A row a cell of a sample, of deviation 1 / (cells of all samples).
        cells, key = value.shape[2] * value.shape[3], name_of_end(name.rsplit(".", 1)[0], name)
        drawn = normal(seed, key, samples * cells * value.shape[1]) * np.float32(1 / (samples * cells))
        shaped = torch.from_numpy(drawn).reshape(samples, cells, value.shape[1]).transpose(1, 2).reshape(value.shape)
        value.backward(shaped.to(dtype), retain_graph=True)
        ends[key] = value.detach().flatten(2).transpose(1, 2).flatten().double()
    return ends, model


def worst_error(a, b):
    return float(((a - b).abs() / (b.abs() + b.pow(2).mean().sqrt())).max())


def detector_fixture(config, seed, samples, number, norms):
    """In double precision: over so many norms of a batch the roundings of fp32 grow, by how much is noted."""
    single, model32 = detector_step(config, seed, samples, torch.float32)
    ends, model = detector_step(config, seed, samples, torch.float64)
    (total, each), (total32, each32) = norms(model.gradients()), norms(model32.gradients())
    scale = math.sqrt(sum(value**2 for value in each.values()) / len(each))  # some are zero in exact arithmetic
    fp32 = {"outputs": number(max(worst_error(single[n], ends[n]) for n in ends)),
            "norms": number(max(abs(each32[n] - each[n]) / (each[n] + scale) for n in each)),
            "norm": number(abs(total32 - total) / total)}
    return {"grad_norm": total, "grad_norms": each, "fp32_error": fp32, "tensors": model.shapes,
            "outputs": {name: [number(v) for v in values] for name, values in ends.items()},
            "parameters": sum(math.prod(shape) for shape in model.shapes.values())}


def name_of_end(level, name):
    """Under which a head's gradient is drawn: its first convolution's."""
    return f"{level}.box.0.out" if name.endswith("box") else f"{level}.box.0.class.out"

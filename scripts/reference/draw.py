"""Weights and tokens that both sides of a comparison draw for themselves, and safetensors files, with the standard
library alone.

An element is drawn by Python's Mersenne twister, whose random() is the same in every version and on every machine,
seeded by the text "SEED/NAME" of its tensor and taken in the order of the elements as stored."""
import array
import json
import math
import random
import struct
import sys

SCALE = 0.02 * 8  # deviation of weights: eight times what models start from, so that attention is far from uniform


def uniform(seed, name, count, middle, deviation):
    """`count` floats of this deviation around the middle."""
    draw = random.Random(f"{seed}/{name}").random
    width = deviation * math.sqrt(12.0)
    return array.array("f", (middle + width * (draw() - 0.5) for _ in range(count)))


def tensor(seed, name, shape):
    """A vector called weight (of a norm) lies around 1, a bias around 0, the rest is a weight."""
    count = math.prod(shape)
    if len([size for size in shape if size > 1]) > 1:
        return uniform(seed, name, count, 0.0, SCALE)
    is_norm = name.endswith("weight")
    return uniform(seed, name, count, 1.0 if is_norm else 0.0, 0.1)


def tokens(seed, samples, length, vocab):
    draw = random.Random(f"{seed}/tokens")
    return [[draw.randrange(vocab) for _ in range(length)] for _ in range(samples)]


def write_safetensors(path, tensors):
    """tensors: name -> (shape, array of floats)."""
    header, begin = {}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, begin + 4 * len(values)]}
        begin += 4 * len(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes() if sys.byteorder == "little" else values[:].byteswap())


def read_safetensors(path):
    """name -> (shape, array of floats) of a file of fp32 tensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = (entry["shape"], array.array("f", data[begin:end]))
    return tensors

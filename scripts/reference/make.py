"""Makes the reference fixtures: what PyTorch and transformers compute for the small models of cases.py, from weights and
tokens that draw.py draws. Run it by make.sh, which has the versions."""
import argparse
import json
import math
import pathlib
import tempfile

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM, ViTForImageClassification

import draw
import vision
from cases import CASES, SAMPLES, SEED, SEQ


def number(value):
    return float(f"{float(value):.9g}")


def numbers(values):
    return [number(v) for v in values]


def stored(model, folder):
    """Checkpoint tensors of a model, as transformers writes them."""
    model.save_pretrained(folder)
    return draw.read_safetensors(pathlib.Path(folder) / "model.safetensors")


def load_drawn(model, folder):
    """The model with drawn weights, and the shapes of its checkpoint."""
    shapes = {name: shape for name, (shape, _) in stored(model, folder).items()}
    drawn = {name: (shape, draw.tensor(SEED, name, shape)) for name, shape in shapes.items()}
    draw.write_safetensors(pathlib.Path(folder) / "model.safetensors", drawn)
    loaded = type(model).from_pretrained(folder, attn_implementation="eager", experts_implementation="eager",
                                        dtype=torch.float32)
    again = {}
    with tempfile.TemporaryDirectory() as check:
        again = stored(loaded, check)
    for name, (_, values) in drawn.items():
        assert again[name][1] == values, f"{name} is not what was drawn after loading"
    return loaded, shapes


def gradients(model, folder):
    """Gradients under the checkpoint's names: they take the place of the weights and are saved."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.grad if parameter.grad is not None else torch.zeros_like(parameter))
        for buffer_name, buffer in model.named_buffers():
            if "e_score_correction_bias" in buffer_name:
                buffer.zero_()
    return stored(model, folder)


def norms(tensors):
    """Norm of each tensor, and of all of them together."""
    squares = {name: math.fsum(v * v for v in values) for name, (_, values) in tensors.items()}
    return number(math.sqrt(math.fsum(squares.values()))), {n: number(math.sqrt(s)) for n, s in squares.items()}


def cache_bytes(cache):
    total = 0
    for layer in cache.layers:
        for held in (layer.keys, layer.values):
            total += held.numel() * held.element_size()
    return total


def flops_of(model, run):
    """Products that torch counts in a step, those of rotary angles left out (they are no part of the model)."""
    from torch.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as counter:
        run()
    counts = counter.get_flop_counts()
    rotary = sum(sum(ops.values()) for module, ops in counts.items() if module.endswith("rotary_emb"))
    return sum(counts["Global"].values()) - rotary


def text_fixture(case, folder):
    config = AutoConfig.for_model(**case["config"])
    model, shapes = load_drawn(AutoModelForCausalLM.from_config(config), folder)
    model.eval()  # nothing is dropped
    ids = torch.tensor(draw.tokens(SEED, SAMPLES, SEQ + 1, config.vocab_size))

    def step():
        logits = model(ids[:, :SEQ], use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), ids[:, 1:].reshape(-1))
        loss.backward()
        step.logits, step.loss = logits.detach(), loss.detach()

    flops = flops_of(model, step)
    fixture = {"loss": number(step.loss), "logits": numbers(step.logits.flatten().tolist())}
    if case.get("count_flops", True):
        fixture["flops"] = flops
    with torch.no_grad():
        out = model(ids[:, :SEQ], use_cache=True)
        fixture["next_tokens"] = out.logits[:, -1].argmax(-1).tolist()
        if case.get("count_cache", True):
            fixture["cache_bytes"] = cache_bytes(out.past_key_values)
    fixture["parameters"] = sum(math.prod(shape) for shape in shapes.values())
    fixture["grad_norm"], fixture["grad_norms"] = norms(gradients(model, folder))
    fixture["tensors"] = shapes
    return fixture


def vit_fixture(case, folder):
    values = dict(case["config"])
    config = transformers.ViTConfig(**{k: v for k, v in values.items() if k != "model_type"})
    model, shapes = load_drawn(ViTForImageClassification(config), folder)
    return finish_vision(model, lambda x: model(x).logits, shapes, case, config.num_labels,
                         lambda: gradients(model, folder))


def finish_vision(model, forward, shapes, case, outputs, gradients_of):
    size = case["config"].get("image_size") or case["config"]["vision_cfg"]["image_size"]
    images, labels = vision.images(SEED, SAMPLES, size), vision.labels(SEED, SAMPLES, outputs)

    def step():
        step.logits = forward(images)
        step.loss = torch.nn.functional.cross_entropy(step.logits, labels)
        step.loss.backward()

    flops = flops_of(model, step)
    fixture = {"loss": number(step.loss.detach()), "logits": numbers(step.logits.detach().flatten().tolist()),
               "flops": flops, "parameters": sum(math.prod(shape) for shape in shapes.values())}
    fixture["grad_norm"], fixture["grad_norms"] = norms(gradients_of())
    fixture["tensors"] = shapes
    return fixture


def own_fixture(case, _folder):
    """Architectures that transformers has not, written in plain torch (vision.py)."""
    if case["config"].get("model_type") == "yolo26":
        return vision.detector_fixture(case["config"], SEED, SAMPLES, number, norms)
    model, shapes, outputs = vision.tower(case["config"], SEED)
    return finish_vision(model, model, shapes, case, outputs, model.gradients)


def make(name, case):
    model_type = case["config"].get("model_type")
    plain = model_type in (None, "yolo26") or case["config"].get("parallel_block")
    maker = own_fixture if plain else vit_fixture if model_type == "vit" else text_fixture
    with tempfile.TemporaryDirectory() as folder:
        fixture = maker(case, folder)
    made_by = {"torch": torch.__version__.split("+")[0]}
    if maker is not own_fixture:
        made_by["transformers"] = transformers.__version__
    return {"made_by": made_by, "config": case["config"], "seed": SEED, "samples": SAMPLES, "seq": SEQ,
            "cuts": case.get("cuts", [["--tp", "2"], ["--pp", "2"]]), **fixture}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or CASES:
        fixture = make(name, CASES[name])
        text = json.dumps(fixture, separators=(",", ":")).replace(',"', ',\n"', 9)
        (arguments.out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name:20} loss {fixture.get('loss')}  gradient norm {fixture['grad_norm']}", flush=True)


if __name__ == "__main__":
    main()

"""The GPUs of the tables, and the numbers of their profiles that the formulas need."""
import os
import re
from dataclasses import dataclass

from tool import BadInput

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "systems")

# The tables' names of GPUs, and the profiles that carry their parameters.
SYSTEMS = {
    "a100_sxm": "a100-80gb-sxm",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200",
    "b300_sxm": "b300",
    "gb200": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000",
}
PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8"}


@dataclass
class Machine:
    """A device as its profile gives it."""
    gpu: str
    path: str
    processors: float
    memory: float  # bytes a microsecond
    cache: float  # bytes
    peaks: dict  # FLOP a microsecond, by precision


def profile_path(gpu):
    return os.path.join(FOLDER, SYSTEMS[gpu] + ".yaml")


def number(text, path, key):
    found = re.search(rf"^  {key}: ([0-9.]+)$", text, re.M)
    if not found:
        raise BadInput(f"{path}: device.{key}: missing")
    return float(found.group(1))


def machine(gpu):
    """Reads the profile of one of the tables' GPUs. Raises BadInput where it lacks a number."""
    path = profile_path(gpu)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    peaks = re.search(r"^  peak_tflops:\n((?:    .*\n)+)", text, re.M)
    if not peaks:
        raise BadInput(f"{path}: device.peak_tflops: missing")
    by_precision = {key: float(value) * 1e6 for key, value in re.findall(r"^    (\S+): ([0-9.]+)$", peaks.group(1), re.M)}
    return Machine(gpu, path, number(text, path, "processors"), number(text, path, "memory_gb_per_s") * 1e3,
                   number(text, path, "cache_mb") * 1e6, by_precision)

#!/usr/bin/env python3
"""Makes results/gallery: report pages of questions that people ask, as pictures, and the commands behind them.

  scripts/gallery.py [--bin build/bin/shardbench] [--out results/gallery] [--only NAME]

Needs Debian's chromium and chromium-driver.
"""
import os
import subprocess
import sys
import tempfile

from tool import BadInput, Parser, run

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "scripts"))
import browser  # noqa: E402

H100 = "--system h100-sxm --stack te-2025 --precision bf16"
# name: (what it shows, commands; {0} is the file of rows)
PAGES = {
    "llama-8b-plan": ("How to cut Llama 3.1 8B over 64 H100s: the plan's page",
                      [f"plan --model llama3.1-8b {H100} --gpus 64 --global-batch 256 --seq 8192 --tokens 1T --price 2.5 --top 24 --pareto --report {{1}}"]),
    "llama-405b": ("One step of Llama 3.1 405B on 16,384 H100s, stage by stage",
                   [f"simulate --model llama3.1-405b --tp 8 --pp 16 --dp 128 --seq 8192 --global-batch 2048 --sequence-parallel --zero 1 "
                    f"--recompute full --recompute-layers 2 {H100} --report {{1}}"]),
    "llama-70b-scaling": ("Llama 3.1 70B from 64 to 1,024 H100s: how the best cut scales",
                          [f"plan --model llama3.1-70b {H100} --gpus 64..1024 --global-batch 512 --seq 8192 --tokens 15T --top 6 --report {{1}}"]),
    "schedules": ("Pipeline schedules compared: Llama 3.1 70B, tp 8 and pp 8, 32 microbatches",
                  [f"simulate --model llama3.1-70b --tp 8 --pp 8 --dp 1 --seq 4096 --global-batch 32 --sequence-parallel --recompute selective {H100} --zero 0 {words} --out {{0}}"
                   for words in ("--schedule gpipe", "--schedule 1f1b", "--vpp 2", "--vpp 5", "--schedule zb-h1")]),
    "vit-high-resolution": ("A vision transformer at growing resolution: where tensor parallelism begins to pay",
                            [f"simulate --model vit-h --image-size {size} --global-batch 256 {words} {H100} --zero 1 --recompute full --out {{0}}"
                             for size in (448, 896) for words in ("--dp 8", "--dp 4 --tp 2", "--dp 2 --tp 4", "--tp 8")]),
}
SIZES = ((1400, "light"), (1400, "dark"), (390, "light"), (390, "dark"))


def parse_arguments(arguments):
    parser = Parser(description=__doc__)
    parser.add_argument("--bin", metavar="FILE", default=os.path.join(HERE, "..", "build", "bin", "shardbench"))
    parser.add_argument("--out", metavar="DIR", default=os.path.join(HERE, "..", "results", "gallery"))
    parser.add_argument("--only", metavar="NAME", choices=PAGES)
    return parser.parse_args(arguments)


def make_page(binary, commands, folder, name):
    rows, page = os.path.join(folder, f"{name}.csv"), os.path.join(folder, f"{name}.html")
    for command in commands:
        words = command.format(rows, page).split()
        result = subprocess.run([binary, *words], capture_output=True, text=True, check=False)
        if result.returncode not in (0, 1):
            raise BadInput(f"{' '.join(words)}: {result.stderr.strip()}")
    if not os.path.exists(page):
        subprocess.run([sys.executable, os.path.join(HERE, "report.py"), rows, "--bin", binary, "--out", page], check=True, stdout=subprocess.DEVNULL)
    return page


def shoot(window, page, stem, sizes):
    """Pictures at half their size."""
    for width, scheme in sizes:
        window.size(width)
        window.scheme(scheme)
        window.open(page)
        window.picture(f"{stem}-{width}-{scheme}.png", 0.5 if width > 500 else 0.7)


def write_index(out, names):
    lines = ["# Gallery", "", "Report pages of questions that people ask, made by `scripts/gallery.py`; predictions, on paper. One page is shown at 1400 and 390",
             "pixels, light and dark, the others as they open.", ""]
    for name in names:
        what, commands = PAGES[name]
        lines += [f"## {what}", "", f"![{what}]({name}-1400-light.png)", "", "```"]
        lines += [f"shardbench {command.format(name + '.csv', name + '.html')}" for command in commands]
        lines += [f"scripts/report.py {name}.csv"] if not any("--report" in command for command in commands) else []
        lines += ["```", ""]
    with open(os.path.join(out, "README.md"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def main(arguments):
    options = parse_arguments(arguments)
    if not (browser.BROWSER and browser.DRIVER):
        raise BadInput("chromium and chromedriver are missing: apt-get install chromium chromium-driver")
    os.makedirs(options.out, exist_ok=True)
    names = [options.only] if options.only else list(PAGES)
    with tempfile.TemporaryDirectory() as folder:
        window = browser.Browser(folder)
        try:
            for name in names:
                page = make_page(options.bin, PAGES[name][1], folder, name)
                shoot(window, page, os.path.join(options.out, name), SIZES if name == "llama-8b-plan" else SIZES[:1])
                print(name)
        finally:
            window.close()
    write_index(options.out, [name for name in PAGES if os.path.exists(os.path.join(options.out, f"{name}-1400-light.png"))])
    return 0


if __name__ == "__main__":
    sys.exit(run(main))

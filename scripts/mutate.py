"""Puts small faults into harness/ and kernels/, one at a time, and says which of them the tests let pass.

A mutant is compiled by itself, beside the sources, and linked in front of the libraries of each test that holds its file,
nearest first; the tests of the built tree are never touched. It dies when a test fails or hangs. One that does not compile
is no mutant. Outcomes are kept, so that an interrupted run goes on where it was.
"""
import argparse
import collections
import concurrent.futures
import glob
import hashlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import mutants

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EQUIVALENT = os.path.join(ROOT, "results", "mutation_equivalent.txt")
# What they start is not this build, or has no part in harness/ and kernels/ that others do not reach.
LEFT_OUT_CLI_TESTS = {"supervisor", "gpu_flags", "quickstart", "benchmarks"}


def limit_memory():
    """A fault may ask for all there is."""
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))


class Test:
    """A program of the build that ends well or not: a test executable, alone or on ranks, or a script over the program."""

    def __init__(self, name, binary, ranks=0, script=None):
        self.name, self.binary, self.ranks, self.script = name, binary, ranks, script

    def command(self, binary):
        if self.script:
            return [sys.executable, self.script]
        if self.ranks:
            return [os.path.join(ROOT, "scripts", "mpirun.sh"), str(self.ranks), binary, "--gtest_fail_fast", "--gtest_brief=1"]
        return [binary, "--gtest_fail_fast", "--gtest_brief=1"]

    def passes(self, binary, timeout_s):
        env = dict(os.environ, SHARDBENCH=binary, SHARDBENCH_DATA=os.path.join(ROOT, "tests", "data"), OPENBLAS_NUM_THREADS="1")
        place = os.path.join(ROOT, "tests", "cli") if self.script else tempfile.gettempdir()
        process = subprocess.Popen(self.command(binary), cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=limit_memory)
        try:
            return process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            process.terminate()  # mpirun ends its ranks by itself
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                pass
            return False
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


class Build:
    """A built tree: how its objects are compiled, and which programs hold which source."""

    def __init__(self, directory):
        self.directory = os.path.abspath(directory)
        with open(os.path.join(self.directory, "compile_commands.json"), encoding="utf-8") as commands:
            self.compiles = {os.path.relpath(c["file"], ROOT): c for c in json.load(commands)}
        self.tests = [Test(name, f"bin/{name}") for name in self.programs("test_*") if not name.endswith("_mpi")]
        self.tests += [Test(f"{name}.np2", f"bin/{name}", ranks=2) for name in self.programs("test_*_mpi")]
        for script in sorted(glob.glob(os.path.join(ROOT, "tests", "cli", "*_test.py"))):
            name = os.path.basename(script)[: -len("_test.py")]
            if name not in LEFT_OUT_CLI_TESTS:
                self.tests.append(Test(f"cli.{name}", "bin/shardbench", script=script))
        binaries = sorted({test.binary for test in self.tests})
        self.inputs = {b: set(self.ninja("-t", "inputs", b).split()) for b in binaries}
        self.links = {b: self.ninja("-t", "commands", "-s", b).strip() for b in binaries}

    def programs(self, pattern):
        left_out = ("emulated", "cuda", "fuzz", "real")
        names = sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.directory, "bin", pattern)))
        return [n for n in names if not any(word in n for word in left_out)]

    def ninja(self, *words):
        return subprocess.run(["ninja", "-C", self.directory, "--quiet", *words], check=True, capture_output=True, text=True).stdout

    def covering(self, path, seconds, near):
        """The tests that hold a source: those of its own module first, then the quickest."""
        module = path.split("/")[1 if path.startswith("harness/") else 0]
        absolute = os.path.join(ROOT, path)
        mine = lambda test: test.name.startswith((f"test_{module}", f"cli.{module}"))
        held = [t for t in self.tests if absolute in self.inputs[t.binary] and (mine(t) or not near)]
        known = [t for t in held if seconds is None or t.name in seconds]
        return sorted(known, key=lambda t: (not mine(t), seconds[t.name] if seconds else 0))

    def compile(self, mutant, scratch):
        """The object of a mutant, or None where it does not compile."""
        entry = self.compiles[mutant.path]
        with open(os.path.join(ROOT, mutant.path), encoding="utf-8") as source:
            text = mutant.apply(source.read())
        changed = os.path.join(scratch, os.path.basename(mutant.path))
        with open(changed, "w", encoding="utf-8") as source:
            source.write(text)
        words, kept = shlex.split(entry["command"]), []
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        vectorised = "_host" in mutant.path
        for before, word in zip([""] + words, words):
            if word in ("-Werror", "-o", "-c") or before in ("-o", "-c") or (word == "-O3" and not vectorised):
                continue
            kept.append(word)
        place = os.path.dirname(os.path.join(ROOT, mutant.path))
        made = changed + ".o"
        done = subprocess.run(kept + ["-w", *([] if vectorised else ["-O1"]), "-iquote", place, "-o", made, "-c", changed],
                              cwd=entry["directory"], capture_output=True)
        return made if done.returncode == 0 else None

    def link(self, binary, made, scratch):
        """The program with the mutant in front of the libraries that hold the right one."""
        made_binary = os.path.join(scratch, os.path.basename(binary))
        command = self.links[binary].replace(f" -o {binary} ", f" {made} -o {made_binary} ", 1)
        done = subprocess.run(command, shell=True, cwd=self.directory, capture_output=True)
        return made_binary if done.returncode == 0 else None


class Outcomes:
    """What is known of mutants, in a file that grows by a line each; a survivor is only known for the tests it met."""

    def __init__(self, path, tests_text):
        self.path, self.tests_text, self.known = path, tests_text, {}
        self.lock = threading.Lock()
        if os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                for line in lines:
                    one = json.loads(line)
                    if one["outcome"] != "survived" or one["tests"] == tests_text:
                        self.known[one["key"]] = one
                    else:
                        self.known.pop(one["key"], None)

    def get(self, mutant):
        return self.known.get(mutant.key())

    def add(self, mutant, outcome, by):
        one = {"key": mutant.key(), "kind": mutant.kind, "outcome": outcome, "by": by, "tests": self.tests_text}
        with self.lock:
            self.known[mutant.key()] = one
            with open(self.path, "a", encoding="utf-8") as lines:
                lines.write(json.dumps(one) + "\n")
        return one


def measured(build, drawn, near, scratch):
    """Seconds of each test that the mutants meet, on the right program; one that fails there tells nothing and is left out."""
    kept, seconds = os.path.join(scratch, "seconds.json"), {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as known:
            seconds = json.load(known)
    for test in {t.name: t for path in sorted({m.path for m in drawn}) for t in build.covering(path, None, near)}.values():
        binary = os.path.join(build.directory, test.binary)
        changed = max(os.path.getmtime(p) for p in (binary, test.script) if p)
        if seconds.get(test.name, {}).get("changed") == changed:
            continue
        start = time.monotonic()
        # From a folder of its own, as the mutants' programs are: a test that minds where the program lies fails here too.
        with tempfile.TemporaryDirectory(prefix="mutant.") as folder:
            passed = test.passes(shutil.copy(binary, folder), 900)
        seconds[test.name] = {"changed": changed, "passed": passed, "seconds": time.monotonic() - start}
        print(f"{test.name}: {'passes' if passed else 'FAILS, so it is left out'}, {seconds[test.name]['seconds']:.1f} s", flush=True)
        with open(kept, "w", encoding="utf-8") as known:
            json.dump(seconds, known)
    return {name: one["seconds"] for name, one in seconds.items() if one["passed"]}


def judge(build, mutant, seconds, options):
    """(outcome, the test that told)."""
    with tempfile.TemporaryDirectory(prefix="mutant.") as scratch:
        made = build.compile(mutant, scratch)
        if not made:
            return "does not compile", ""
        linked = {}
        for test in build.covering(mutant.path, seconds, options.near):
            if seconds[test.name] > options.longest:
                continue
            if test.binary not in linked:
                linked = {test.binary: build.link(test.binary, made, scratch)}
            if linked[test.binary] is None:
                return "does not compile", test.name
            if not test.passes(linked[test.binary], 20 + 6 * seconds[test.name]):
                return "died", test.name
    return "survived", ""


def equivalents():
    """Key of a mutant that no test can see -> why."""
    named = {}
    if os.path.exists(EQUIVALENT):
        with open(EQUIVALENT, encoding="utf-8") as lines:
            for line in lines:
                if " | " in line and not line.startswith("#"):
                    key, _, why = line.rstrip("\n").rpartition(" | ")
                    named[key] = why
    return named


def share(died, survived):
    return f"{100 * died / (died + survived):.0f}" if died + survived else ""


def report_text(options, drawn, outcomes):
    named = equivalents()
    table, survivors, equal = collections.defaultdict(collections.Counter), collections.defaultdict(list), []
    for mutant in drawn:
        known = outcomes.get(mutant)
        outcome = known["outcome"] if known else "not run"
        if outcome == "survived" and mutant.key() in named:
            outcome = "equivalent"
            equal.append(mutant)
        table[mutant.module()][outcome] += 1
        if outcome == "survived":
            survivors[mutant.module()].append(mutant)
    total = sum(table.values(), collections.Counter())
    row = lambda name, c: (f"| {name} | {sum(c.values())} | {c['does not compile']} | {c['equivalent']} | {c['died']} | {c['survived']} "
                           f"| {share(c['died'], c['survived'])} |")
    files = f" --files {' '.join(options.files)}" if options.files else ""
    lines = ["# Faults put in on purpose, and what the tests say", "",
             f"`scripts/mutate.sh --seed {options.seed} --count {options.count}{files}` drew {len(drawn)} small faults of `harness/` and `kernels/`, one at a "
             "time: a constant, comparison, sign or operator changed, a statement dropped, arguments swapped. A fault dies when a test that "
             "holds its file fails or hangs. Those that do not compile, and the equivalent ones (no test can see them; named in "
             "`mutation_equivalent.txt`), are not counted. What only a CUDA build compiles, and headers, are not drawn.", "",
             "| module | drawn | does not compile | equivalent | died | survived | died, % |", "|---|---|---|---|---|---|---|"]
    lines += [row(name, table[name]) for name in sorted(table)] + [row("all", total), ""]
    if total["not run"]:
        lines += [f"{total['not run']} were not run.", ""]
    for name in sorted(survivors):
        lines += [f"## Survivors of {name}", ""] + [f"- `{m.key()}`" for m in survivors[name]] + [""]
    if equal:
        lines += ["## Equivalent", ""] + [f"- `{m.key()}`: {named[m.key()]}" for m in equal] + [""]
    return "\n".join(lines), total


def tests_text():
    """Changes when a test does: survivors meet the tests anew."""
    digest = hashlib.sha256()
    for place, folders, names in sorted(os.walk(os.path.join(ROOT, "tests"))):
        folders.sort()
        for name in sorted(names):
            if name.endswith((".cpp", ".hpp", ".py", ".json", ".csv", ".txt")):
                with open(os.path.join(place, name), "rb") as text:
                    digest.update(name.encode() + text.read())
    return digest.hexdigest()[:12]


class OneLineParser(argparse.ArgumentParser):
    def error(self, message):
        sys.exit(refused(f"mutate.sh: {message} (--help)"))


def refused(line):
    print(line, file=sys.stderr)
    return 2


def parse(words):
    parser = OneLineParser(prog="mutate.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="what is drawn; another seed draws others")
    parser.add_argument("--count", type=int, default=200, help="how many are drawn")
    parser.add_argument("--files", nargs="+", default=[], metavar="GLOB", help="only of these sources, e.g. 'harness/planner/*'")
    parser.add_argument("--build", default="build-test", help="the built tree with its tests")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at once")
    parser.add_argument("--longest", type=float, default=120, metavar="SECONDS", help="tests that take longer are left out")
    parser.add_argument("--near", action="store_true", help="only the tests of the file's own module: a quick look")
    parser.add_argument("--list", action="store_true", help="print what would be drawn, and end")
    parser.add_argument("--out", default=os.path.join(ROOT, "results", "mutation.md"), help="where the report goes")
    parser.add_argument("--parse-only", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.count < 1 or options.jobs < 1:
        parser.error("--count and --jobs: at least 1")
    return options


def main():
    options = parse(sys.argv[1:])
    if options.parse_only:
        return
    drawn = mutants.draw(ROOT, options.seed, options.count, options.files)
    if not drawn:
        sys.exit("mutate.sh: --files: no source of harness/ or kernels/ that is compiled without CUDA matches")
    if options.list:
        print("\n".join(f"{m.kind:10} {m.key()}" for m in drawn))
        return
    build = Build(os.path.join(ROOT, options.build))
    build_scratch = os.path.join(build.directory, "mutate")
    os.makedirs(build_scratch, exist_ok=True)
    seconds = measured(build, drawn, options.near, build_scratch)
    outcomes = Outcomes(os.path.join(build_scratch, "outcomes.jsonl"), tests_text() + (" near" if options.near else ""))
    waiting = [m for m in drawn if not outcomes.get(m)]
    print(f"{len(drawn)} mutants, {len(drawn) - len(waiting)} known from before", flush=True)

    def one(mutant):
        start = time.monotonic()
        outcome, by = judge(build, mutant, seconds, options)
        outcomes.add(mutant, outcome, by)
        print(f"{outcome:16} {by:20} {time.monotonic() - start:5.0f} s  {mutant.kind:10} {mutant.key()}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, waiting))
    text, total = report_text(options, drawn, outcomes)
    with open(options.out, "w", encoding="utf-8") as out:
        out.write(text)
    print(f"{total['died']} died, {total['survived']} survived ({share(total['died'], total['survived'])}%), {total['equivalent']} equivalent, "
          f"{total['does not compile']} did not compile: {os.path.relpath(options.out, ROOT)}")


if __name__ == "__main__":
    main()

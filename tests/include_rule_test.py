#!/usr/bin/env python3
"""Fails on any #include that a module's link line does not allow.

  python3 tests/include_rule_test.py [SOURCE_DIR]

The rule is read from the shardbench_module(), add_library() and target_link_libraries() calls themselves: a file may include
its own module and what that module links, directly or through another. A few headers belong to single files.
"""
import os
import re
import sys

# Folder of each kernels library; the harness ones come from shardbench_module(name folder ...).
KERNEL_LIBRARIES = {"sb_core": "kernels/core", "sb_kernels_ref": "kernels", "sb_kernels_host": "kernels",
                    "sb_kernels_cuda": "kernels"}
CUDA_FILE = re.compile(r"_cuda\.(cpp|cu|cuh|hpp)$|_nccl\.cpp$|\.cuh?$|^kernels/core/cuda/")
# The contract of an op (its shape, cost, arguments and binding, kernels/<op>/<op>.hpp) and the table of all ops stand on
# kernels/core alone, so whoever links that may describe a step with them; back ends are for who links them.
CONTRACT = re.compile(r"kernels/(operations|(?P<op>[a-z_]+)/(?P=op))\.hpp$")
# What a linked outside library lets a module include.
EXTERNAL = {"fmt::fmt": r"fmt/", "nlohmann_json::nlohmann_json": r"nlohmann/", "yaml-cpp": r"yaml-cpp/",
            "CLI11::CLI11": r"CLI/", "MPI::MPI_C": r"mpi\.h$"}
# Headers that only certain files may include, whatever the link line says: (header, files, why).
RESERVED = [
    (r"mpi\.h$", r"^harness/comm/(communicator_mpi|mpi_[a-z_]+)\.(cpp|hpp)$", "MPI stays behind the communicator"),
    (r"nccl\.h$", r"^harness/comm/[a-z_]*nccl[a-z_]*\.(cpp|hpp)$", "NCCL stays behind the communicator"),
    (r"cublas(Lt|_v2|_api|Xt)?\.h$", r"^kernels/gemm/[a-z_]+_cuda\.(cpp|cu)$", "every product goes through gemm"),
    (r"(openblas/)?(cblas|openblas_config)\.h$", r"^kernels/gemm/[a-z_]+_host\.cpp$", "every product goes through gemm"),
    (r"nvtx3/", r"^harness/record/trace_nvtx\.cpp$", "ranges are opened through trace_push"),
    (r"cuda[A-Za-z_0-9]*\.h(pp)?$", CUDA_FILE, "CUDA stays in files named so"),
    (r"(nlohmann/|yaml-cpp/|CLI/)", r"\.cpp$", "too slow to compile to be in a header"),
    (r"fmt/", r"^(harness|bench)/.*\.(cpp|hpp)$", "nvcc does not compile fmt: none of it in kernels/"),
    (r"kernels/core/device\.hpp$", r"^(?!harness/(config|sharding|program|planner|report)/)",
     "what is counted, planned and reported never sees a device"),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)
SOURCE = (".cpp", ".hpp", ".cu", ".cuh")


class Modules:
    """Folder and direct link names of each library, as the CMake files give them."""

    def __init__(self, root):
        self.folder = dict(KERNEL_LIBRARIES)
        self.links = {name: [] for name in KERNEL_LIBRARIES}
        for path in ("kernels/CMakeLists.txt", "harness/CMakeLists.txt"):
            self.read(os.path.join(root, path))

    def read(self, path):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"#.*", "", file.read())
        for name, words in re.findall(r"shardbench_module\(\s*(\S+)\s+([^)]*)\)", text):
            folder, *links = words.split()
            self.folder[name] = folder
            self.links[name] = [link for link in links if link not in ("PUBLIC", "PRIVATE", "INTERFACE")]
        for name, words in re.findall(r"target_link_libraries\(\s*(\S+)\s+([^)]*)\)", text):
            self.links.setdefault(name, []).extend(w for w in words.split() if w not in ("PUBLIC", "PRIVATE", "INTERFACE"))

    def owner(self, path):
        """The library whose folder holds this file; kernels/core before kernels, but CUDA files make one library."""
        if path.startswith("kernels/") and CUDA_FILE.search(path):
            return "sb_kernels_cuda"
        if re.match(r"kernels/(?!core/)", path):
            return "sb_kernels_ref" if "_ref." in path else "sb_kernels_host"
        fitting = [name for name, folder in self.folder.items() if path.startswith(folder + "/")]
        return max(fitting, key=lambda name: len(self.folder[name]), default=None)

    def reachable(self, name):
        """Every library on the link line of `name`, followed through."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current not in seen:
                seen.add(current)
                waiting += self.links.get(current, [])
        return seen

    def folders(self, name):
        return {self.folder[library] for library in self.reachable(name) if library in self.folder}


def source_files(root):
    for top in ("kernels", "harness", "bench"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCE):
                    yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def reserved_problem(path, header):
    for pattern, allowed, why in RESERVED:
        if re.match(pattern, header) and not re.search(allowed, path):
            return why
    return None


def link_problem(modules, owner, header):
    folders = modules.folders(owner)
    if re.match(r"(kernels|harness|bench|tests)/", header):
        if (CONTRACT.match(header) and "sb_core" in modules.reachable(owner) and owner != "sb_core") or any(header.startswith(folder + "/") for folder in folders):
            return None
        return f"{owner} links nothing that holds it"
    for library, pattern in EXTERNAL.items():
        # Private dependencies are not passed on, so an outside library must be on the module's own line.
        if re.match(pattern, header) and library not in modules.links[owner]:
            return f"{owner} does not link {library}"
    return None


def check_file(root, path, modules):
    owner = modules.owner(path)
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    problems = []
    for quote, header in INCLUDE.findall(text):
        problem = reserved_problem(path, header)
        if not problem and quote == '"' and "/" not in header and path.startswith(("kernels/", "harness/")):
            problem = "includes are written from the repository root"
        if not problem and owner:
            problem = link_problem(modules, owner, header)
        if problem:
            problems.append(f"{path}: #include {header}: {problem}")
    return problems


def check_tree(root):
    """(number of files read, problems)"""
    modules = Modules(root)
    problems, files = [], 0
    for path in source_files(root):
        files += 1
        problems += check_file(root, path, modules)
    return files, problems


def main(arguments):
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files, problems = check_tree(root)
    for problem in problems:
        print(problem)
    print(f"{files} files, {len(problems)} includes against the rule")
    return 1 if problems or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

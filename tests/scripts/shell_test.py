import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = sorted(os.path.join("scripts", name) for name in os.listdir(os.path.join(ROOT, "scripts"))
                 if name.endswith((".sh", ".sbatch"))) + [".ci/run"]


def run(*command, **variables):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | variables)


class Shell(unittest.TestCase):
    def test_every_script_is_executable_and_parses(self):
        for path in SCRIPTS:
            self.assertTrue(os.access(os.path.join(ROOT, path), os.X_OK), path)
            self.assertEqual(run("bash", "-n", path).stderr, "", path)

    def test_unknown_flags_are_refused_in_one_line(self):
        for path in (p for p in SCRIPTS if p.endswith(".sh")):
            result = run(path, "--bogus")
            self.assertEqual(result.returncode, 2, path)
            self.assertIn("--bogus", result.stderr)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_help_explains(self):
        for path in (p for p in SCRIPTS if p.startswith("scripts/")):
            result = run(path, "--help")
            self.assertEqual(result.returncode, 0, path)
            self.assertGreater(len(result.stdout), 60, path)

    def test_what_goes_to_other_tools_is_known(self):
        for command in (("scripts/test.sh", "-R"), ("scripts/test.sh", "Placement"), ("scripts/build.sh", "shardbench"),
                        ("scripts/build.sh", "-DSHARDBENCH_CUDA=OFF", "--", "--bogus"), ("scripts/sanitize.sh", "more"),
                        ("scripts/mpirun.sh", "0", "true"), ("scripts/instrumented_build.sh", "test_config", "--bogus")):
            result = run(*command)
            self.assertEqual((result.returncode, result.stdout), (2, ""), command)
            self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_missing_arguments_are_refused(self):
        for command in (("scripts/nsys_profile.sh",), ("scripts/nsys_profile.sh", "0", "out", "run"),
                        ("scripts/offline_bundle.sh",), ("scripts/slurm_sweep.sbatch",),
                        ("scripts/setup.sh", "--bundle", "/no/such/folder"), ("scripts/setup.sh", "--bundle")):
            result = run(*command)
            self.assertEqual(result.returncode, 2, (command, result.stderr))
            self.assertNotEqual(result.stderr, "")

    def test_nsys_runs_every_rank_with_a_report_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            tool = os.path.join(folder, "nsys")
            # Stands in for Nsight Systems: notes its arguments and makes the files that it would make.
            with open(tool, "w", encoding="utf-8") as file:
                file.write('#!/bin/bash\necho "$@" >>"$NOTES"\n'
                           'for a in "$@"; do case $a in --output=*) touch "${a#--output=}.nsys-rep";; esac; done\n')
            os.chmod(tool, 0o755)
            notes = os.path.join(folder, "notes")
            launcher = os.path.join(folder, "launch")
            with open(launcher, "w", encoding="utf-8") as file:
                file.write('#!/bin/bash\nfor r in 0 1; do OMPI_COMM_WORLD_RANK=$r "$@"; done\n')
            os.chmod(launcher, 0o755)
            run("scripts/nsys_profile.sh", "2", folder + "/out", "run", "--tp", "2", NOTES=notes, LAUNCHER=launcher,
                SHARDBENCH="/bin/true", PATH=folder + ":" + os.environ["PATH"])
            with open(notes, encoding="utf-8") as file:
                lines = file.read().splitlines()
        profiles = [line for line in lines if line.startswith("profile")]
        self.assertEqual(len(profiles), 2)
        for rank, line in enumerate(profiles):
            self.assertIn(f"--output={folder}/out/rank{rank} ", line)
            for flag in ("--trace=cuda,nvtx,mpi", "--capture-range=cudaProfilerApi"):
                self.assertIn(flag, line)
            self.assertTrue(line.endswith("/bin/true run --tp 2"), line)
        self.assertEqual(len([line for line in lines if line.startswith("export --type sqlite")]), 2)

    def test_no_registry_or_private_path_is_named(self):
        for path in SCRIPTS:
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                text = file.read()
            for word in ("http://", "https://", "index-url", "/home/"):
                self.assertNotIn(word, text, path)


if __name__ == "__main__":
    unittest.main()

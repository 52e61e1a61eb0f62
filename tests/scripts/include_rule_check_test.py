import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import include_rule_test as rule  # noqa: E402

CMAKE = {"kernels/CMakeLists.txt": "target_link_libraries(sb_core PUBLIC sb_flags)\n"
                                   "target_link_libraries(sb_kernels_host PUBLIC sb_core PRIVATE BLAS::BLAS)\n",
         "harness/CMakeLists.txt": "shardbench_module(sb_config harness/config sb_core PRIVATE fmt::fmt yaml-cpp)\n"
                                   "shardbench_module(sb_sharding harness/sharding sb_config) # sb_comm in a comment\n"
                                   "shardbench_module(sb_program harness/program sb_sharding)\n"
                                   "shardbench_module(sb_comm harness/comm sb_core PRIVATE MPI::MPI_C)\n"}


class IncludeRule(unittest.TestCase):
    def problems(self, path, *includes):
        with tempfile.TemporaryDirectory() as root:
            for name, text in {**CMAKE, path: "".join(f"#include {include}\n" for include in includes)}.items():
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return rule.check_tree(root)[1]

    def allowed(self, path, include):
        self.assertEqual(self.problems(path, include), [])

    def refused(self, path, include, word):
        problems = self.problems(path, include)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(word, problems[0])

    def test_own_and_linked_modules_are_allowed(self):
        self.allowed("harness/program/a.cpp", '"harness/program/b.hpp"')
        self.allowed("harness/program/a.cpp", '"harness/config/b.hpp"')
        self.allowed("harness/program/a.cpp", '"kernels/core/error.hpp"')
        self.allowed("harness/program/a.cpp", "<vector>")
        self.allowed("kernels/attention/attention_host.cpp", '"kernels/gemm/gemm.hpp"')

    def test_what_is_not_linked_is_refused(self):
        self.refused("harness/config/a.cpp", '"harness/program/b.hpp"', "sb_config")
        self.refused("harness/sharding/a.cpp", '"harness/comm/communicator.hpp"', "sb_sharding")
        self.refused("kernels/core/a.cpp", '"harness/config/b.hpp"', "sb_core")
        self.refused("kernels/core/a.cpp", '"kernels/gemm/gemm.hpp"', "sb_core")
        self.refused("harness/program/a.cpp", '"kernels/gemm/gemm_host.hpp"', "sb_program")
        self.allowed("harness/program/a.cpp", '"kernels/gemm/gemm.hpp"')

    def test_outside_libraries_need_a_link(self):
        self.allowed("harness/config/a.cpp", "<yaml-cpp/yaml.h>")
        self.refused("harness/program/a.cpp", "<yaml-cpp/yaml.h>", "yaml-cpp")
        self.refused("harness/config/a.hpp", "<yaml-cpp/yaml.h>", "header")
        self.refused("harness/sharding/a.cpp", "<fmt/format.h>", "fmt::fmt")
        self.refused("kernels/gemm/gemm_host.cpp", "<fmt/format.h>", "fmt")

    def test_reserved_headers(self):
        self.allowed("harness/comm/communicator_mpi.cpp", "<mpi.h>")
        self.allowed("harness/comm/mpi_process.cpp", "<mpi.h>")
        self.refused("harness/comm/communicator.hpp", "<mpi.h>", "MPI")
        self.refused("harness/comm/communicator_mpi.cpp", "<nccl.h>", "NCCL")
        self.allowed("harness/comm/communicator_nccl.cpp", "<nccl.h>")
        self.refused("kernels/attention/attention_cuda.cu", "<cublasLt.h>", "gemm")
        self.allowed("kernels/gemm/gemm_cuda.cpp", "<cublasLt.h>")
        self.allowed("kernels/gemm/sgemm_host.cpp", "<cblas.h>")
        self.refused("kernels/norm/norm_host.cpp", "<cblas.h>", "gemm")
        self.refused("kernels/core/device.hpp", "<cuda_runtime.h>", "CUDA")
        self.allowed("kernels/norm/norm_cuda.cu", "<cuda_runtime.h>")
        self.refused("harness/program/a.cpp", '"kernels/core/device.hpp"', "device")

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in CMAKE.items():
                os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            self.assertEqual(rule.main([root]), 1)


if __name__ == "__main__":
    unittest.main()

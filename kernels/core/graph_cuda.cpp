#include "kernels/core/cuda/stream.hpp"

namespace shardbench {
namespace {

class CudaGraph final : public Graph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    cudaError_t const made = cudaGraphInstantiate(&executable_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    CUDA_CHECK(made);
  }
  ~CudaGraph() override { static_cast<void>(cudaGraphExecDestroy(executable_)); }
  CudaGraph(CudaGraph const&) = delete;
  CudaGraph& operator=(CudaGraph const&) = delete;
  void launch(Stream& stream) override { CUDA_CHECK(cudaGraphLaunch(executable_, cuda_stream(stream).get())); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::string CudaDevice::graph_problem() const { return {}; }

std::unique_ptr<Graph> CudaDevice::capture(Stream& origin, std::function<void()> const& enqueue) {
  cudaStream_t const stream = cuda_stream(origin).get();
  cudaGraph_t graph = nullptr;
  // Of this thread only: NCCL's watchdog goes on asking events of its own meanwhile.
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph) static_cast<void>(cudaGraphDestroy(graph));
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  return std::make_unique<CudaGraph>(graph);
}

}  // namespace shardbench

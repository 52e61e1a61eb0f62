// The only file that includes cuDNN; its library is opened at first use, so that the back end starts without it.
#include "kernels/attention/attention_cudnn_cuda.hpp"

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_map>

#include "kernels/core/cuda/check.hpp"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // what the frontend looks its functions up in
}

namespace shardbench::cuda {
namespace {

namespace fe = cudnn_frontend;
using Handle = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(fe::error_t status, char const* what) {
  VALIDATE(status.is_good(), std::string("cuDNN: ") + what + " failed (" + status.get_message() + ")");
}

void check(cudnnStatus_t status, char const* what) {
  VALIDATE(status == CUDNN_STATUS_SUCCESS,
           std::string("cuDNN: ") + what + " failed (" + fe::detail::get_error_string(status) + ")");
}

/// Numbers by which the frontend knows the tensors of a plan.
enum Uid : std::int64_t { uid_q = 1, uid_k, uid_v, uid_out, uid_stats, uid_dout, uid_dq, uid_dk, uid_dv };

/// A built graph of operations: made at a shape's first call, before any step is timed.
struct Plan {
  fe::graph::Graph graph;
  std::size_t workspace_bytes = 0;
};

using Key = std::array<std::int64_t, 17>;

void require(AttentionShape const& s) {
  auto const refuse = [](std::string const& what) { throw IllegalConfig("attention: cudnn: " + what); };
  if (s.dtype != Dtype::bf16) refuse(std::string(to_string(s.dtype)) + " given (allowed: bf16)");
  if (s.head_dim > 128 || s.value_dim > 128 || s.head_dim % 8 != 0 || s.value_dim % 8 != 0)
    refuse("heads of " + std::to_string(s.head_dim) + " given (allowed: multiples of 8 up to 128)");
  if (s.seq_q != s.seq_k) refuse("as many keys as queries are needed");
  if (s.softcap > 0 || s.window > 0) refuse("a softcap or a window is given (allowed: neither)");
  bool const block = s.q_positions || s.k_positions || (s.q_offset != aligned_ends && s.q_offset != 0) ||
                     (s.statistic_stride != 0 && s.statistic_stride != s.seq_q);
  if (block) refuse("a block of a longer sequence is given (allowed: whole sequences)");
}

Key key_of(AttentionShape const& s, bool backward, std::initializer_list<std::int64_t> strides) {
  Key key{s.seq_q,
          s.batch,
          s.heads,
          s.kv_heads,
          s.head_dim,
          s.value_dim,
          std::bit_cast<std::int32_t>(s.scale),
          s.mask == AttentionMask::causal,
          backward};
  std::ranges::copy(strides, key.begin() + 9);
  return key;
}

Key key_of(AttentionForwardArgs const& a) {
  return key_of(a.shape, false, {a.q.row_stride, a.k.row_stride, a.v.row_stride, a.out.row_stride});
}

Key key_of(AttentionBackwardArgs const& a) {
  return key_of(a.shape, true,
                {a.q.row_stride, a.k.row_stride, a.v.row_stride, a.out.row_stride, a.dout.row_stride, a.dq.row_stride,
                 a.dk.row_stride, a.dv.row_stride});
}

/// [batch, heads, seq, dim] of a tensor whose rows are (sequence, batch).
fe::graph::Tensor_attributes layout(AttentionShape const& s, Uid uid, std::int64_t row_stride, std::int64_t heads,
                                    std::int64_t dim) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid)
      .set_dim({s.batch, heads, s.seq_q, dim})
      .set_stride({row_stride, dim, row_stride * s.batch, 1})
      .set_data_type(fe::DataType_t::BFLOAT16);
}

fe::graph::Tensor_attributes stats_layout(AttentionShape const& s) {
  return fe::graph::Tensor_attributes()
      .set_uid(uid_stats)
      .set_dim({s.batch, s.heads, s.seq_q, 1})
      .set_stride({s.heads * s.seq_q, s.seq_q, 1, 1})
      .set_data_type(fe::DataType_t::FLOAT);
}

/// A result goes where its layout says.
void place(Handle const& result, fe::graph::Tensor_attributes const& at) {
  result->set_output(true)
      .set_uid(at.get_uid())
      .set_dim(at.get_dim())
      .set_stride(at.get_stride())
      .set_data_type(at.get_data_type());
}

struct Inputs {
  Handle q, k, v;
};

Inputs add_inputs(fe::graph::Graph& graph, AttentionShape const& s, AttentionTensor const& q, AttentionTensor const& k,
                  AttentionTensor const& v) {
  graph.set_io_data_type(fe::DataType_t::BFLOAT16)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return {graph.tensor(layout(s, uid_q, q.row_stride, s.heads, s.head_dim)),
          graph.tensor(layout(s, uid_k, k.row_stride, s.kv_heads, s.head_dim)),
          graph.tensor(layout(s, uid_v, v.row_stride, s.kv_heads, s.value_dim))};
}

void describe(fe::graph::Graph& graph, AttentionForwardArgs const& a) {
  AttentionShape const& s = a.shape;
  Inputs const in = add_inputs(graph, s, a.q, a.k, a.v);
  auto const options =
      fe::graph::SDPA_attributes().set_name("forward").set_generate_stats(true).set_attn_scale(s.scale).set_causal_mask(
          s.mask == AttentionMask::causal);
  auto const [out, stats] = graph.sdpa(in.q, in.k, in.v, options);
  place(out, layout(s, uid_out, a.out.row_stride, s.heads, s.value_dim));
  place(stats, stats_layout(s));
}

void describe(fe::graph::Graph& graph, AttentionBackwardArgs const& a) {
  AttentionShape const& s = a.shape;
  Inputs const in = add_inputs(graph, s, a.q, a.k, a.v);
  Handle const out = graph.tensor(layout(s, uid_out, a.out.row_stride, s.heads, s.value_dim));
  Handle const dout = graph.tensor(layout(s, uid_dout, a.dout.row_stride, s.heads, s.value_dim));
  Handle const stats = graph.tensor(stats_layout(s));
  auto const options = fe::graph::SDPA_backward_attributes()
                           .set_name("backward")
                           .set_attn_scale(s.scale)
                           .set_causal_mask(s.mask == AttentionMask::causal);
  auto const [dq, dk, dv] = graph.sdpa_backward(in.q, in.k, in.v, out, dout, stats, options);
  place(dq, layout(s, uid_dq, a.dq.row_stride, s.heads, s.head_dim));
  place(dk, layout(s, uid_dk, a.dk.row_stride, s.kv_heads, s.head_dim));
  place(dv, layout(s, uid_dv, a.dv.row_stride, s.kv_heads, s.value_dim));
}

/// The handle and the plans of one stream.
class CudnnPlans final : public StreamLibraryState {
 public:
  explicit CudnnPlans(cudaStream_t stream) {
    std::string const problem = cudnn_problem();
    VALIDATE(problem.empty(), problem);
    check(fe::detail::create_handle(&handle_), "cudnnCreate");
    check(fe::detail::set_stream(handle_, stream), "cudnnSetStream");
  }
  ~CudnnPlans() override {
    plans_.clear();
    static_cast<void>(cudaFree(workspace_));
    static_cast<void>(fe::detail::destroy_handle(handle_));
  }
  CudnnPlans(CudnnPlans const&) = delete;
  CudnnPlans& operator=(CudnnPlans const&) = delete;

  template <class Args>
  void run(Key const& key, Args const& args, std::unordered_map<std::int64_t, void*> pointers) {
    Plan& plan = plan_of(key, args);
    if (plan.workspace_bytes > workspace_bytes_) grow(plan.workspace_bytes);
    check(plan.graph.execute(handle_, pointers, workspace_), "attention");
  }

  template <class Args>
  Plan& plan_of(Key const& key, Args const& args) {
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      auto plan = std::make_unique<Plan>();
      describe(plan->graph, args);
      check(plan->graph.build(handle_, {fe::HeurMode_t::A}), "building attention");
      plan->workspace_bytes = std::max<std::int64_t>(plan->graph.get_workspace_size(), 0);
      found = plans_.emplace(key, std::move(plan)).first;
    }
    return *found->second;
  }

 private:
  /// What a stream runs, it runs in order: one workspace of the largest size serves all its plans.
  void grow(std::size_t bytes) {
    CUDA_CHECK(cudaFree(workspace_));  // waits for what uses it
    workspace_ = nullptr;
    workspace_bytes_ = 0;
    CUDA_CHECK(cudaMalloc(&workspace_, bytes));
    workspace_bytes_ = bytes;
  }

  cudnnHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

CudnnPlans& plans_of(Stream& stream) {
  CudaStream& queue = cuda_stream(stream);
  if (!queue.attention_state) queue.attention_state = std::make_unique<CudnnPlans>(queue.get());
  return static_cast<CudnnPlans&>(*queue.attention_state);
}

}  // namespace

std::string cudnn_problem() {
  static std::string const problem = [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    return fe::cudnn_dlhandle ? std::string() : "cuDNN cannot be opened (" + std::string(dlerror()) + ")";
  }();
  return problem;
}

void cudnn_attention_forward(Stream& stream, AttentionForwardArgs const& a) {
  if (a.shape.seq_q == 0 || a.shape.batch == 0 || a.shape.heads == 0) return;
  require(a.shape);
  plans_of(stream).run(
      key_of(a), a,
      {{uid_q, a.q.data}, {uid_k, a.k.data}, {uid_v, a.v.data}, {uid_out, a.out.data}, {uid_stats, a.log_sum_exp}});
}

void cudnn_attention_backward(Stream& stream, AttentionBackwardArgs const& a) {
  if (a.shape.seq_q == 0 || a.shape.batch == 0 || a.shape.heads == 0) return;
  require(a.shape);
  if (a.accumulate_q || a.accumulate_kv)
    throw IllegalConfig("attention: cudnn: gradients to be added to are given (allowed: overwritten)");
  plans_of(stream).run(key_of(a), a,
                       {{uid_q, a.q.data},
                        {uid_k, a.k.data},
                        {uid_v, a.v.data},
                        {uid_out, a.out.data},
                        {uid_dout, a.dout.data},
                        {uid_stats, const_cast<float*>(a.log_sum_exp)},
                        {uid_dq, a.dq.data},
                        {uid_dk, a.dk.data},
                        {uid_dv, a.dv.data}});
}

std::size_t cudnn_attention_workspace(Stream& stream, AttentionShape const& s, bool backward) {
  if (s.seq_q == 0 || s.batch == 0 || s.heads == 0) return 0;
  try {
    require(s);
  } catch (IllegalConfig const&) {
    return 0;  // said when it is to run
  }
  std::int64_t const q = s.heads * s.head_dim, out = s.heads * s.value_dim, k = s.kv_heads * s.head_dim,
                     v = s.kv_heads * s.value_dim;
  if (!backward) {
    AttentionForwardArgs const args{s, {nullptr, q}, {nullptr, k}, {nullptr, v}, {nullptr, out}};
    return plans_of(stream).plan_of(key_of(args), args).workspace_bytes;
  }
  AttentionBackwardArgs args;
  args.shape = s;
  args.q.row_stride = args.dq.row_stride = q, args.k.row_stride = args.dk.row_stride = k;
  args.v.row_stride = args.dv.row_stride = v, args.out.row_stride = args.dout.row_stride = out;
  return plans_of(stream).plan_of(key_of(args), args).workspace_bytes;
}

}  // namespace shardbench::cuda

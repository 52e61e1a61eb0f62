// cuBLASLt's products on the CPU BLAS: column-major, strided batches, bias, fp32 accumulation.
#include <cblas.h>
#include <cublasLt.h>

#include <algorithm>
#include <vector>

#include "kernels/core/fp8.hpp"
#include "runtime.hpp"

using shardbench::Bf16;

struct cublasLtContext {};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
};
struct cublasLtMatmulDescOpaque_t {
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void const* bias = nullptr;
  float const *a_scale = nullptr, *b_scale = nullptr;
};
struct cublasLtMatrixLayoutOpaque_t {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0, cols = 0, ld = 0, batch_stride = 0;
  std::int32_t batch = 1;
  std::size_t element_bytes() const { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }
  std::size_t span() const {
    return static_cast<std::size_t>((batch - 1) * batch_stride + (cols - 1) * ld + rows) * element_bytes();
  }
};

namespace {

using LayoutData = cublasLtMatrixLayoutOpaque_t;

bool is_fp8(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

float read(void const* data, cudaDataType_t type, std::int64_t i) {
  if (is_fp8(type))
    return shardbench::fp8_to_float(static_cast<std::uint8_t const*>(data)[i],
                                    type == CUDA_R_8F_E4M3 ? shardbench::Dtype::fp8 : shardbench::Dtype::fp8_e5m2);
  return type == CUDA_R_32F ? static_cast<float const*>(data)[i] : to_float(static_cast<Bf16 const*>(data)[i]);
}

void write(void* data, cudaDataType_t type, std::int64_t i, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<Bf16*>(data)[i] = shardbench::to_bf16(value);
  }
}

/// One batch entry as dense fp32, column-major.
std::vector<float> dense(void const* data, LayoutData const& layout, std::int64_t entry) {
  std::vector<float> out(static_cast<std::size_t>(layout.rows * layout.cols));
  for (std::int64_t c = 0; c < layout.cols; ++c)
    for (std::int64_t r = 0; r < layout.rows; ++r)
      out[static_cast<std::size_t>(c * layout.rows + r)] =
          read(data, layout.type, entry * layout.batch_stride + c * layout.ld + r);
  return out;
}

struct Product {
  cublasLtMatmulDescOpaque_t description;
  LayoutData a_layout, b_layout, d_layout;
  void const *a, *b;
  void* d;
  float alpha, beta;

  std::int64_t depth() const { return description.a == CUBLAS_OP_N ? a_layout.cols : a_layout.rows; }

  void run() const {
    // Scales are device memory: read when the stream gets here.
    float const scale = alpha * (description.a_scale ? *description.a_scale : 1.0f) *
                        (description.b_scale ? *description.b_scale : 1.0f);
    for (std::int64_t entry = 0; entry < d_layout.batch; ++entry) run_entry(entry, scale);
  }

 private:
  void run_entry(std::int64_t entry, float scale) const {
    auto const left = dense(a, a_layout, entry), right = dense(b, b_layout, entry);
    std::vector<float> out(static_cast<std::size_t>(d_layout.rows * d_layout.cols));
    auto const transpose = [](cublasOperation_t op) { return op == CUBLAS_OP_N ? CblasNoTrans : CblasTrans; };
    auto const size = [](std::int64_t n) { return static_cast<int>(n); };
    cblas_sgemm(CblasColMajor, transpose(description.a), transpose(description.b), size(d_layout.rows),
                size(d_layout.cols), size(depth()), scale, left.data(), size(a_layout.rows), right.data(),
                size(b_layout.rows), 0.0f, out.data(), size(d_layout.rows));
    for (std::int64_t c = 0; c < d_layout.cols; ++c)
      for (std::int64_t r = 0; r < d_layout.rows; ++r) {
        std::int64_t const at = entry * d_layout.batch_stride + c * d_layout.ld + r;
        float value = out[static_cast<std::size_t>(c * d_layout.rows + r)];
        if (beta != 0) value += beta * read(d, d_layout.type, at);
        if (description.epilogue == CUBLASLT_EPILOGUE_BIAS) value += read(description.bias, d_layout.type, r);
        write(d, d_layout.type, at, value);
      }
  }
};

/// The rules that cuBLASLt enforces on shapes.
bool is_consistent(Product const& p) {
  auto const rows = [](LayoutData const& l, cublasOperation_t op) { return op == CUBLAS_OP_N ? l.rows : l.cols; };
  auto const cols = [](LayoutData const& l, cublasOperation_t op) { return op == CUBLAS_OP_N ? l.cols : l.rows; };
  auto const sound = [](LayoutData const& l) { return l.rows > 0 && l.cols > 0 && l.ld >= l.rows && l.batch > 0; };
  return sound(p.a_layout) && sound(p.b_layout) && sound(p.d_layout) && p.a_layout.batch == p.d_layout.batch &&
         p.b_layout.batch == p.d_layout.batch && rows(p.a_layout, p.description.a) == p.d_layout.rows &&
         cols(p.b_layout, p.description.b) == p.d_layout.cols &&
         cols(p.a_layout, p.description.a) == rows(p.b_layout, p.description.b);
}

/// The combinations that cuBLASLt's table for CUBLAS_COMPUTE_32F has, of those used here.
bool has_product(cublasLtMatmulDescOpaque_t const& description, LayoutData const& a, LayoutData const& b,
                 LayoutData const& d) {
  if (is_fp8(a.type) || is_fp8(b.type)) {
    bool const sizes = a.rows % 16 == 0 && a.cols % 16 == 0 && b.cols % 16 == 0;
    bool const types = is_fp8(a.type) && is_fp8(b.type) && (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3);
    return sizes && types && !is_fp8(d.type) && description.a == CUBLAS_OP_T && description.b == CUBLAS_OP_N;
  }
  return a.type == b.type && (d.type == CUDA_R_32F || d.type == a.type);
}

}  // namespace

char const* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

std::size_t cublasLtGetVersion() { return 130000; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t, cudaDataType_t) {
  *made = new cublasLtMatmulDescOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, void const* value,
                                              std::size_t) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      description->a = *static_cast<cublasOperation_t const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      description->b = *static_cast<cublasOperation_t const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      description->epilogue = *static_cast<cublasLtEpilogue_t const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      description->a_scale = *static_cast<float const* const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      description->b_scale = *static_cast<float const* const*>(value);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      description->bias = *static_cast<void const* const*>(value);
      break;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  *made = new LayoutData{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(cols), ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void const* value,
                                                std::size_t) {
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) layout->batch = *static_cast<std::int32_t const*>(value);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
    layout->batch_stride = *static_cast<std::int64_t const*>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, void const* value,
                                                    std::size_t) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    preference->workspace_bytes = *static_cast<std::uint64_t const*>(value);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (!has_product(*description, *a, *b, *d)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!is_consistent({*description, *a, *b, *d, nullptr, nullptr, nullptr, 1, 0})) return CUBLAS_STATUS_INVALID_VALUE;
  *results = {};
  // A product is given all of its workspace, so that one too small, or used by two streams at once, is found.
  results->workspaceSize = static_cast<std::size_t>(preference->workspace_bytes);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, void const* alpha, void const* a,
                              cublasLtMatrixLayout_t a_layout, void const* b, cublasLtMatrixLayout_t b_layout,
                              void const* beta, void const* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_layout, cublasLtMatmulAlgo_t const*, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  Product const product{*description,
                        *a_layout,
                        *b_layout,
                        *d_layout,
                        a,
                        b,
                        d,
                        *static_cast<float const*>(alpha),
                        *static_cast<float const*>(beta)};
  if (!is_consistent(product) || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  if (!emulation::in_device_memory(workspace, workspace_bytes)) return CUBLAS_STATUS_INVALID_VALUE;
  if (emulation::fails_now(emulation::Fault::matmul)) return CUBLAS_STATUS_EXECUTION_FAILED;
  std::vector<emulation::Range> touched{{a, a_layout->span(), false},
                                        {b, b_layout->span(), false},
                                        {d, d_layout->span(), true},
                                        {workspace, workspace_bytes, true}};
  for (float const* const scale : {description->a_scale, description->b_scale})
    if (scale) touched.push_back({scale, sizeof(float), false});
  if (description->epilogue == CUBLASLT_EPILOGUE_BIAS)
    touched.push_back({description->bias, static_cast<std::size_t>(d_layout->rows) * d_layout->element_bytes(), false});
  cudaError_t const code = emulation::enqueue(
      stream, [product] { product.run(); }, touched, "product");
  return code == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

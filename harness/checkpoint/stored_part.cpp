#include "harness/checkpoint/stored_part.hpp"

#include <fmt/format.h>

#include "harness/checkpoint/section_key.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {

StoredPart stored_part(ModelConfig const& model, std::string_view key) {
  SectionKey const section(key);
  auto const scheme = model.yolo              ? stored_yolo
                      : model.vision          ? stored_vision
                      : model.family == "gpt" ? stored_gpt
                                              : stored_llama;
  if (auto part = scheme(model, section)) return std::move(*part);
  throw InputError(fmt::format("{} of {} has no name in a checkpoint", key, model.name));
}

}  // namespace shardbench

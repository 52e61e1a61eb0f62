#include <nvtx3/nvToolsExt.h>

#include <string>

#include "harness/record/timeline.hpp"

namespace shardbench {
namespace {

// NVTX category 0 means "none", so a lane's category is its number plus one.
std::uint32_t category_of(Lane lane) { return static_cast<std::uint32_t>(lane) + 1; }

nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t const handle = [] {
    nvtxDomainHandle_t const created = nvtxDomainCreateA("shardbench");
    for (Lane const lane : enum_values<Lane>())
      nvtxDomainNameCategoryA(created, category_of(lane), std::string(to_string(lane)).c_str());
    return created;
  }();
  return handle;
}

}  // namespace

void trace_push(Lane lane, char const* name, double payload) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.category = category_of(lane);
  attributes.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  attributes.payload.dValue = payload;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &attributes);
}

void trace_pop() noexcept { nvtxDomainRangePop(domain()); }

}  // namespace shardbench

#include "harness/planner/network_memo.hpp"

#include <numeric>
#include <vector>

namespace shardbench {

double NetworkMemo::collective_ms(OpKind kind, double bytes, std::int64_t stride, std::int64_t ranks, double parts) {
  constexpr double ms_per_us = 1e-3;
  auto const [at, fresh] = collectives_.try_emplace({kind, bytes, stride, ranks, parts});
  if (!fresh) return at->second;
  std::vector<std::int64_t> members(ranks);
  for (std::int64_t i = 0; i < ranks; ++i) members[i] = i * stride;
  return at->second = ms_per_us * parts * model_.network_time(kind, bytes / parts, members).total_us;
}

double NetworkMemo::message_ms(std::int64_t from, std::int64_t to, std::int64_t tp, double bytes) {
  auto const [at, fresh] = messages_.try_emplace({from, to, tp, bytes});
  if (!fresh) return at->second;
  std::vector<std::int64_t> neighbours(tp);
  std::iota(neighbours.begin(), neighbours.end(), to);
  return at->second = model_.message_ms(from, to, bytes, neighbours);
}

double sent_gradient_bytes(Experiment const& base, SoftwareStack const& stack) {
  return base.gradient_dtype == Dtype::f32 ? stack.gradient_bytes : static_cast<double>(bytes_of(base.gradient_dtype));
}

}  // namespace shardbench

#include "harness/program/passes/shard_actions.hpp"

#include <map>

namespace shardbench {

void gather_and_free(Action const& action, std::int32_t begin, std::int32_t end, std::vector<Action>& out) {
  auto const push = [&](ActionKind kind, std::int32_t unit) {
    out.push_back(action);
    out.back().kind = kind;
    out.back().chunk = unit;
  };
  bool const forward = action.kind == ActionKind::forward,
             reduces = action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight,
             gathers = action.kind != ActionKind::backward_weight;  // weight gradients read no weights
  std::int32_t const count = end - begin;
  auto const unit = [&](std::int32_t i) { return forward ? begin + i : end - 1 - i; };
  if (gathers) push(ActionKind::gather, unit(0));
  for (std::int32_t i = 0; i < count; ++i) {
    if (gathers && i + 1 < count) push(ActionKind::gather, unit(i + 1));
    push(action.kind, unit(i));
    if (reduces) push(ActionKind::reduce, unit(i));
    if (gathers) push(ActionKind::free, unit(i));
  }
}

void keep_whole(std::vector<Action>& actions, ZeroKeep keep) {
  if (keep == ZeroKeep::none) return;
  struct Span {
    std::size_t first = 0, last = 0;
  };
  std::map<std::pair<ActionKind, std::int32_t>, Span> spans;
  for (std::size_t i = 0; i < actions.size(); ++i)
    spans.try_emplace({actions[i].kind, actions[i].chunk}, Span{i, i}).first->second.last = i;
  std::vector<Action> out;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    Span const& span = spans.at({actions[i].kind, actions[i].chunk});
    ActionKind const kind = actions[i].kind;
    bool const drops = (kind == ActionKind::gather && i != span.first) ||
                       (kind == ActionKind::free && i != span.last) ||
                       (kind == ActionKind::reduce && i != span.last && keep == ZeroKeep::all);
    if (!drops) out.push_back(actions[i]);
  }
  actions = std::move(out);
}

void reduce_beside_next_pass(std::vector<Action>& actions, std::vector<bool> const& adds, bool cut_by_pass) {
  std::vector<Action> out, reductions, additions;
  auto const take = [&](std::vector<Action>& from) {
    out.insert(out.end(), from.begin(), from.end());
    from.clear();
  };
  for (Action const& a : actions) {
    auto const add_later = [&](std::int32_t unit, std::int32_t microbatch) {
      if (adds[unit]) additions.push_back({.kind = ActionKind::add, .chunk = unit, .microbatch = microbatch});
    };
    if (a.kind == ActionKind::reduce) {
      reductions.push_back(a);
      add_later(a.chunk, a.microbatch);
      continue;
    }
    bool const weights = a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight,
               pair = a.kind == ActionKind::pair,
               pass = weights || pair || a.kind == ActionKind::forward || a.kind == ActionKind::backward_input;
    if (pass) take(reductions);
    out.push_back(a);
    if (pass) take(additions);
    if (cut_by_pass && weights) add_later(a.chunk, a.microbatch);
    if (cut_by_pass && pair) add_later(a.pair_chunk, a.pair_microbatch);
  }
  take(reductions);
  take(additions);
  actions = std::move(out);
}

}  // namespace shardbench

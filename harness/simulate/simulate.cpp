#include "harness/simulate/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "harness/program/analysis/hazards.hpp"
#include "harness/program/lane.hpp"
#include "harness/simulate/channel.hpp"
#include "kernels/core/error.hpp"

namespace shardbench {
namespace {

/// Streams of collectives; messages have the queues from `pipeline` on.
constexpr std::array collective_streams{StreamId::tp, StreamId::cp, StreamId::dp, StreamId::ep};

Lane lane_of(StepProgram const& p, Op const& op) {
  bool const computes = !op.group.valid() || op.stream == StreamId::compute;
  return computes ? Lane::compute : shardbench::lane_of(p.groups[op.group].axis);
}

/// An op prepared for replay: its durations and the tensor instances it touches.
struct PlayOp {
  struct Touch {
    explicit Touch(MemoryPlan::Place const& place)
        : first_instance(place.first_instance),
          instance_of(place.instance_of.empty() ? nullptr : place.instance_of.data()) {}
    std::int32_t instance(std::int32_t microbatch) const {
      return first_instance + (instance_of ? instance_of[microbatch] : 0);
    }
    std::int32_t first_instance;
    std::int32_t const* instance_of;  ///< [microbatch]; nullptr: always the first
  };
  std::size_t reads = 0, writes = 0, end = 0;  ///< where its reads, its writes and the next op's begin in touches_
  double duration[2] = {0, 0};                 ///< overwriting, adding
  double issue = 0;                            ///< of the host
  DurationModel::LinkUse use;                  ///< of communication
  Op const* op = nullptr;
  StreamId stream = StreamId::compute;
  Lane lane = Lane::compute;
  bool takes_memory = false;  ///< communication into a temporary: waits for all compute issued
};

class StagePlayer {
 public:
  StagePlayer(StepProgram const& program, Replay const& replay, MemoryPlan const& plan, DurationModel const& durations,
              SimulationOptions options)
      : p_(program),
        replay_(replay),
        plan_(plan),
        tracker_(plan_.instance_count),
        options_(options),
        slowdown_(durations.slowdown_beside_communication()),
        stall_(durations.stall_beside_compute()),
        host_awaits_(durations.host_awaits_messages()),
        receives_ahead_(durations.receives_ahead(p_)) {
    ops_.resize(p_.segments.size());
    for (Run const& run : replay_.runs()) {
      if (!run.segment || !ops_[index_of(*run.segment)].empty()) continue;
      std::vector<PlayOp>& ops = ops_[index_of(*run.segment)];
      ops.reserve(run.segment->ops.size());
      for (Op const& op : run.segment->ops) ops.push_back(prepare(op, durations));
    }
    for (Op const& op : replay_.transfers()) transfers_.push_back(prepared(op, durations.transfer_ms(p_, op)));
    if (keeps_spans() && stall_ > 0)
      for (auto& spans : span_of_) spans.resize(history);
    if (options_.record_runs) line_.run_end_ms.reserve(replay_.runs().size());
  }

  StepProgram const& program() const { return p_; }
  std::vector<Op> const& transfers() const { return replay_.transfers(); }
  bool finished() const { return run_ == replay_.runs().size(); }
  EnumArray<StreamId, Channel*>& channels() { return channels_; }

  /// Plays until the end or until compute needs a message that has no partner yet.
  void play() {
    while (!finished()) {
      Run const& run = replay_.runs()[run_];
      if (run.transfer)
        post(transfers_[run.transfer - replay_.transfers().data()], run.microbatch);
      else if (run.segment && !play_segment(run))
        return;
      op_ = 0;
      ++run_;
      if (options_.record_runs) line_.run_end_ms.push_back(*std::ranges::max_element(free_));
    }
  }

  std::string next_action() const {
    if (finished()) return "finished";
    Run const& run = replay_.runs()[run_];
    return fmt::format("{} of chunk {} microbatch {}", to_string(run.kind), run.chunk, run.microbatch);
  }

  StageTimeline result() {
    for (double const t : free_) line_.end_ms = std::max(line_.end_ms, t);
    for (Channel const* const c : channels_)
      if (c && !c->done.empty()) line_.end_ms = std::max(line_.end_ms, c->done.back());
    return std::move(line_);
  }
  std::int64_t events() const { return events_; }

  void record_messages() {
    if (!keeps_spans()) return;
    auto const label = static_cast<std::uint32_t>(p_.labels.size());
    for (auto const& [k, stream, microbatch, posted] : messages_) {
      Channel const& c = *channels_[stream];
      if (stream >= first_receive && c.start[k] > posted)
        line_.waits.push_back({Lane::pp, label, microbatch, posted, c.start[k]});
      line_.spans.push_back({Lane::pp, label, microbatch, c.start[k], c.done[k]});
    }
  }

 private:
  static constexpr std::size_t history = 1024;

  PlayOp prepared(Op const& op, double duration) {
    PlayOp play;
    play.reads = touches_.size();
    std::size_t written = 0;
    play.takes_memory = touches(
        op, plan_, [&](MemoryPlan::Place const& place) { touches_.emplace_back(place); },
        [&](MemoryPlan::Place const& place) { touches_.emplace_back(place), ++written; });
    play.end = touches_.size();
    play.writes = play.end - written;
    play.duration[0] = play.duration[1] = duration;
    play.op = &op;
    play.stream = op.stream;
    play.lane = lane_of(p_, op);
    return play;
  }

  std::ptrdiff_t index_of(Segment const& segment) const { return &segment - p_.segments.data(); }

  PlayOp prepare(Op const& op, DurationModel const& durations) {
    if (op.stream >= StreamId::pipeline) return prepared(op, durations.transfer_ms(p_, op));
    bool const comm = op.stream != StreamId::compute;
    PlayOp play = prepared(op, comm ? durations.collective_ms(p_, op) : durations.compute_ms(p_, op, false));
    if (!comm && (op.accumulate || op.always_accumulate)) play.duration[1] = durations.compute_ms(p_, op, true);
    play.issue = durations.issue_ms(p_, op);
    if (comm) play.use = durations.link_use(p_, op);
    if (play.use.link >= std::ssize(links_)) links_.resize(play.use.link + 1, 0);
    return play;
  }

  /// Registers the op's reads and writes; returns when it may start, or -1 while a message it needs is unmatched.
  double ready_time(PlayOp const& play, std::int32_t microbatch) {
    if (!issued_) {
      tracker_.begin(play.stream);
      for (std::size_t t = play.reads; t < play.writes; ++t) tracker_.read(touches_[t].instance(microbatch));
      for (std::size_t t = play.writes; t < play.end; ++t) tracker_.write(touches_[t].instance(microbatch));
      if (play.takes_memory) tracker_.after_all(StreamId::compute);
      waits_.clear();
      tracker_.finish([&](StreamId s, std::int64_t n) { waits_.push_back({s, n}); });
      issued_ = true;
    }
    double ready = 0;
    for (auto const& [stream, sequence] : waits_) {
      double const t = completion(stream, sequence);
      if (t < 0) return -1;
      ready = std::max(ready, t);
    }
    return ready;
  }

  double completion(StreamId stream, std::int64_t sequence) const {
    if (stream >= StreamId::pipeline) {
      Channel const& c = *channels_[stream];
      return sequence <= std::ssize(c.done) ? c.done[sequence - 1] : -1;
    }
    // Streams run in order: an op too old to remember ended before the oldest one remembered.
    std::int64_t const newest = tracker_.issued(stream);
    return past_[stream][std::max(sequence, newest - std::ssize(past_[stream]) + 1) % history];
  }

  bool play_segment(Run const& run) {
    auto const& ops = ops_[index_of(*run.segment)];
    for (; op_ < ops.size(); ++op_) {
      PlayOp const& play = ops[op_];
      if (!run.runs(*play.op)) continue;
      if (play.stream >= StreamId::pipeline) {  // the token that a decoding pipeline hands back to its first stage
        post(play, run.microbatch);
        continue;
      }
      double const ready = ready_time(play, run.microbatch);
      if (ready < 0) return false;
      StreamId const s = play.stream;
      host_ = std::max(host_, host_awaits_ && awaits_message() ? ready : 0) + play.issue;
      double const start = std::max({free_[s], ready, host_});
      double const end = end_of(play, start, play.duration[run.adds(*play.op) ? 1 : 0]);
      if (s == StreamId::compute) {
        line_.compute_ms += end - start;
        line_.awaited_ms += awaited(start);
        if (stall_ > 0) stall_communication(start, end);
      }
      free_[s] = end;
      std::size_t const at = tracker_.issued(s) % history;
      past_[s][at] = end;
      if (keeps_spans()) {
        if (stall_ > 0) span_of_[s][at] = line_.spans.size();
        keep(play, run.microbatch, start, end);
      }
      issued_ = false;
      ++events_;
    }
    return true;
  }

  bool keeps_spans() const { return options_.record_spans || options_.break_down; }

  void keep(PlayOp const& play, std::int32_t microbatch, double start, double end) {
    std::size_t& last = last_span_[play.lane];
    // Spans that may still be put off stay apart.
    bool const joins = !options_.record_spans && stall_ == 0 && last < line_.spans.size() &&
                       line_.spans[last].lane == play.lane && line_.spans[last].end_ms == start;
    if (joins) {
      line_.spans[last].end_ms = end;
      return;
    }
    last = line_.spans.size();
    line_.spans.push_back({play.lane, static_cast<std::uint32_t>(play.op->label), microbatch, start, end});
  }

  bool awaits_message() const {
    return std::ranges::any_of(waits_, [](auto const& w) { return w.stream >= first_receive; });
  }

  /// What is issued already and under way beside compute from `start` to `end` stands still for a part of that time,
  /// and so does what follows it on its stream.
  void stall_communication(double start, double end) {
    for (StreamId const s : collective_streams) {
      double const lost = stall_ * std::clamp(free_[s] - start, 0.0, end - start);
      if (lost == 0) continue;
      std::size_t const issued = tracker_.issued(s);
      for (std::size_t n = issued; n > 0 && issued - n < history && past_[s][n % history] > start; --n) {
        past_[s][n % history] += lost;
        if (!keeps_spans()) continue;
        Span& span = line_.spans[span_of_[s][n % history]];
        if (span.start_ms >= end) span.start_ms += lost;
        span.end_ms += lost;
      }
      free_[s] += lost;
      for (double& busy_until : links_)
        if (busy_until > start) busy_until += lost;
    }
  }

  /// When an op that starts now is over: compute is slower beside communication; communication shares its links with
  /// what is under way on them, of which the rest is finished first.
  double end_of(PlayOp const& play, double start, double duration) {
    if (play.stream == StreamId::compute) {
      if (slowdown_ == 0) return start + duration;
      double beside = 0;
      for (StreamId const s : collective_streams) beside = std::max(beside, free_[s]);
      return start + duration + slowdown_ * std::clamp(beside - start, 0.0, duration);
    }
    if (play.use.link < 0) return start + duration;
    double& busy_until = links_[play.use.link];
    double const shared = std::clamp(busy_until - start, 0.0, play.use.busy_ms);
    busy_until = std::max(busy_until, start) + play.use.busy_ms;
    return start + duration + shared;
  }

  /// The part of compute's pause before `start` that a pipeline receive caused.
  double awaited(double start) const {
    double message = 0;
    for (auto const& [stream, sequence] : waits_)
      if (stream >= first_receive) message = std::max(message, completion(stream, sequence));
    double const free = free_[StreamId::compute];
    return message == start && start > free ? start - free : 0;
  }

  void post(PlayOp const& play, std::int32_t microbatch) {
    double const ready = std::max(ready_time(play, microbatch), 0.0);
    issued_ = false;
    ++events_;
    bool const receives = play.op->kind == OpKind::receive;
    Channel& channel = *channels_[play.stream];
    // A receive is posted when compute gets to it, or ahead; a send also waits for the compute that makes its data.
    double const now = std::max(ready, receives && !receives_ahead_ ? free_[StreamId::compute] : 0.0);
    std::size_t const index =
        channel.post(receives ? channel.received : channel.sent, now, play.duration[0], keeps_spans());
    if (keeps_spans()) messages_.push_back({index, play.stream, microbatch, now});
  }

  struct Message {
    std::size_t index;
    StreamId stream;
    std::int32_t microbatch;
    double posted;
  };

  StepProgram const& p_;
  Replay const& replay_;
  MemoryPlan const& plan_;
  HazardTracker tracker_;
  SimulationOptions options_;
  std::vector<std::vector<PlayOp>> ops_;  ///< by segment
  std::vector<PlayOp> transfers_;
  std::vector<PlayOp::Touch> touches_;  ///< of all ops, one beside the other
  EnumArray<StreamId, Channel*> channels_{};
  EnumArray<StreamId, double> free_{};
  EnumArray<StreamId, std::array<double, history>> past_;  ///< ends of the last ops of those that are no messages
  std::vector<HazardTracker::Wait> waits_;
  std::vector<Message> messages_;
  EnumArray<Lane, std::size_t> last_span_{};  ///< of each lane
  StageTimeline line_;
  EnumArray<StreamId, std::vector<std::size_t>> span_of_;  ///< as past_
  double slowdown_ = 0, stall_ = 0, host_ = 0;
  bool host_awaits_ = false, receives_ahead_ = false;
  std::vector<double> links_;  ///< until when each is full
  std::size_t run_ = 0, op_ = 0;
  std::int64_t events_ = 0;
  bool issued_ = false;
};

/// Ties each stage's queues to the channel that its peer uses for the same kind of message.
void connect(std::vector<StagePlayer>& stages, std::map<std::tuple<int, int, int>, Channel>& channels) {
  for (std::size_t i = 0; i < stages.size(); ++i) {
    StepProgram const& p = stages[i].program();
    auto const tie = [&](Op const& op) {
      int const self = static_cast<int>(i);
      bool const sends = op.kind == OpKind::send;
      stages[i].channels()[op.stream] =
          &channels[{sends ? self : op.peer, sends ? op.peer : self, message_kind(op.stream)}];
    };
    for (Op const& op : stages[i].transfers()) tie(op);
    for (Segment const& s : p.segments)
      for (Op const& op : s.ops)
        if (op.stream >= StreamId::pipeline) tie(op);
  }
}

SimulationResult play(std::vector<StagePlayer> stages, SimulationOptions options) {
  std::map<std::tuple<int, int, int>, Channel> channels;
  connect(stages, channels);
  for (;;) {
    bool moved = false, all = true;
    for (StagePlayer& stage : stages) {
      if (stage.finished()) continue;
      std::int64_t const before = stage.events();
      stage.play();
      moved = moved || stage.events() != before || stage.finished();
      all = all && stage.finished();
    }
    if (all) break;
    if (moved) continue;
    std::string where;
    for (std::size_t i = 0; i < stages.size(); ++i)
      where += fmt::format("{}stage {}: {}", i ? "; " : "", i, stages[i].next_action());
    throw Error(fmt::format("the schedule deadlocks ({})", where));
  }
  for (auto const& [key, c] : channels) {
    if (c.sent == c.received) continue;
    throw Error(fmt::format("the schedule leaves messages unmatched: stage {} sends {}, stage {} receives {}",
                            std::get<0>(key), c.sent, std::get<1>(key), c.received));
  }
  SimulationResult result;
  for (StagePlayer& stage : stages) {
    stage.record_messages();
    result.op_events += stage.events();
    result.stages.push_back(stage.result());
    result.step_ms = std::max(result.step_ms, result.stages.back().end_ms);
  }
  for (StageTimeline& line : result.stages) {
    if (options.record_spans || options.break_down)
      line.breakdown = break_down(line.spans, line.waits, 0, result.step_ms);
    // An empty list would keep the room.
    if (!options.record_spans) line.spans = std::vector<Span>(), line.waits = std::vector<Span>();
  }
  return result;
}

}  // namespace

SimulationResult simulate(std::vector<LoweredStage> const& lowered, DurationModel const& durations,
                          SimulationOptions options) {
  std::vector<StagePlayer> stages;
  stages.reserve(lowered.size());
  for (LoweredStage const& stage : lowered)
    stages.emplace_back(stage.program(), stage.replay(), stage.instances(), durations, options);
  return play(std::move(stages), options);
}

SimulationResult simulate(std::vector<StepProgram> const& programs, DurationModel const& durations,
                          SimulationOptions options) {
  std::vector<Replay> replays;
  std::vector<MemoryPlan> plans;
  std::vector<StagePlayer> stages;
  replays.reserve(programs.size()), plans.reserve(programs.size()), stages.reserve(programs.size());
  for (StepProgram const& program : programs) {
    replays.emplace_back(program);
    plans.push_back(plan_instances(program, replays.back()));
    stages.emplace_back(program, replays.back(), plans.back(), durations, options);
  }
  return play(std::move(stages), options);
}

}  // namespace shardbench

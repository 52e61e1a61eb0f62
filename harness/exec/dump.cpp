#include "harness/exec/dump.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include "harness/checkpoint/stored_part.hpp"
#include "harness/exec/parameter_parts.hpp"
#include "harness/exec/parameter_values.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/stream_host.hpp"

namespace shardbench {
namespace {

constexpr float missing = -std::numeric_limits<float>::infinity();

/// A file that rank 0 writes of what the ranks hold together.
class GatheredFile {
 public:
  GatheredFile(Communicator& world, std::filesystem::path const& path,
               std::vector<SafetensorsWriter::Announced> const& tensors)
      : world_(world) {
    if (world.rank() == 0) writer_.emplace(path, tensors);
  }
  /// Elements that a rank does not hold are `missing`; copies are the same on all that hold one.
  void write(std::vector<float>& values, std::string const& what) {
    world_.all_reduce({values.data(), values.size(), Dtype::f32}, ReduceOp::max, stream_);
    VALIDATE(std::ranges::find(values, missing) == values.end(), what + ": an element that no rank holds");
    if (writer_) writer_->write(values);
  }
  void finish() {
    if (writer_) writer_->finish();
  }

 private:
  Communicator& world_;
  InlineStream stream_;
  std::optional<SafetensorsWriter> writer_;
};

/// The tensors of a model's checkpoint, and which sections of the program make each.
struct CheckpointTensors {
  struct Piece {
    std::string key;
    StoredPart part;
  };
  std::vector<SafetensorsWriter::Announced> announced;
  std::vector<std::vector<Piece>> pieces;

  CheckpointTensors(ModelConfig const& model, StepProgram const& unsharded) {
    for (Parameter const& p : unsharded.parameters)
      for (ParameterSection const& s : p.sections) add({s.key, stored_part(model, s.key)});
  }

 private:
  void add(Piece piece) {
    auto const same = [&](SafetensorsWriter::Announced const& t) { return t.name == piece.part.name; };
    auto const found = std::ranges::find_if(announced, same);
    std::size_t const index = found - announced.begin();
    if (found == announced.end()) {
      announced.push_back({piece.part.name, piece.part.shape});
      pieces.emplace_back();
    }
    pieces[index].push_back(std::move(piece));
  }
};

void write_parameters(Runner& runner, Communicator& world, CheckpointTensors const& tensors, ParameterPart part,
                      std::filesystem::path const& path) {
  StepProgram const& program = runner.program();
  auto const mine = sections_of(program);
  std::vector<std::vector<float>> const values = read_parameters(runner, part);
  GatheredFile file(world, path, tensors.announced);
  for (std::size_t i = 0; i < tensors.pieces.size(); ++i) {
    std::size_t elements = 1;
    for (std::int64_t const size : tensors.announced[i].shape) elements *= static_cast<std::size_t>(size);
    std::vector<float> whole(elements, missing);
    for (auto const& [key, stored] : tensors.pieces[i]) {
      auto const found = mine.find(key);
      if (found == mine.end()) continue;
      for (SectionPlace const& place : found->second) {
        Parameter const& p = program.parameters[place.parameter];
        ParameterSection const& s = *place.section;
        std::int64_t const rows = std::min(s.rows, s.global_rows - s.row_begin);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < p.cols; ++c)
            if (std::int64_t const at = (place.row_offset + r) * p.cols + c; holds(program, p, at, part))
              whole[stored.rows[s.row_begin + r] + stored.cols[p.col_begin + c]] = values[place.parameter][at];
      }
    }
    file.write(whole, tensors.announced[i].name);
  }
  file.finish();
}

/// Rows of (position, sample) that a rank holds some columns of, of all its microbatches.
struct LocalRows {
  std::int64_t columns = 0, first_column = 0;
  std::vector<std::int32_t> positions;
  std::vector<std::vector<float>> of_microbatch;
};

/// [samples, positions, width] from what each rank holds, sample by sample.
class OutputFile {
 public:
  OutputFile(Runner& runner, Communicator& world, std::filesystem::path const& path,
             std::vector<SafetensorsWriter::Announced> const& tensors)
      : program_(runner.program()), file_(world, path, tensors) {}

  void write(SafetensorsWriter::Announced const& tensor, LocalRows const& local) {
    std::int64_t const positions = tensor.shape[1], width = tensor.shape[2];
    for (std::int64_t sample = 0; sample < tensor.shape[0]; ++sample) {
      std::vector<float> whole(positions * width, missing);
      std::int64_t const mine = sample - program_.first_sample, batch = program_.micro_batch;
      if (mine >= 0 && mine < batch * program_.microbatches && !local.of_microbatch.empty())
        place(local, local.of_microbatch[mine / batch], mine % batch, width, whole);
      file_.write(whole, tensor.name);
    }
  }
  void finish() { file_.finish(); }

 private:
  void place(LocalRows const& local, std::vector<float> const& values, std::int64_t sample, std::int64_t width,
             std::vector<float>& whole) const {
    if (values.empty()) return;
    std::int64_t const columns = std::min(local.columns, width - local.first_column);
    for (std::size_t row = 0; row < local.positions.size(); ++row)
      for (std::int64_t c = 0; c < columns; ++c)
        whole[local.positions[row] * width + local.first_column + c] =
            values[(static_cast<std::int64_t>(row) * program_.micro_batch + sample) * local.columns + c];
  }

  StepProgram const& program_;
  GatheredFile file_;
};

/// What a model gives out: logits are capped where it caps them (Gemma 2).
void cap(std::vector<float>& values, float limit) {
  if (limit <= 0) return;
  for (float& value : values) value = limit * std::tanh(value / limit);
}

/// Keeps the logits of a training step as the loss is given them; the backward pass overwrites them.
LocalRows watch_logits(Runner& runner, ModelConfig const& model) {
  StepProgram const& p = runner.program();
  LocalRows logits;
  logits.of_microbatch.resize(p.microbatches);
  logits.positions = model.vision ? std::vector<std::int32_t>{0} : positions_of(p);
  runner.set_watch([&](Op const& op, std::int32_t microbatch) {
    if (op.kind != OpKind::cross_entropy_max || op.inputs[1].id != p.inputs.targets) return;
    auto const& shape = std::get<CrossEntropyOpShape>(op.shape);
    std::vector<float> const tensor = runner.peek(op.inputs[0].id, microbatch);
    auto const first = tensor.begin() + op.inputs[0].offset;
    logits.columns = shape.columns, logits.first_column = shape.first_column;
    std::vector<float> piece(first, first + shape.tokens * shape.columns);
    cap(piece, shape.softcap);
    // The tokens may come in pieces, each at the place of its targets.
    std::vector<float>& all = logits.of_microbatch[microbatch];
    all.resize(std::ssize(logits.positions) * p.micro_batch * shape.columns);
    std::ranges::copy(piece, all.begin() + op.inputs[1].offset * shape.columns);
  });
  runner.run_gradients();
  runner.synchronize();
  runner.set_watch(nullptr);
  return logits;
}

void write_logits(Runner& runner, Experiment const& e, Communicator& world, std::filesystem::path const& path) {
  LocalRows const logits = watch_logits(runner, e.model);
  std::int64_t const positions = e.model.vision ? 1 : e.seq;
  SafetensorsWriter::Announced const tensor{"logits", {e.global_batch, positions, e.model.outputs()}};
  OutputFile file(runner, world, path, {tensor});
  file.write(tensor, logits);
  file.finish();
}

/// A detector's outputs, before the drawn gradients take their place.
void write_detections(Runner& runner, Experiment const& e, Communicator& world, std::filesystem::path const& path) {
  StepProgram const& p = runner.program();
  std::vector<DrawnBuffer> ends;
  for (DrawnBuffer const& drawn : p.inputs.drawn)
    if (drawn.gradient_of.valid()) ends.push_back(drawn);
  std::vector<LocalRows> values(ends.size());
  std::vector<SafetensorsWriter::Announced> tensors;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Tensor const& t = p.tensors[ends[i].id];
    std::int64_t const cells = t.rows / p.micro_batch;
    values[i].columns = t.cols;
    for (std::int32_t cell = 0; cell < cells; ++cell) values[i].positions.push_back(cell);
    values[i].of_microbatch.resize(p.microbatches);
    tensors.push_back({ends[i].key, {e.global_batch, cells, t.cols}});
  }
  runner.set_watch([&](Op const& op, std::int32_t microbatch) {
    for (std::size_t i = 0; i < ends.size() && !op.outputs.empty(); ++i)
      if (op.outputs[0].id == ends[i].gradient_of)
        values[i].of_microbatch[microbatch] = runner.peek(op.outputs[0].id, microbatch);
  });
  runner.run_gradients();
  runner.synchronize();
  runner.set_watch(nullptr);
  OutputFile file(runner, world, path, tensors);
  for (std::size_t i = 0; i < ends.size(); ++i) file.write(tensors[i], values[i]);
  file.finish();
}

/// The positions of a prompt one after the other, as far as the cache goes; the last one's logits are kept.
void run_inference(Runner& runner, Experiment const& e) {
  std::int64_t const last = e.phase == PhaseKind::decode ? runner.program().inference.context : 0;
  for (std::int64_t position = 0; position <= last; ++position) {
    runner.set_position(position);
    runner.set_prompt(e.seed);
    runner.run_gradients();
    runner.synchronize();
  }
}

void write_next_tokens(std::vector<float> const& logits, std::int64_t vocab, std::filesystem::path const& path) {
  std::vector<std::string> rows;
  for (auto row = logits.begin(); row != logits.end(); row += vocab)
    rows.push_back(fmt::format("[{}]", std::max_element(row, row + vocab) - row));
  std::ofstream file(path);
  file << fmt::format("[{}]\n", fmt::join(rows, ", "));
  if (!file.flush()) throw InputError(fmt::format("{}: cannot be written", path.string()));
}

void write_last_logits(Runner& runner, Experiment const& e, Communicator& world, std::filesystem::path const& folder) {
  StepProgram const& p = runner.program();
  InferencePart const& part = p.inference;
  bool const head = std::ranges::any_of(p.chunks, &Chunk::has_head) && part.logits != no_tensor;
  std::int64_t const vocab = e.model.vocab, batch = p.micro_batch;
  SafetensorsWriter::Announced const tensor{"logits", {e.global_batch, vocab}};
  GatheredFile file(world, folder / "logits.safetensors", {tensor});
  std::vector<float> whole(e.global_batch * vocab, missing);
  for (std::int32_t m = 0; head && m < p.microbatches; ++m) {
    std::vector<float> values = runner.read(part.logits, m);
    cap(values, e.model.logit_softcap);
    std::int64_t const columns = std::ssize(values) / batch;
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t c = 0; c < columns && part.first_logit + c < vocab; ++c)
        whole[(p.first_sample + m * batch + b) * vocab + part.first_logit + c] = values[b * columns + c];
  }
  file.write(whole, "logits");
  file.finish();
  if (world.rank() == 0) write_next_tokens(whole, vocab, folder / "next_tokens.json");
}

}  // namespace

std::string dump_problem(Experiment const& e) {
  if (e.cut.tp_sync_fraction < 1) return "tp-sync-fraction below 1, whose model has no checkpoint; legal with 1";
  if (e.scope == Scope::layer) return "scope layer, which is no whole model; legal with scope model";
  return {};
}

void dump_step(Runner& runner, Experiment const& e, Communicator& world, StepProgram const& unsharded,
               std::filesystem::path const& folder) {
  CheckpointTensors const tensors(e.model, unsharded);
  if (world.rank() == 0) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw InputError(fmt::format("--dump: {}: cannot be made ({})", folder.string(), error.message()));
  }
  runner.initialize(e.seed);
  auto const write = [&](ParameterPart part, char const* name) {
    write_parameters(runner, world, tensors, part, folder / name);
  };
  write(ParameterPart::weight, "weights.safetensors");
  if (e.phase != PhaseKind::train) {
    run_inference(runner, e);
    return write_last_logits(runner, e, world, folder);
  }
  if (e.model.yolo)
    write_detections(runner, e, world, folder / "outputs.safetensors");
  else
    write_logits(runner, e, world, folder / "logits.safetensors");
  write(ParameterPart::gradient, "gradients.safetensors");
  runner.run_optimizer(1);
  runner.synchronize();
  write(ParameterPart::weight, "updated_weights.safetensors");
}

}  // namespace shardbench

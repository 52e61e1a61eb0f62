#include "harness/exec/agreement.hpp"

#include <cmath>

namespace shardbench {
namespace {

constexpr std::size_t longest_text = 400;

}  // namespace

double Agreement::reduce(double value, ReduceOp op) {
  ranks_.all_reduce({&value, 1, Dtype::f64}, op, stream_);
  return value;
}

double Agreement::from_first(double value) {
  ranks_.broadcast({&value, 1, Dtype::f64}, 0, stream_);
  return value;
}

std::string Agreement::from_first(std::string const& text) {
  std::string common = text;
  common.resize(static_cast<std::size_t>(from_first(static_cast<double>(text.size()))));
  if (!common.empty()) ranks_.broadcast({common.data(), common.size(), Dtype::u8}, 0, stream_);
  return common;
}

std::string Agreement::first_text(std::string text) {
  double const speaker = maximum(text.empty() ? -HUGE_VAL : -static_cast<double>(ranks_.rank()));
  if (speaker == -HUGE_VAL) return {};
  text.resize(longest_text, ' ');
  ranks_.broadcast({text.data(), text.size(), Dtype::u8}, static_cast<int>(-speaker), stream_);
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::vector<std::string> Agreement::gather(std::string text) {
  auto const width = static_cast<std::size_t>(maximum(static_cast<double>(text.size()))) + 1;
  text.resize(width, '\0');
  std::string all(width * ranks_.size(), '\0');
  ranks_.all_gather({text.data(), width, Dtype::u8}, {all.data(), all.size(), Dtype::u8}, stream_);
  std::vector<std::string> texts;
  for (int r = 0; r < ranks_.size(); ++r) texts.emplace_back(all.c_str() + r * width);
  return texts;
}

}  // namespace shardbench

#include "harness/checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "harness/config/field_text.hpp"
#include "harness/config/json_fields.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/error.hpp"
#include "kernels/core/index.hpp"

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian, and read as they lie");

namespace shardbench {
namespace {

constexpr std::size_t most_dims = 8;
constexpr std::int64_t most_elements = std::int64_t{1} << 48;
constexpr std::uint64_t length_bytes = 8;

constexpr EnumNames<StoredDtype> dtype_names{"F64", "F32", "F16", "BF16", "I64", "I32"};

[[noreturn]] void refuse(std::string_view file, std::string_view tensor, std::string const& problem) {
  throw InputError(fmt::format("{}: tensor {}: {}", file, in_quotes(tensor), problem));
}

StoredDtype dtype_of(std::string_view file, std::string_view tensor, std::string const& text) {
  for (StoredDtype const dtype : enum_values<StoredDtype>())
    if (dtype_names[dtype] == text) return dtype;
  refuse(file, tensor, fmt::format("dtype {} is not one of F64, F32, F16, BF16, I64, I32", in_quotes(text)));
}

/// A tensor's entry; `data_bytes` are behind the header.
StoredTensor read_entry(std::string_view file, std::string_view name, JsonValue const& entry,
                        std::uint64_t data_bytes) {
  if (entry.kind != JsonValue::Kind::object) refuse(file, name, "no object with dtype, shape and data_offsets");
  JsonFields const fields(entry, std::string(file), printable(name) + ".");
  StoredTensor tensor{std::string(name), dtype_of(file, name, fields.text_or("dtype", "")), {}};
  JsonValue const* const shape = entry.find("shape");
  if (shape == nullptr || shape->kind != JsonValue::Kind::list) refuse(file, name, "shape: missing (a list of sizes)");
  tensor.shape = fields.counts("shape", most_elements);
  if (tensor.shape.size() > most_dims)
    refuse(file, name, fmt::format("{} dims; at most {} are read", tensor.shape.size(), most_dims));
  double elements = 1;
  for (std::int64_t const size : tensor.shape)
    if (elements *= static_cast<double>(size); elements > static_cast<double>(most_elements))
      refuse(file, name, fmt::format("shape {} has more than 2^48 elements", shape_text(tensor.shape)));
  std::vector<std::int64_t> const offsets = fields.counts("data_offsets", std::int64_t{1} << 62);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    refuse(file, name, "data_offsets: not two numbers, begin and end");
  tensor.begin = static_cast<std::uint64_t>(offsets[0]), tensor.end = static_cast<std::uint64_t>(offsets[1]);
  if (tensor.end > data_bytes)
    refuse(file, name,
           fmt::format("truncated: its data ends at byte {} of the data, {} are there", tensor.end, data_bytes));
  std::uint64_t const wanted = static_cast<std::uint64_t>(tensor.elements()) * bytes_of(tensor.dtype);
  if (tensor.end - tensor.begin != wanted)
    refuse(file, name,
           fmt::format("{} bytes of data, shape {} of {} takes {}", tensor.end - tensor.begin, shape_text(tensor.shape),
                       to_string(tensor.dtype), wanted));
  return tensor;
}

/// IEEE half precision: 1 sign, 5 exponent, 10 fraction bits.
float half_to_float(std::uint16_t bits) {
  int const exponent = bits >> 10 & 31, fraction = bits & 1023;
  float const sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return fraction ? NAN : sign * HUGE_VALF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

template <class T, class Convert>
void convert(std::span<char const> raw, std::vector<float>& out, Convert to) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    out[i] = to(value);
  }
}

std::vector<float> to_floats(StoredDtype dtype, std::span<char const> raw) {
  std::vector<float> values(raw.size() / bytes_of(dtype));
  auto const cast = [](auto value) { return static_cast<float>(value); };
  switch (dtype) {
    case StoredDtype::f64:
      convert<double>(raw, values, cast);
      break;
    case StoredDtype::f32:
      convert<float>(raw, values, cast);
      break;
    case StoredDtype::f16:
      convert<std::uint16_t>(raw, values, half_to_float);
      break;
    case StoredDtype::bf16:
      convert<std::uint16_t>(
          raw, values, [](std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); });
      break;
    case StoredDtype::i64:
      convert<std::int64_t>(raw, values, cast);
      break;
    case StoredDtype::i32:
      convert<std::int32_t>(raw, values, cast);
      break;
    case StoredDtype::size_:
      break;
  }
  return values;
}

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

std::string_view to_string(StoredDtype dtype) { return dtype_names[dtype]; }

std::size_t bytes_of(StoredDtype dtype) {
  switch (dtype) {
    case StoredDtype::f64:
    case StoredDtype::i64:
      return 8;
    case StoredDtype::f32:
    case StoredDtype::i32:
      return 4;
    default:
      return 2;
  }
}

std::int64_t StoredTensor::elements() const {
  std::int64_t count = 1;
  for (std::int64_t const size : shape) count *= size;
  return count;
}

std::string shape_text(std::span<std::int64_t const> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

SafetensorsHeader parse_safetensors_header(std::string_view head, std::uint64_t file_bytes, std::string_view name) {
  std::string const file(name);
  if (head.size() < length_bytes || file_bytes < length_bytes)
    throw InputError(fmt::format(
        "{}: truncated: {} bytes, a safetensors file begins with 8 that say its header's length", file, file_bytes));
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), length_bytes);
  if (length > longest_header)
    throw InputError(fmt::format("{}: a header of {} bytes; at most {} are read (is this a safetensors file?)", file,
                                 length, longest_header));
  if (length > file_bytes - length_bytes || length > head.size() - length_bytes)
    throw InputError(
        fmt::format("{}: truncated: a header of {} bytes, {} are there", file, length, file_bytes - length_bytes));
  JsonValue const root = parse_json(head.substr(length_bytes, length), file);
  if (root.kind != JsonValue::Kind::object) throw InputError(fmt::format("{}: its header is no JSON object", file));
  SafetensorsHeader header;
  header.data_begin = length_bytes + length;
  for (auto const& [key, entry] : root.members)
    if (key != "__metadata__") header.tensors.push_back(read_entry(name, key, entry, file_bytes - header.data_begin));
  std::ranges::sort(header.tensors, {}, [](StoredTensor const& t) { return std::pair(t.begin, t.end); });
  std::uint64_t at = 0;
  for (StoredTensor const& tensor : header.tensors) {
    if (tensor.begin != at)
      refuse(name, tensor.name,
             fmt::format("its data begins at byte {}, {} is where the one before ends", tensor.begin, at));
    at = tensor.end;
  }
  return header;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path const& path, std::string name)
    : name_(std::move(name)), file_(path, std::ios::binary) {
  std::error_code error;
  std::uint64_t const bytes = std::filesystem::file_size(path, error);
  if (!file_ || error) throw InputError(fmt::format("{}: cannot be read", name_));
  std::string head(std::min(bytes, length_bytes), '\0');
  file_.read(head.data(), std::ssize(head));
  std::uint64_t length = 0;
  if (head.size() == length_bytes) std::memcpy(&length, head.data(), length_bytes);
  if (length <= longest_header && length <= bytes - head.size()) {
    head.resize(length_bytes + length);
    file_.read(head.data() + length_bytes, static_cast<std::streamsize>(length));
  }
  header_ = parse_safetensors_header(head, bytes, name_);
}

StoredTensor const* SafetensorsFile::find(std::string_view name) const {
  auto const found = std::ranges::find(header_.tensors, name, &StoredTensor::name);
  return found == header_.tensors.end() ? nullptr : &*found;
}

std::vector<float> SafetensorsFile::read(StoredTensor const& tensor) {
  std::vector<char> raw(tensor.end - tensor.begin);
  file_.clear();
  file_.seekg(static_cast<std::streamoff>(header_.data_begin + tensor.begin));
  file_.read(raw.data(), std::ssize(raw));
  if (file_.gcount() != std::ssize(raw)) refuse(name_, tensor.name, "its data cannot be read");
  return to_floats(tensor.dtype, raw);
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<Announced> const& tensors)
    : path_(std::move(path)), file_(path_, std::ios::binary) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t at = 0;
  for (Announced const& tensor : tensors) {
    std::size_t elements = 1;
    for (std::int64_t const size : tensor.shape) elements *= static_cast<std::size_t>(size);
    header += fmt::format(R"(,{}:{{"dtype":"F32","shape":{},"data_offsets":[{},{}]}})", json_text(tensor.name),
                          shape_text(tensor.shape), at, at + elements * sizeof(float));
    at += elements * sizeof(float);
    left_ += elements;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
  std::uint64_t const length = header.size();
  file_.write(reinterpret_cast<char const*>(&length), sizeof(length));
  file_.write(header.data(), std::ssize(header));
  if (!file_) throw InputError(fmt::format("{}: cannot be written", path_.string()));
}

void SafetensorsWriter::write(std::span<float const> values) {
  VALIDATE(values.size() <= left_, fmt::format("{}: more elements than announced", path_.string()));
  left_ -= values.size();
  file_.write(reinterpret_cast<char const*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
}

void SafetensorsWriter::finish() {
  VALIDATE(left_ == 0, fmt::format("{}: {} elements are missing", path_.string(), left_));
  file_.close();
  if (!file_) throw InputError(fmt::format("{}: cannot be written (is the disk full?)", path_.string()));
}

}  // namespace shardbench

#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardbench {

/// Element types of a safetensors file that are read: as they are stored, least significant byte first.
enum class StoredDtype : std::uint8_t { f64, f32, f16, bf16, i64, i32, size_ };
std::string_view to_string(StoredDtype dtype);
std::size_t bytes_of(StoredDtype dtype);

/// One tensor of a file: its bytes lie in [begin, end) behind the header.
struct StoredTensor {
  std::string name;
  StoredDtype dtype = StoredDtype::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;
  std::int64_t elements() const;
};

/// Longest header that is read. Hugging Face's own reader takes 100 MB; that of a 671e9-parameter checkpoint's shard has
/// 0.2 MB.
inline constexpr std::uint64_t longest_header = std::uint64_t{16} << 20;

/// The header of a safetensors file: 8 bytes that say its length, then JSON of name -> dtype, shape, data_offsets, and
/// the data behind it (https://huggingface.co/docs/safetensors).
struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  ///< in the order of their data
  std::uint64_t data_begin = 0;       ///< bytes before the data
};

/// Reads the header in `head`, the file's first bytes, of a file of `file_bytes`. Throws InputError naming the file and
/// the tensor for anything that is not such a file: truncated, tensors that overlap or leave holes, sizes that do not
/// fit the shape, dtypes that are not read.
SafetensorsHeader parse_safetensors_header(std::string_view head, std::uint64_t file_bytes, std::string_view name);

/// "[3, 4]"
std::string shape_text(std::span<std::int64_t const> shape);

/// An open safetensors file, which errors call `name`.
class SafetensorsFile {
 public:
  SafetensorsFile(std::filesystem::path const& path, std::string name);
  std::vector<StoredTensor> const& tensors() const { return header_.tensors; }
  /// nullptr when the file has none of that name.
  StoredTensor const* find(std::string_view name) const;
  /// All elements as float; integers and f64 are rounded.
  std::vector<float> read(StoredTensor const& tensor);

 private:
  std::string name_;
  std::ifstream file_;
  SafetensorsHeader header_;
};

/// Writes float tensors to a safetensors file, one after the other; all are announced first.
class SafetensorsWriter {
 public:
  struct Announced {
    std::string name;
    std::vector<std::int64_t> shape;
  };
  /// Throws InputError when the file cannot be written.
  SafetensorsWriter(std::filesystem::path path, std::vector<Announced> const& tensors);
  /// The next elements, of the tensors in the order announced.
  void write(std::span<float const> values);
  /// After the last one.
  void finish();

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  std::size_t left_ = 0;  ///< elements that were announced and not written
};

}  // namespace shardbench

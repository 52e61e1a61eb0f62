#include "harness/checkpoint/safetensors.hpp"
#include "harness/checkpoint/token_file.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace shardbench;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::try_read(data, size, [&](std::string_view text) {
    SafetensorsHeader const header = parse_safetensors_header(text, size, "fuzz");
    std::uint64_t at = 0;
    for (StoredTensor const& tensor : header.tensors) {
      fuzz::require(tensor.begin == at, "tensors lie one behind the other");
      fuzz::require(tensor.end <= size - header.data_begin, "data lie within the file");
      fuzz::require(tensor.end - tensor.begin == static_cast<std::uint64_t>(tensor.elements()) * bytes_of(tensor.dtype),
                    "data are as large as the shape");
      at = tensor.end;
    }
  });
  for (char const* const name : {"fuzz.json", "fuzz.npy", "fuzz.txt"})
    fuzz::try_read(data, size, [&](std::string_view text) {
      TokenTable const table = parse_token_table(text, name, 1000);
      fuzz::require(std::ssize(table.ids) == table.samples * table.length, "rows have one length");
      for (std::int32_t const id : table.ids) fuzz::require(id >= 0 && id < 1000, "ids are in the vocabulary");
    });
  return 0;
}

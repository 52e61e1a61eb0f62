#include "tests/kernels/compare.hpp"

namespace shardbench::test {
namespace {

TEST(Add, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes) {
    for (std::int64_t const count : {1, 31, 1000}) {
      Tensor const a = Tensor::random(dtype, count, 1), b = Tensor::random(dtype, count, 2);
      Tensor actual(dtype, count), expected(dtype, count);
      run(host_kernels().add, AddArgs{a.data(), b.data(), actual.data(), count, 0.7f, dtype});
      run(reference_kernels().add, AddArgs{a.data(), b.data(), expected.data(), count, 0.7f, dtype});
      EXPECT_TRUE(close(actual, expected, tolerance(dtype)));
      Tensor in_place = a;
      run(host_kernels().add, AddArgs{in_place.data(), b.data(), in_place.data(), count, 0.7f, dtype});
      for (std::int64_t i = 0; i < count; ++i) EXPECT_EQ(in_place.at(i), actual.at(i));
    }
  }
}

TEST(ColumnSum, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes) {
    for (std::int64_t const rows : {1, 63, 65, 500}) {
      for (std::int64_t const cols : {1, 17, 130}) {
        for (bool const accumulate : {false, true}) {
          Tensor const x = Tensor::random(dtype, rows * cols, 1);
          Tensor actual = accumulate ? Tensor::random(Dtype::f32, cols, 2) : Tensor(Dtype::f32, cols);
          Tensor expected = actual;
          run(host_kernels().column_sum, ColumnSumArgs{x.data(), actual.floats(), rows, cols, accumulate, dtype});
          run(reference_kernels().column_sum,
              ColumnSumArgs{x.data(), expected.floats(), rows, cols, accumulate, dtype});
          EXPECT_TRUE(close(actual, expected, tolerance(Dtype::f32, rows)));
        }
      }
    }
  }
}

TEST(ColumnSum, NoRowsGiveZeros) {
  Tensor sums(Dtype::f32, 3);
  run(host_kernels().column_sum, ColumnSumArgs{nullptr, sums.floats(), 0, 3, false, Dtype::f32});
  for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(sums.at(i), 0);
}

TEST(CopyBlock, HostEqualsReferenceAndLeavesTheGaps) {
  for (Dtype const from_dtype : storage_dtypes) {
    for (Dtype const to_dtype : storage_dtypes) {
      for (std::int64_t const gap : {0, 4}) {
        Tensor const from = Tensor::random(from_dtype, 5 * 20, 1);
        Tensor actual(to_dtype, 5 * (13 + gap)), expected = actual;
        CopyBlockArgs args{from.data(), actual.data(), 5, 13, 20, 13 + gap, from_dtype, to_dtype};
        run(host_kernels().copy_block, args);
        args.to = expected.data();
        run(reference_kernels().copy_block, args);
        EXPECT_TRUE(close(actual, expected, 0, 5 * gap));
      }
    }
  }
}

TEST(CopyBlock, Scales) {
  for (Dtype const from_dtype : storage_dtypes)
    for (Dtype const to_dtype : storage_dtypes)
      for (std::int64_t const cols : {13, 16}) {
        Tensor const from = Tensor::random(from_dtype, 5 * 20, 1);
        Tensor actual(to_dtype, 5 * cols), expected = actual;
        CopyBlockArgs args{from.data(), actual.data(), 5, cols, 20, cols, from_dtype, to_dtype, 1.5f};
        run(host_kernels().copy_block, args);
        args.to = expected.data();
        run(reference_kernels().copy_block, args);
        EXPECT_TRUE(close(actual, expected, tolerance(to_dtype)));
      }
}

TEST(CopyBlock, MovesIntegersAndRefusesToConvertThem) {
  std::vector<std::int32_t> const from{1, 2, 3, 4};
  std::vector<std::int32_t> to(4);
  run(host_kernels().copy_block, CopyBlockArgs{from.data(), to.data(), 2, 2, 2, 2, Dtype::i32, Dtype::i32});
  EXPECT_EQ(to[3], 4);
  EXPECT_THROW(
      run(host_kernels().copy_block, CopyBlockArgs{from.data(), to.data(), 2, 2, 2, 2, Dtype::i32, Dtype::f32}), Error);
}

TEST(SquareSum, HostEqualsReference) {
  for (Dtype const dtype : storage_dtypes) {
    for (std::int64_t const count : {1, 4095, 10001}) {
      for (bool const accumulate : {false, true}) {
        Tensor const x = Tensor::random(dtype, count, 1);
        Tensor actual(Dtype::f32, 1);
        if (accumulate) actual.set(0, 3);
        Tensor expected = actual;
        run(host_kernels().square_sum, SquareSumArgs{x.data(), actual.floats(), count, accumulate, dtype});
        run(reference_kernels().square_sum, SquareSumArgs{x.data(), expected.floats(), count, accumulate, dtype});
        EXPECT_TRUE(close(actual, expected, tolerance(Dtype::f32, 4096)));
      }
    }
  }
}

}  // namespace
}  // namespace shardbench::test

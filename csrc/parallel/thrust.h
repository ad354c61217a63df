// Defines the functions of whole_batch.h by Thrust.
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/execution_policy.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include <algorithm>
#include <numeric>

#include "whole_batch.h"

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

// Memory for Thrust, whose own frees and throws where a destructor calls it.
struct Temporary {
  using value_type = char;

  char* allocate(std::ptrdiff_t bytes) { return static_cast<char*>(cuda::allocate(bytes)); }
  void deallocate(char* memory, size_t) noexcept { release(memory); }
};

inline auto policy(Stream stream) {
  static Temporary temporary;  // it has no state; a policy keeps a reference to it
  return thrust::cuda::par(temporary).on(stream);
}

struct ThreadsFor {
  explicit ThreadsFor(int64_t) {}
};

#else

inline auto policy(Stream) { return thrust::device; }

// Threads for Thrust's loops over n items, while this lives: waking them for a few costs more than it gains.
class ThreadsFor {
#ifdef _OPENMP
 public:
  explicit ThreadsFor(int64_t n) : before_(omp_get_max_threads()) {
    if (n < 1 << 16) omp_set_num_threads(1);
  }
  ~ThreadsFor() { omp_set_num_threads(before_); }
  ThreadsFor(const ThreadsFor&) = delete;
  ThreadsFor& operator=(const ThreadsFor&) = delete;

 private:
  int before_;
#else
 public:
  explicit ThreadsFor(int64_t) {}
#endif
};

#endif

int64_t max_of(const int64_t* numbers, int64_t n, Stream stream) {
  const ThreadsFor threads(n);
  return thrust::reduce(policy(stream), numbers, numbers + n, int64_t{0}, thrust::maximum<int64_t>());
}

void rows_of(const int64_t* offsets, int64_t rows, int64_t entries, int32_t* row, Stream stream) {
  const ThreadsFor threads(entries);
  const thrust::counting_iterator<int64_t> zero(0);
  thrust::upper_bound(policy(stream), offsets + 1, offsets + 1 + rows, zero, zero + entries, row);
}

#ifdef TOPOFLOW_ON_GPU

void transpose(const int64_t* offsets, const int32_t* columns, int64_t rows, int64_t entries, int64_t* column_offsets,
               int32_t* column_rows, Stream stream) {
  const ThreadsFor threads(rows + entries);
  const auto on = policy(stream);
  const thrust::counting_iterator<int64_t> zero(0);
  const Array<int32_t> copy(entries);
  int32_t *const sorted = copy.data(), *const end = sorted + entries;
  thrust::copy_n(on, columns, entries, sorted);
  rows_of(offsets, rows, entries, column_rows, stream);
  thrust::stable_sort_by_key(on, sorted, end, column_rows);
  thrust::lower_bound(on, sorted, end, zero, zero + rows + 1, column_offsets);
}

#else

// A counting sort by one thread: ten times as fast as a sort by all of them.
void transpose(const int64_t* offsets, const int32_t* columns, int64_t rows, int64_t entries, int64_t* column_offsets,
               int32_t* column_rows, Stream) {
  std::fill_n(column_offsets, rows + 1, int64_t{0});
  for (int64_t e = 0; e < entries; ++e) ++column_offsets[columns[e]];
  std::partial_sum(column_offsets, column_offsets + rows + 1, column_offsets);  // where each column ends
  for (int64_t row = rows; row-- > 0;)
    for (int64_t e = offsets[row]; e < offsets[row + 1]; ++e)
      column_rows[--column_offsets[columns[e]]] = static_cast<int32_t>(row);
}

#endif

void sort_rows(const int32_t* row, int32_t n, double* key, int32_t* item, Stream stream) {
  const ThreadsFor threads(n);
  const auto on = policy(stream);
  const Array<int32_t> copy(n);
  int32_t* const row_of_item = copy.data();
  thrust::sequence(on, item, item + n);
  thrust::stable_sort_by_key(on, key, key + n, item);
  thrust::gather(on, item, item + n, row, row_of_item);
  thrust::stable_sort_by_key(on, row_of_item, row_of_item + n, thrust::make_zip_iterator(key, item));
}

}  // namespace topoflow::BACKEND

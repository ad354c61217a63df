// Operations on what a whole batch shares, on the device where it lies. thrust.h defines them: nvcc takes longer to
// parse Thrust than all other headers of a kernel, so it is parsed in one file.
#pragma once

#include "device.h"

namespace topoflow::BACKEND {

// The largest of n numbers that are not negative; of none: 0.
int64_t max_of(const int64_t* numbers, int64_t n, Stream stream);

// Writes the row of each entry into row [entries]. Row r has the entries offsets[r] to offsets[r + 1], offsets[0] = 0.
void rows_of(const int64_t* offsets, int64_t rows, int64_t entries, int32_t* row, Stream stream);

// Transposes a square matrix of which only the places of the entries are kept, in compressed sparse rows: columns
// [entries] of rows that begin at offsets [rows + 1] become column_rows [entries], ascending in each column, of columns
// that begin at column_offsets [rows + 1].
void transpose(const int64_t* offsets, const int32_t* columns, int64_t rows, int64_t entries, int64_t* column_offsets,
               int32_t* column_rows, Stream stream);

// Sorts n items by their rows, those of a row by their keys, those of a key by their numbers: writes these into item
// [n], and sorts key [n] with them.
void sort_rows(const int32_t* row, int32_t n, double* key, int32_t* item, Stream stream);

}  // namespace topoflow::BACKEND

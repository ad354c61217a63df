// Depths of queues over time: the maximum in each interval. There are at most `samples` intervals; once all are used,
// every two become one, twice as long. A window ends where an interval does, so everything is known there.
//
// `Columns` counts the flits, in a column for each queue:
//
//   max_flits(i)              returns the most flits in the current interval
//   remember(i, n)            says that there were n flits in the current interval
//   begin_interval(i, now)    begins another interval
//
// Source: ours; tests/engine/test_packet_random.py states what is written down (agree_over_time).
#pragma once

#include "packet/state.h"

namespace topoflow::BACKEND::packet {

class Depths {
 public:
  // `columns`: the columns of the world, and of each row of `depths`.
  DEVICE Depths(const PacketBatch& batch, int32_t world, int32_t columns)
      : b_(batch),
        world_(world),
        columns_(columns),
        interval_(batch.run.window[world]),
        end_(batch.model.samples > 0 ? interval_ : kNever) {}

  // Returns the end of the current interval, ps; kNever: no interval is written.
  DEVICE int64_t end() const { return end_; }

  // Returns when the interval begins that `now` is in, once those until then are written.
  DEVICE int64_t begin_at(int64_t now) const {
    if (b_.model.samples == 0) return 0;
    int64_t interval = interval_;
    while (now / interval >= b_.model.samples) interval *= 2;
    return now / interval * interval;
  }

  // Writes the intervals that have ended by `now`, of columns `first` to `last`; nothing happens between the last
  // window and `now`.
  template <class Columns>
  DEVICE void write(int64_t now, int32_t first, int32_t last, Columns& columns) {
    while (now / interval_ >= b_.model.samples) double_interval(first, last, columns);
    for (; now >= end_; end_ += interval_) {
      int32_t* const row = row_of(filled_++);
      for (int32_t i = first; i < last; ++i) {
        row[i] = columns.max_flits(i);
        columns.begin_interval(i, end_);
      }
    }
  }

  // Writes the current interval of all columns.
  template <class Columns>
  DEVICE void finish(const Columns& columns) const {
    if (b_.model.samples == 0) return;
    for (int32_t i = 0; i < columns_; ++i) row_of(filled_)[i] = columns.max_flits(i);
    b_.out.interval[world_] = interval_;
    b_.out.intervals[world_] = filled_ + 1;
  }

 private:
  DEVICE int32_t* row_of(int32_t row) const {
    return b_.out.depths + b_.run.depth_offsets[world_] + int64_t{row} * columns_;
  }

  // Makes every two intervals one. A last one without a second becomes a part of the current interval.
  template <class Columns>
  DEVICE void double_interval(int32_t first, int32_t last, Columns& columns) {
    for (int32_t row = 0; row < filled_ / 2; ++row) {
      const int32_t *const one = row_of(2 * row), *const two = row_of(2 * row + 1);
      for (int32_t i = first; i < last; ++i) row_of(row)[i] = one[i] > two[i] ? one[i] : two[i];
    }
    if (filled_ % 2)
      for (int32_t i = first; i < last; ++i) columns.remember(i, row_of(filled_ - 1)[i]);
    filled_ /= 2;
    interval_ *= 2;
    end_ = (filled_ + 1) * interval_;
  }

  const PacketBatch& b_;
  int32_t world_, columns_, filled_ = 0;  // intervals that have ended
  int64_t interval_, end_;                // ps
};

}  // namespace topoflow::BACKEND::packet

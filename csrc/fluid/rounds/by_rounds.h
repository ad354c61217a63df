// Which worlds of a batch are run by rounds, in a launch of their own, whose kernel rounds_world.h has.
//
// Source: rounds.h.
#pragma once

#include "fluid/batch.h"
#include "parallel/launch.h"

namespace topoflow::BACKEND {

class ByRounds {
 public:
  explicit ByRounds(const Batch& batch);

  // [W] B of a block's shared memory that a world needs; 0: it is not run by rounds.
  const int64_t* needs() const { return needs_.data(); }
  bool all() const { return all_; }

  // `bytes`: of memory that one team needs.
  void run(const Batch& batch, int64_t bytes) const;

 private:
  Array<int64_t> needs_;
  Stream stream_;
  int64_t max_bytes_ = 0;
  bool all_ = true;
};

}  // namespace topoflow::BACKEND

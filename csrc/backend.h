// What a backend offers to Python. Included once for the CPU and once for CUDA; plain pointers in, exceptions out.
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sort.h>
#include <thrust/transform_reduce.h>

#include <algorithm>

#include "fluid/world.h"

namespace topoflow::BACKEND {

// The dependencies the other way round: the followers of each task, in order.
class Followers {
 public:
  Followers(const Graphs& graphs, Stream stream) : offsets_(graphs.tasks + 1), tasks_(graphs.dependencies) {
    const auto on = policy(stream);
    const thrust::counting_iterator<int64_t> zero(0);
    thrust::device_vector<int32_t> earlier(graphs.dependencies);
    thrust::copy_n(on, graphs.after, graphs.dependencies, earlier.begin());
    thrust::upper_bound(on, graphs.after_offsets + 1, graphs.after_offsets + 1 + graphs.tasks, zero,
                        zero + graphs.dependencies, tasks_.begin());
    thrust::stable_sort_by_key(on, earlier.begin(), earlier.end(), tasks_.begin());
    thrust::lower_bound(on, earlier.begin(), earlier.end(), zero, zero + graphs.tasks + 1, offsets_.begin());
  }

  const int64_t* offsets() const { return thrust::raw_pointer_cast(offsets_.data()); }
  const int32_t* tasks() const { return thrust::raw_pointer_cast(tasks_.data()); }

 private:
  thrust::device_vector<int64_t> offsets_;
  thrust::device_vector<int32_t> tasks_;
};

struct RowLength {
  const int64_t* offsets;
  HD int64_t operator()(int64_t row) const { return offsets[row + 1] - offsets[row]; }
};

// The longest of the rows that offsets [rows+1] delimit.
inline int64_t longest(const int64_t* offsets, int64_t rows, Stream stream) {
  const thrust::counting_iterator<int64_t> zero(0);
  return thrust::transform_reduce(policy(stream), zero, zero + rows, RowLength{offsets}, int64_t{0},
                                  thrust::maximum<int64_t>());
}

struct RunWorld {
  Batch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team& team, int32_t place, int32_t i) const {
    const int32_t world = batch.order[i];
    const Status status = World(batch, world, Arena(memory + place * bytes)).run(team);
    team.set(&batch.status[world], status);
  }
};

int64_t simulate(const Batch& given) {
  const DeviceGuard guard(given.device);
  const Stream stream = to_stream(given.stream);
  const int32_t most_teams = std::min(given.worlds, given.threads > 0 ? given.threads : max_teams<RunWorld>());
  const ThreadsFor threads(given.graphs.tasks + given.graphs.dependencies);
  const Followers followers(given.graphs, stream);
  Batch batch = given;
  batch.graphs.follower_offsets = followers.offsets();
  batch.graphs.followers = followers.tasks();

  const int64_t bytes = State::bytes(longest(batch.task_offsets, batch.worlds, stream),
                                     longest(batch.link_offsets, batch.worlds, stream));
  const int64_t fitting = std::max<int64_t>(1, batch.budget / bytes);
  const auto teams = static_cast<int32_t>(std::min<int64_t>(fitting, most_teams));
  const Memory memory(teams * bytes);
  for_each_team(batch.worlds, teams, RunWorld{batch, memory.start(), bytes}, stream);
  return bytes;
}

}  // namespace topoflow::BACKEND

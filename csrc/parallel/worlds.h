// A batch of worlds, each run by one team with memory of its own, as large as the largest world needs.
#pragma once

#include <thrust/functional.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform_reduce.h>

#include "launch.h"
#include "policy.h"

namespace topoflow::BACKEND {

// The most that bytes(world) is for any of the worlds.
template <class Bytes>
int64_t most_bytes(int32_t worlds, const Bytes& bytes, Stream stream) {
  const ThreadsFor threads(worlds);
  const thrust::counting_iterator<int32_t> zero(0);
  return thrust::transform_reduce(policy(stream), zero, zero + worlds, bytes, int64_t{0}, thrust::maximum<int64_t>());
}

// Runs Job{batch, memory, bytes of one team} for every world. Returns these bytes, the most of Bytes{batch}.
template <class Job, class Bytes, class Batch>
int64_t run_worlds(const Batch& batch) {
  const DeviceGuard guard(batch.device);
  const Stream stream = to_stream(batch.stream);
  const int64_t bytes = most_bytes(batch.worlds, Bytes{batch}, stream);
  const Launch how = launch<Job>(batch.worlds, bytes, batch.budget, batch.threads);
  const Array<std::byte> memory(how.teams * bytes);
  for_each_team(batch.worlds, how, Job{batch, memory.data(), bytes}, stream);
  return bytes;
}

}  // namespace topoflow::BACKEND

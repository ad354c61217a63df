// A batch of worlds, each run by one team with memory of its own, as large as the largest world needs.
#pragma once

#include "tabulate.h"
#include "whole_batch.h"

namespace topoflow::BACKEND {

// The largest of Bytes{batch}(i) for i < worlds.
template <class Bytes, class Batch>
int64_t max_bytes(const Batch& batch) {
  const Stream stream = to_stream(batch.stream);
  const Array<int64_t> bytes(batch.worlds);
  tabulate(batch.worlds, Bytes{batch}, bytes.data(), batch.threads, stream);
  return max_of(bytes.data(), batch.worlds, stream);
}

// Runs Job{batch, memory, bytes of one team} for every world. Returns these bytes, max_bytes<Bytes>(batch).
template <class Job, class Bytes, class Batch>
int64_t run_worlds(const Batch& batch) {
  const DeviceGuard guard(batch.device);
  const int64_t bytes = max_bytes<Bytes>(batch);
  const Launch config = launch<Job>(batch.worlds, bytes, batch.budget, batch.threads);
  const Array<std::byte> memory(config.teams * bytes);
  for_each_team(batch.worlds, config, Job{batch, memory.data(), bytes}, to_stream(batch.stream));
  return bytes;
}

}  // namespace topoflow::BACKEND

// Runs a job for every world of a batch, each by one team.
#pragma once

#include "device.h"
#include "team.h"
#ifdef TOPOFLOW_ON_GPU
#include "parallel/kernel.h"  // found by path: an emulation brings its own
#endif

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

// The memory that a team shares before its fast memory.
struct alignas(16) TeamMemory {
  double scratch[BlockTeam::kScratch];
  int32_t next_job;
};

// B of the object that its teams emplace_shared().
template <class Job>
constexpr int64_t kSharedObjectBytes = 0;
template <class Job>
  requires requires { Job::kShared; }
constexpr int64_t kSharedObjectBytes<Job> = (Job::kShared + 15) / 16 * 16;

template <class Job>
constexpr bool kIsWarp = kSharedObjectBytes<Job> > 0 && Job::kThreads == WarpTeam::kLanes;

// B of shared memory that a team of this job always has.
template <class Job>
constexpr int64_t kSharedBytes =
    (kIsWarp<Job> ? WarpTeam::kScratchBytes : int64_t{sizeof(TeamMemory)}) + kSharedObjectBytes<Job>;

// A multiprocessor has registers for kTeams of a job at once: left to nvcc, their number changes with any line of the
// source (64 or 255 for packets).
template <class Job>
__global__ void __launch_bounds__(Job::kThreads, Job::kTeams)
    run_warps(int32_t jobs, int32_t* next, bool fast, const __grid_constant__ Job job) {
  const WarpTeam team(shared_memory(), fast ? shared_memory() + kSharedBytes<Job> : nullptr);
  for (int32_t job_index = team.take(next); job_index < jobs; job_index = team.take(next))
    job(team, static_cast<int32_t>(blockIdx.x), job_index);
}

template <class Job>
__global__ void __launch_bounds__(Job::kThreads, Job::kTeams)
    run_blocks(int32_t jobs, int32_t* next, bool fast, const __grid_constant__ Job job) {
  TeamMemory& memory = *reinterpret_cast<TeamMemory*>(shared_memory());
  const BlockTeam team(memory.scratch, shared_memory() + sizeof(TeamMemory),
                       fast ? shared_memory() + kSharedBytes<Job> : nullptr);
  while (true) {
    if (threadIdx.x == 0) memory.next_job = atomicAdd(next, 1);
    __syncthreads();
    const int32_t job_index = team.get(&memory.next_job);
    if (job_index >= jobs) return;
    job(team, static_cast<int32_t>(blockIdx.x), job_index);
    __syncthreads();
  }
}

template <class Job>
auto* kernel_of() {
  if constexpr (kIsWarp<Job>)
    return &run_warps<Job>;
  else
    return &run_blocks<Job>;
}

// B of stack that a thread of the kernel takes where it begins, with all calls whose depth the compiler knows.
template <class Job>
int64_t first_stack() {
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel_of<Job>()));
  return static_cast<int64_t>(attributes.localSizeBytes);
}

// How many teams run at once, and how much fast memory each of them gets: what it asks for, if a multiprocessor then
// still has room for kFastTeams of them, else none.
struct Launch {
  int32_t teams;
  int64_t fast;  // B
};

template <class Job>
constexpr int kFastTeams = kIsWarp<Job> ? 8 : 1;

// The most shared memory that a team of this job may have, in B.
template <class Job>
int max_shared_bytes() {
  int device = 0, shared = 0, reserved = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
  return shared / kFastTeams<Job> - reserved;
}

template <class Job>
Launch max_teams(int64_t fast_bytes, int32_t) {
  static_assert(Job::kThreads % 32 == 0 && Job::kThreads <= 32 * kMaxWarps);
  int device = 0, processors = 0, blocks = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  const int max_shared = max_shared_bytes<Job>();
  const int64_t fast = kSharedBytes<Job> + fast_bytes <= max_shared ? fast_bytes : 0;
  // The same limit for all: a launch from another thread of the host must not find one that is lower than it needs.
  check(cudaFuncSetAttribute(kernel_of<Job>(), cudaFuncAttributeMaxDynamicSharedMemorySize, max_shared));
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_of<Job>(), Job::kThreads,
                                                      kSharedBytes<Job> + fast));
  return {processors * (blocks > 0 ? blocks : 1), fast};
}

// Runs job(team, team_index, i) for every i < jobs, in order of i; no two teams run with the same team_index < teams.
template <class Job>
void for_each_team(int32_t jobs, const Launch& config, const Job& job, Stream stream) {
  const Array<int32_t> next(1);
  check(cudaMemsetAsync(next.data(), 0, sizeof(int32_t), stream));
  start(kernel_of<Job>(), config.teams, Job::kThreads, kSharedBytes<Job> + config.fast, stream, jobs, next.data(),
        config.fast > 0, job);
  check(cudaStreamSynchronize(stream));
}

#else

struct Launch {
  int32_t teams;
};

template <class Job>
Launch max_teams(int64_t, [[maybe_unused]] int32_t threads) {
#ifdef _OPENMP
  return {threads > 0 ? threads : omp_get_max_threads()};
#else
  return {1};
#endif
}

// Runs job(team, team_index, i) for every i < jobs, in order of i; no two teams run with the same team_index < teams.
template <class Job>
void for_each_team(int32_t jobs, [[maybe_unused]] const Launch& config, const Job& job, Stream) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(config.teams)
  for (int32_t i = 0; i < jobs; ++i) {
#ifdef _OPENMP
    job(ThreadTeam(), omp_get_thread_num(), i);
#else
    job(ThreadTeam(), 0, i);
#endif
  }
}

#endif

// Teams for these jobs, each with `bytes` of memory, all together with no more than `budget`, and with `fast` bytes of
// a GPU's fast memory, where that has room; on a CPU `threads` of them, 0: one per core.
template <class Job>
Launch launch(int32_t jobs, int64_t bytes, int64_t budget, int32_t threads, int64_t fast = 0) {
  Launch config = max_teams<Job>(fast, threads);
  const int64_t fitting = bytes > 0 && budget / bytes < jobs ? budget / bytes : jobs;
  if (config.teams > fitting) config.teams = static_cast<int32_t>(fitting);
  if (config.teams < 1) config.teams = 1;
  return config;
}

}  // namespace topoflow::BACKEND

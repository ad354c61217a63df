// Runs a job for every world of a batch, each by one team.
#pragma once

#include "device.h"
#include "team.h"
#ifdef TOPOFLOW_ON_GPU
#include "parallel/kernel.h"  // found by path: an emulation brings its own
#endif

namespace topoflow::BACKEND {

#ifdef TOPOFLOW_ON_GPU

// What a team shares before its fast memory.
struct alignas(16) TeamMemory {
  double scratch[BlockTeam::kScratch];
  int32_t taken;
};

// B of what its teams keep().
template <class Job>
constexpr int64_t kKeptBytes = 0;
template <class Job>
  requires requires { Job::kShared; }
constexpr int64_t kKeptBytes<Job> = (Job::kShared + 15) / 16 * 16;

template <class Job>
constexpr bool kIsWarp = kKeptBytes<Job> > 0 && Job::kThreads == WarpTeam::kLanes;

// B of shared memory that a team of this job always has.
template <class Job>
constexpr int64_t kSharedBytes = (kIsWarp<Job> ? WarpTeam::kOwn : int64_t{sizeof(TeamMemory)}) + kKeptBytes<Job>;

// A multiprocessor has registers for kTeams of a job at once: left to nvcc, their number changes with any line of the
// source (64 or 255 for packets).
template <class Job>
__global__ void __launch_bounds__(Job::kThreads, Job::kTeams)
    run_warps(int32_t jobs, int32_t* next, bool fast, const __grid_constant__ Job job) {
  const WarpTeam team(shared_memory(), fast ? shared_memory() + kSharedBytes<Job> : nullptr);
  for (int32_t mine = team.take(next); mine < jobs; mine = team.take(next))
    job(team, static_cast<int32_t>(blockIdx.x), mine);
}

template <class Job>
__global__ void __launch_bounds__(Job::kThreads, Job::kTeams)
    run_blocks(int32_t jobs, int32_t* next, bool fast, const __grid_constant__ Job job) {
  TeamMemory& own = *reinterpret_cast<TeamMemory*>(shared_memory());
  const BlockTeam team(own.scratch, shared_memory() + sizeof(TeamMemory),
                       fast ? shared_memory() + kSharedBytes<Job> : nullptr);
  while (true) {
    if (threadIdx.x == 0) own.taken = atomicAdd(next, 1);
    __syncthreads();
    const int32_t mine = team.get(&own.taken);
    if (mine >= jobs) return;
    job(team, static_cast<int32_t>(blockIdx.x), mine);
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
  cudaFuncAttributes found;
  check(cudaFuncGetAttributes(&found, kernel_of<Job>()));
  return static_cast<int64_t>(found.localSizeBytes);
}

// How many teams run at once, and how much fast memory each of them gets: what it asks for, if a multiprocessor then
// still has room for kFastTeams of them, else none.
struct Launch {
  int32_t teams;
  int64_t fast;  // B
};

template <class Job>
constexpr int kFastTeams = kIsWarp<Job> ? 8 : 1;

// B of shared memory at most that a team of this job may have.
template <class Job>
int most_shared() {
  int device = 0, shared = 0, reserved = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
  return shared / kFastTeams<Job> - reserved;
}

template <class Job>
Launch most_teams(int64_t asked, int32_t) {
  static_assert(Job::kThreads % 32 == 0 && Job::kThreads <= 32 * kMostWarps);
  int device = 0, processors = 0, blocks = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  const int most = most_shared<Job>();
  const int64_t fast = kSharedBytes<Job> + asked <= most ? asked : 0;
  // The same limit for all: a launch from another thread of the host must not find one that is lower than it needs.
  check(cudaFuncSetAttribute(kernel_of<Job>(), cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel_of<Job>(), Job::kThreads,
                                                      kSharedBytes<Job> + fast));
  return {processors * (blocks > 0 ? blocks : 1), fast};
}

// Runs job(team, place, i) for every i < jobs, in order of i; no two teams have the same place < teams at once.
template <class Job>
void for_each_team(int32_t jobs, const Launch& how, const Job& job, Stream stream) {
  const Array<int32_t> next(1);
  check(cudaMemsetAsync(next.data(), 0, sizeof(int32_t), stream));
  start(kernel_of<Job>(), how.teams, Job::kThreads, kSharedBytes<Job> + how.fast, stream, jobs, next.data(),
        how.fast > 0, job);
  check(cudaStreamSynchronize(stream));
}

#else

struct Launch {
  int32_t teams;
};

template <class Job>
Launch most_teams(int64_t, [[maybe_unused]] int32_t threads) {
#ifdef _OPENMP
  return {threads > 0 ? threads : omp_get_max_threads()};
#else
  return {1};
#endif
}

// Runs job(team, place, i) for every i < jobs, in order of i; no two teams have the same place < teams at once.
template <class Job>
void for_each_team(int32_t jobs, [[maybe_unused]] const Launch& how, const Job& job, Stream) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(how.teams)
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
  Launch how = most_teams<Job>(fast, threads);
  const int64_t fitting = bytes > 0 && budget / bytes < jobs ? budget / bytes : jobs;
  if (how.teams > fitting) how.teams = static_cast<int32_t>(fitting);
  if (how.teams < 1) how.teams = 1;
  return how;
}

}  // namespace topoflow::BACKEND

// The one file that knows a GPU from a CPU.
//
// A *team* runs one world: a block of threads on a GPU, one thread on a CPU. All threads of a team call the same
// team functions in the same order; each of them ends with the whole team having seen its effects. The backend is a
// namespace, so that both fit in one library.
#pragma once

#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#ifdef __CUDACC__
#define BACKEND cuda
#define HD __host__ __device__ inline
#define DEVICE __device__ inline
#else
#define BACKEND cpu
#define HD inline
#define DEVICE inline
#ifdef _OPENMP
#include <omp.h>
#endif
#endif

namespace topoflow::BACKEND {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

#ifdef __CUDACC__

constexpr int kThreads = 256;  // of a team

DEVICE int32_t atomic_add(int32_t* to, int32_t value) { return atomicAdd(to, value); }

DEVICE void atomic_add(int64_t* to, int64_t value) {  // two's complement: unsigned addition is signed addition
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

class Team {
 public:
  __device__ explicit Team(double* scratch) : scratch_(scratch) {}

  template <class F>
  __device__ void for_each(int32_t n, F f) const {
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }

  template <class F>
  __device__ double min(int32_t n, F f) const {
    double lowest = kInfinity;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) lowest = fmin(lowest, f(i));
    for (int offset = 16; offset > 0; offset /= 2) lowest = fmin(lowest, __shfl_down_sync(0xffffffffu, lowest, offset));
    if (threadIdx.x % 32 == 0) scratch_[threadIdx.x / 32] = lowest;
    __syncthreads();
    lowest = scratch_[0];
    for (int warp = 1; warp < kThreads / 32; ++warp) lowest = fmin(lowest, scratch_[warp]);
    __syncthreads();
    return lowest;
  }

  template <class F>
  __device__ bool any(int32_t n, F f) const {
    int found = 0;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) found |= f(i);
    return __syncthreads_or(found) != 0;
  }

  template <class F>
  __device__ int32_t count(int32_t n, F f) const {
    int32_t found = 0;
    for (int32_t first = 0; first < n; first += blockDim.x) {
      const int32_t i = first + static_cast<int32_t>(threadIdx.x);
      found += __syncthreads_count(i < n && f(i));
    }
    return found;
  }

  // What one thread sets or reads while no thread changes it.
  __device__ void set(int32_t* to, int32_t value) const {
    if (threadIdx.x == 0) *to = value;
    __syncthreads();
  }
  __device__ int32_t get(const int32_t* from) const {
    const int32_t value = *from;
    __syncthreads();
    return value;
  }

 private:
  double* scratch_;  // [kThreads / 32], shared by the team
};

using Stream = cudaStream_t;
inline Stream to_stream(int64_t stream) { return reinterpret_cast<Stream>(stream); }
inline auto policy(Stream stream) { return thrust::cuda::par.on(stream); }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw thrust::system_error(error, thrust::cuda_category());
}

template <class Job>
__global__ void __launch_bounds__(kThreads) run_teams(int32_t jobs, int32_t* next, Job job) {
  __shared__ double scratch[kThreads / 32];
  __shared__ int32_t taken;
  const Team team(scratch);
  while (true) {
    if (threadIdx.x == 0) taken = atomicAdd(next, 1);
    __syncthreads();
    const int32_t mine = team.get(&taken);
    if (mine >= jobs) return;
    job(team, static_cast<int32_t>(blockIdx.x), mine);
    __syncthreads();
  }
}

template <class Job>
int32_t max_teams() {
  int device = 0, processors = 0, blocks = 0;
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, run_teams<Job>, kThreads, 0));
  return processors * (blocks > 0 ? blocks : 1);
}

// Runs job(team, place, i) for every i < jobs, in order of i; no two teams have the same place < teams at once.
template <class Job>
void for_each_team(int32_t jobs, int32_t teams, const Job& job, Stream stream) {
  thrust::device_vector<int32_t> next(1, 0);
  run_teams<<<teams, kThreads, 0, stream>>>(jobs, thrust::raw_pointer_cast(next.data()), job);
  check(cudaGetLastError());
  check(cudaStreamSynchronize(stream));
}

// Work goes to the GPU that holds the arrays, and back to the caller's afterwards.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&before_));
    check(cudaSetDevice(device));
  }
  ~DeviceGuard() { cudaSetDevice(before_); }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

struct ThreadsFor {
  explicit ThreadsFor(int64_t) {}
};

#else

DEVICE int32_t atomic_add(int32_t* to, int32_t value) {
  const int32_t before = *to;
  *to += value;
  return before;
}

DEVICE void atomic_add(int64_t* to, int64_t value) { *to += value; }

class Team {
 public:
  template <class F>
  void for_each(int32_t n, F f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  double min(int32_t n, F f) const {
    double lowest = kInfinity;
    for (int32_t i = 0; i < n; ++i) {
      const double value = f(i);
      lowest = value < lowest ? value : lowest;
    }
    return lowest;
  }

  template <class F>
  bool any(int32_t n, F f) const {
    bool found = false;
    for (int32_t i = 0; i < n; ++i) found |= f(i);
    return found;
  }

  template <class F>
  int32_t count(int32_t n, F f) const {
    int32_t found = 0;
    for (int32_t i = 0; i < n; ++i) found += f(i);
    return found;
  }

  void set(int32_t* to, int32_t value) const { *to = value; }
  int32_t get(const int32_t* from) const { return *from; }
};

struct Stream {};
inline Stream to_stream(int64_t) { return {}; }
inline auto policy(Stream) { return thrust::device; }

template <class Job>
int32_t max_teams() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// Runs job(team, place, i) for every i < jobs, in order of i; no two teams have the same place < teams at once.
template <class Job>
void for_each_team(int32_t jobs, [[maybe_unused]] int32_t teams, const Job& job, Stream) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(teams)
  for (int32_t i = 0; i < jobs; ++i) {
#ifdef _OPENMP
    job(Team(), omp_get_thread_num(), i);
#else
    job(Team(), 0, i);
#endif
  }
}

struct DeviceGuard {
  explicit DeviceGuard(int) {}
};

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

// Memory on the device that nobody has written to yet.
class Memory {
 public:
  explicit Memory(int64_t bytes) : start_(thrust::device_malloc<std::byte>(bytes)) {}
  ~Memory() { thrust::device_free(start_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* start() const { return thrust::raw_pointer_cast(start_); }

 private:
  thrust::device_ptr<std::byte> start_;
};

// A growing list in memory that the team shares. Its order is whatever the threads made of it: nothing may depend on
// it.
struct List {
  int32_t* items;
  int32_t* size;

  DEVICE int32_t operator[](int32_t i) const { return items[i]; }
  DEVICE void append(int32_t item) const { items[atomic_add(size, 1)] = item; }
};

DEVICE void swap(List& a, List& b) {
  const List c = a;
  a = b;
  b = c;
}

}  // namespace topoflow::BACKEND

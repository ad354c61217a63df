// The one file that knows a GPU from a CPU.
//
// A *team* runs one world: a block of threads on a GPU, one thread on a CPU. All threads of a team call the same
// team functions in the same order; each of them ends with the whole team having seen its effects. So what decides
// which one comes next must be the same for all threads: none may write what another still reads since the last of
// them. The backend is a namespace, so that both fit in one library.
#pragma once

#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
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
#ifdef __SSE2__
#include <emmintrin.h>
#endif
#endif

namespace topoflow::BACKEND {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The lowest of n values: four at once, since each comparison waits for the one before.
template <class F>
DEVICE double lowest(int32_t n, const F& f) {
  double low[4] = {kInfinity, kInfinity, kInfinity, kInfinity};
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int32_t lane = 0; lane < 4; ++lane) {
      const double value = f(i + lane);
      low[lane] = value < low[lane] ? value : low[lane];
    }
  }
  for (; i < n; ++i) {
    const double value = f(i);
    low[0] = value < low[0] ? value : low[0];
  }
  low[0] = low[1] < low[0] ? low[1] : low[0];
  low[2] = low[3] < low[2] ? low[3] : low[2];
  return low[2] < low[0] ? low[2] : low[0];
}

DEVICE double lowest_of(int32_t n, const double* values) {
#if defined(__SSE2__) && !defined(__CUDACC__)  // compilers do not see that no value is NaN
  __m128d low[4] = {_mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity), _mm_set1_pd(kInfinity)};
  int32_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int32_t lane = 0; lane < 4; ++lane) low[lane] = _mm_min_pd(low[lane], _mm_loadu_pd(values + i + 2 * lane));
  for (; i < n; ++i) low[0] = _mm_min_sd(low[0], _mm_load_sd(values + i));
  low[0] = _mm_min_pd(_mm_min_pd(low[0], low[1]), _mm_min_pd(low[2], low[3]));
  return _mm_cvtsd_f64(_mm_min_sd(low[0], _mm_unpackhi_pd(low[0], low[0])));
#else
  return lowest(n, [=](int32_t i) { return values[i]; });
#endif
}

// The lowest of n values above `floor`, which is none of infinity or less than 0.
DEVICE double lowest_above(int32_t n, const double* values, double floor) {
#if defined(__SSE2__) && !defined(__CUDACC__)
  const __m128d infinity = _mm_set1_pd(kInfinity), low = _mm_set1_pd(floor);
  // Not a number where it is not above, and then minpd takes the other.
  const auto above = [=](__m128d x) { return _mm_or_pd(x, _mm_cmple_pd(x, low)); };
  __m128d lowest[2] = {infinity, infinity};
  int32_t i = 0;
  for (; i + 4 <= n; i += 4) {
    lowest[0] = _mm_min_pd(above(_mm_loadu_pd(values + i)), lowest[0]);
    lowest[1] = _mm_min_pd(above(_mm_loadu_pd(values + i + 2)), lowest[1]);
  }
  for (; i < n; ++i) lowest[0] = _mm_min_pd(above(_mm_load1_pd(values + i)), lowest[0]);
  lowest[0] = _mm_min_pd(lowest[0], lowest[1]);
  return _mm_cvtsd_f64(_mm_min_sd(lowest[0], _mm_unpackhi_pd(lowest[0], lowest[0])));
#else
  return lowest(n, [=](int32_t i) { return values[i] > floor ? values[i] : kInfinity; });
#endif
}

#ifdef __CUDACC__

constexpr int kMostWarps = 8;  // of a team

DEVICE int32_t atomic_add(int32_t* to, int32_t value) { return atomicAdd(to, value); }

DEVICE int32_t atomic_exchange(int32_t* to, int32_t value) { return atomicExch(to, value); }

DEVICE int64_t atomic_add(int64_t* to, int64_t value) {  // two's complement: unsigned addition is signed addition
  return atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

DEVICE void atomic_add_both(int64_t* to, int64_t first, int64_t second) {
  atomic_add(to, first);
  atomic_add(to + 1, second);
}

// Of numbers that are not negative: their bits are in the order of the numbers.
DEVICE void atomic_max(double* to, double value) {
  atomicMax(reinterpret_cast<long long*>(to), __double_as_longlong(value));
}

class Team {
 public:
  static constexpr int kWords = 4;  // of a sum

  // `scratch` [kMostWarps * kWords] and `fast`, memory for the world's state or null, are shared by the team.
  __device__ Team(double* scratch, std::byte* fast) : scratch_(scratch), fast_(fast) {}

  __device__ std::byte* fast() const { return fast_; }

  // Until all threads are here.
  __device__ void wait() const { __syncthreads(); }

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
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) lowest = fmin(lowest, scratch_[warp]);
    __syncthreads();
    return lowest;
  }

  __device__ double min_of(int32_t n, const double* values) const {
    return min(n, [=](int32_t i) { return values[i]; });
  }
  __device__ double min_above(int32_t n, const double* values, double floor) const {
    return min(n, [=](int32_t i) { return values[i] > floor ? values[i] : kInfinity; });
  }

  // The sum of n values of a type that is made of integers and has +.
  template <class F>
  __device__ auto sum(int32_t n, F f) const {
    decltype(f(0)) total{};
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) total = total + f(i);
    constexpr int words = sizeof(total) / sizeof(int64_t);
    static_assert(words <= kWords && words * sizeof(int64_t) == sizeof(total));
    long long word[words];
    memcpy(word, &total, sizeof(total));
    auto* const parts = reinterpret_cast<long long*>(scratch_);
    for (int j = 0; j < words; ++j) {
      for (int offset = 16; offset > 0; offset /= 2) word[j] += __shfl_down_sync(0xffffffffu, word[j], offset);
      if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32 * words + j] = word[j];
    }
    __syncthreads();
    for (int j = 0; j < words; ++j) {
      word[j] = parts[j];
      for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) word[j] += parts[warp * words + j];
    }
    __syncthreads();
    memcpy(&total, word, sizeof(total));
    return total;
  }

  // The first i < n for which found(i), n when there is none.
  template <class F>
  __device__ int32_t first(int32_t n, F found) const {
    const double i = min(n, [&](int32_t j) { return found(j) ? static_cast<double>(j) : kInfinity; });
    return i < n ? static_cast<int32_t>(i) : n;
  }

  // What is at `from` is at `to` as well.
  template <class T>
  __device__ void copy(int32_t n, const T* from, T* to) const {
    for_each(n, [=](int32_t i) { to[i] = from[i]; });
  }

  // The list becomes those i < n that are wanted.
  template <class List, class F>
  __device__ void select(int32_t n, const List& list, F wanted) const {
    set(list.size, 0);
    for_each(n, [&](int32_t i) { list.append_if(wanted(i), i); });
  }

  // The list becomes those of n items that are wanted.
  template <class List, class F>
  __device__ void filter(int32_t n, const int32_t* items, const List& list, F wanted) const {
    set(list.size, 0);
    for_each(n, [&](int32_t i) { list.append_if(wanted(items[i]), items[i]); });
  }

  template <class F>
  __device__ bool any(int32_t n, F f) const {
    int found = 0;
    for (int32_t i = threadIdx.x; i < n; i += blockDim.x) found |= f(i);
    return __syncthreads_or(found) != 0;
  }

  // One number for all threads, which any of them may change afterwards.
  __device__ void set(int32_t* to, int32_t value) const {
    if (threadIdx.x == 0) *to = value;
    __syncthreads();
  }
  __device__ int32_t get(const int32_t* from) const {
    const int32_t value = *from;
    __syncthreads();
    return value;
  }

  // What the host may change at any time.
  __device__ bool poll(const int32_t* from) const {
    return __syncthreads_or(threadIdx.x == 0 && *const_cast<const volatile int32_t*>(from) != 0);
  }

 private:
  double* scratch_;
  std::byte* fast_;
};

using Stream = cudaStream_t;
inline Stream to_stream(int64_t stream) { return reinterpret_cast<Stream>(stream); }
inline auto policy(Stream stream) { return thrust::cuda::par.on(stream); }

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw thrust::system_error(error, thrust::cuda_category());
}

template <class Job>
__global__ void __launch_bounds__(Job::kThreads) run_teams(int32_t jobs, int32_t* next, bool fast, Job job) {
  __shared__ double scratch[kMostWarps * Team::kWords];
  __shared__ int32_t taken;
  extern __shared__ __align__(16) std::byte shared[];
  const Team team(scratch, fast ? shared : nullptr);
  while (true) {
    if (threadIdx.x == 0) taken = atomicAdd(next, 1);
    __syncthreads();
    const int32_t mine = team.get(&taken);
    if (mine >= jobs) return;
    job(team, static_cast<int32_t>(blockIdx.x), mine);
    __syncthreads();
  }
}

// How many teams run at once, and how much fast memory each of them gets: `bytes`, if a multiprocessor then still has
// room for kFastTeams of them, else none.
struct Launch {
  int32_t teams;
  int64_t fast;  // B
};

constexpr int kFastTeams = 4;

template <class Job>
Launch most_teams(int64_t bytes, int32_t) {
  static_assert(Job::kThreads % 32 == 0 && Job::kThreads <= 32 * kMostWarps);
  int device = 0, processors = 0, blocks = 0, shared = 0, reserved = 0;
  cudaFuncAttributes kernel{};
  check(cudaGetDevice(&device));
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device));
  check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device));
  check(cudaFuncGetAttributes(&kernel, run_teams<Job>));
  const int most = shared / kFastTeams - reserved - static_cast<int>(kernel.sharedSizeBytes);
  const int64_t fast = Job::kFast && bytes <= most ? bytes : 0;
  // The same limit for all: a launch from another thread of the host must not find one that is lower than it needs.
  check(cudaFuncSetAttribute(run_teams<Job>, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, run_teams<Job>, Job::kThreads, fast));
  return {processors * (blocks > 0 ? blocks : 1), fast};
}

// Runs job(team, place, i) for every i < jobs, in order of i; no two teams have the same place < teams at once.
template <class Job>
void for_each_team(int32_t jobs, const Launch& how, const Job& job, Stream stream) {
  thrust::device_vector<int32_t> next(1, 0);
  run_teams<<<how.teams, Job::kThreads, how.fast, stream>>>(jobs, thrust::raw_pointer_cast(next.data()), how.fast > 0,
                                                            job);
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

DEVICE int64_t atomic_add(int64_t* to, int64_t value) {
  const int64_t before = *to;
  *to += value;
  return before;
}

DEVICE void atomic_add_both(int64_t* to, int64_t first, int64_t second) {
#ifdef __SSE2__
  __m128i* const both = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(both, _mm_add_epi64(_mm_loadu_si128(both), _mm_set_epi64x(second, first)));
#else
  to[0] += first;
  to[1] += second;
#endif
}

DEVICE int32_t atomic_exchange(int32_t* to, int32_t value) {
  const int32_t before = *to;
  *to = value;
  return before;
}

DEVICE void atomic_max(double* to, double value) { *to = value > *to ? value : *to; }

class Team {
 public:
  std::byte* fast() const { return nullptr; }

  void wait() const {}

  template <class F>
  void for_each(int32_t n, F f) const {
    for (int32_t i = 0; i < n; ++i) f(i);
  }

  template <class F>
  double min(int32_t n, F f) const {
    return lowest(n, f);
  }
  double min_of(int32_t n, const double* values) const { return lowest_of(n, values); }
  double min_above(int32_t n, const double* values, double floor) const { return lowest_above(n, values, floor); }

  // The sum of n values of a type that is made of integers and has +.
  template <class F>
  auto sum(int32_t n, F f) const {
    decltype(f(0)) total{};
    for (int32_t i = 0; i < n; ++i) total = total + f(i);
    return total;
  }

  // The first i < n for which found(i), n when there is none.
  template <class F>
  int32_t first(int32_t n, F found) const {
    int32_t i = 0;
    while (i < n && !found(i)) ++i;
    return i;
  }

  // What is at `from` is at `to` as well.
  template <class T>
  void copy(int32_t n, const T* from, T* to) const {
    memcpy(to, from, n * sizeof(T));
  }

  // The list becomes those i < n that are wanted.
  template <class List, class F>
  void select(int32_t n, const List& list, F wanted) const {
    int32_t* end = list.items;
    for (int32_t i = 0; i < n; ++i) {
      *end = i;
      end += wanted(i);
    }
    const auto size = static_cast<int32_t>(end - list.items);
    *list.size = size;
  }

  // The list becomes those of n items that are wanted.
  template <class List, class F>
  void filter(int32_t n, const int32_t* items, const List& list, F wanted) const {
    int32_t* end = list.items;
#pragma GCC unroll 4
    for (int32_t i = 0; i < n; ++i) {
      *end = items[i];
      end += wanted(items[i]);
    }
    const auto size = static_cast<int32_t>(end - list.items);
    *list.size = size;
  }

  template <class F>
  bool any(int32_t n, F f) const {
    bool found = false;
    for (int32_t i = 0; i < n; ++i) found |= f(i);
    return found;
  }

  void set(int32_t* to, int32_t value) const { *to = value; }
  int32_t get(const int32_t* from) const { return *from; }

  // What the caller may change at any time.
  bool poll(const int32_t* from) const { return *const_cast<const volatile int32_t*>(from) != 0; }
};

struct Stream {};
inline Stream to_stream(int64_t) { return {}; }
inline auto policy(Stream) { return thrust::device; }

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

// Teams for these jobs, each with so many bytes of memory, all together with no more than `budget`; of a CPU as many as
// `threads`, 0: all it has.
template <class Job>
Launch launch(int32_t jobs, int64_t bytes, int64_t budget, int32_t threads) {
  Launch how = most_teams<Job>(bytes, threads);
  const int64_t fitting = bytes > 0 && budget / bytes < jobs ? budget / bytes : jobs;
  if (how.teams > fitting) how.teams = static_cast<int32_t>(fitting);
  if (how.teams < 1) how.teams = 1;
  return how;
}

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
  int32_t* items;  // one more than it will ever have
  int32_t* size;

  DEVICE int32_t operator[](int32_t i) const { return items[i]; }
  DEVICE void append(int32_t item) const { items[atomic_add(size, 1)] = item; }

  DEVICE void append_if(bool condition, int32_t item) const {
#ifdef __CUDACC__
    if (condition) append(item);
#else  // no branch: which way it goes is often anyone's guess
    items[*size] = item;
    *size += condition;
#endif
  }
};

}  // namespace topoflow::BACKEND

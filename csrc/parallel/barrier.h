// Where the threads of one world meet, on a CPU.
//
// They meet some hundred thousand times a second and work about equally long in between, so each waits awake; one that
// has waited long sleeps, as another program may have the processor of the one that is late.
//
// Source: a central barrier whose round takes the place of the sense, Mellor-Crummey and Scott, "Algorithms for
// scalable synchronization on shared-memory multiprocessors", ACM Trans. Computer Systems 9(1), 1991, 3.1.
#pragma once

#include <atomic>
#include <cstdint>

namespace topoflow {

class Barrier {
 public:
  explicit Barrier(int32_t threads) : threads_(threads), missing_(threads) {}

  // Returns when all threads have called it as often; they then see what each of them wrote before.
  void wait() {
    const uint32_t round = round_.load(std::memory_order_relaxed);
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      missing_.store(threads_, std::memory_order_relaxed);
      round_.store(round + 1, std::memory_order_release);
      round_.notify_all();
      return;
    }
    for (int i = 0; i < kSpins; ++i) {
      if (round_.load(std::memory_order_acquire) != round) return;
      relax();
    }
    round_.wait(round, std::memory_order_acquire);
  }

 private:
  static constexpr int kSpins = 400;  // about 20 us where a pause takes 140 cycles

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const int32_t threads_;
  alignas(64) std::atomic<int32_t> missing_;
  alignas(64) std::atomic<uint32_t> round_ = 0;
};

}  // namespace topoflow

// Where the threads of one world meet, on a CPU.
//
// They meet some hundred thousand times a second and work about equally long in between, so each waits awake; one that
// has waited long sleeps, as another program may have the processor of the one that is late.
//
// Source: a central barrier whose round takes the place of the sense, Mellor-Crummey and Scott, "Algorithms for
// scalable synchronization on shared-memory multiprocessors", ACM Trans. Computer Systems 9(1), 1991, 3.1.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace topoflow {

class Barrier {
 public:
  explicit Barrier(int32_t threads) : threads_(threads), missing_(threads) {}

  // Returns when all threads have called it as often; they then see what each of them wrote before.
  void wait() {
    const uint32_t round = round_.load(std::memory_order_relaxed);
    if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) return open(round + 1);
    for (int i = 0; i < kSpins; ++i) {
      if (round_.load(std::memory_order_acquire) != round) return;
      relax();
    }
    sleep(round);
  }

 private:
  // About 0.1 ms where a pause takes 140 cycles, longer than a sleeper needs to wake.
  static constexpr int kSpins = 2000;

  // The round changes before `sleeping_` is read, and the other way round in sleep(), both in one order for all
  // threads: whoever sleeps is seen. (The notify of an atomic number does not promise that: gcc 12 may read who waits
  // first.)
  void open(uint32_t round) {
    missing_.store(threads_, std::memory_order_relaxed);
    round_.store(round, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    const std::lock_guard lock(mutex_);
    opened_.notify_all();
  }

  void sleep(uint32_t round) {
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock lock(mutex_);
      opened_.wait(lock, [&] { return round_.load(std::memory_order_seq_cst) != round; });
    }
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
  }

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
  std::atomic<int32_t> sleeping_ = 0;
  std::mutex mutex_;
  std::condition_variable opened_;
};

}  // namespace topoflow

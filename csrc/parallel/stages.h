// Work in stages of a few pieces each, shared by threads of a CPU.
//
// A thread begins with its own piece and then takes those that nobody has begun. So no stage waits for a thread that
// another program keeps from its processor, unless it was interrupted in the middle of a piece. Whoever ends the last
// piece of a stage prepares the next one while the others wait.
//
//   stage        1            2            3
//   thread 0     piece 0      piece 0, 1   piece 0
//   thread 1     piece 1      interrupted  piece 1
//
// Stages come some hundred thousand times a second and their pieces take about equally long, so a thread waits awake;
// one that has waited long sleeps, as another program may have the processor of the one that is late.
//
// Source: self-scheduling of independent iterations, Kruskal and Weiss, "Allocating independent subtasks on parallel
// processors", IEEE Trans. Software Engineering SE-11(10), 1985; a central barrier, Mellor-Crummey and Scott,
// "Algorithms for scalable synchronization on shared-memory multiprocessors", ACM Trans. Computer Systems 9(1), 1991.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace topoflow {

class Stages {
 public:
  explicit Stages(int32_t pieces) : pieces_(pieces), last_begun_(pieces) {}

  // Calls work(piece) once for each piece of a stage and then prepare(), until that says that there is no next stage.
  // All threads call it, with numbers from 0 on; more of them than pieces return at once. What is done in a stage is
  // seen in those that follow.
  template <class Work, class Prepare>
  void run(int32_t thread, const Work& work, const Prepare& prepare) {
    if (thread >= pieces_) return;
    for (uint64_t stage = stage_.load(std::memory_order_acquire); stage != kOver; stage = after(stage)) {
      for (int32_t i = 0; i < pieces_; ++i) {
        const int32_t piece = (thread + i) % pieces_;
        if (!begin(piece, stage)) continue;
        work(piece);
        if (ended_.fetch_add(1, std::memory_order_acq_rel) + 1 < pieces_) continue;
        ended_.store(0, std::memory_order_relaxed);
        publish(prepare() ? stage + 1 : kOver);
      }
    }
  }

 private:
  static constexpr uint64_t kOver = 0;
  // About 0.1 ms where a pause takes 140 cycles, longer than a sleeper needs to wake.
  static constexpr int kSpins = 2000;

  struct alignas(64) Begun {
    std::atomic<uint64_t> stage = 0;
  };

  // Returns whether this thread is the first to begin a piece of a stage. One that is late finds a later stage here.
  bool begin(int32_t piece, uint64_t stage) {
    uint64_t before = stage - 1;
    std::atomic<uint64_t>& last = last_begun_[piece].stage;
    return last.load(std::memory_order_relaxed) == before &&
           last.compare_exchange_strong(before, stage, std::memory_order_acquire, std::memory_order_relaxed);
  }

  // Waits for the stage after this one.
  uint64_t after(uint64_t stage) {
    for (int i = 0; i < kSpins; ++i) {
      const uint64_t now = stage_.load(std::memory_order_acquire);
      if (now != stage) return now;
      relax();
    }
    sleeping_.fetch_add(1, std::memory_order_seq_cst);
    {
      std::unique_lock lock(mutex_);
      published_.wait(lock, [&] { return stage_.load(std::memory_order_seq_cst) != stage; });
    }
    sleeping_.fetch_sub(1, std::memory_order_relaxed);
    return stage_.load(std::memory_order_acquire);
  }

  // The stage changes before `sleeping_` is read, and the other way round in after(), both in one order for all
  // threads: whoever sleeps is seen. (The notify of an atomic number does not promise that: gcc 12 may read who waits
  // first.)
  void publish(uint64_t stage) {
    stage_.store(stage, std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst) == 0) return;
    const std::lock_guard lock(mutex_);
    published_.notify_all();
  }

  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  const int32_t pieces_;
  std::vector<Begun> last_begun_;               // [pieces] the stage in which each was begun last
  alignas(64) std::atomic<int32_t> ended_ = 0;  // pieces of this stage
  alignas(64) std::atomic<uint64_t> stage_ = 1;
  std::atomic<int32_t> sleeping_ = 0;
  std::mutex mutex_;
  std::condition_variable published_;
};

}  // namespace topoflow

// Blocks of threads, as fibers of one OS thread.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "fiber.h"
#include "findings.h"

namespace emulation {

constexpr unsigned kLanes = 32;  // of a warp

// What threads wait for together: the others of the block, or the lanes of `mask` of a warp.
enum class Primitive : uint8_t {
  kNone,
  kBarrier,
  kBarrierOr,
  kBarrierAnd,
  kBarrierCount,
  kSyncWarp,
  kShuffle,      // of lane `argument`
  kShuffleUp,    // of the lane `argument` below
  kShuffleDown,  // of the lane `argument` above
  kShuffleXor,   // of the lane whose number differs in the bits of `argument`
  kBallot,
  kMatchAny,
  kReduceAdd,
  kReduceMin,
  kReduceMax,
  kReduceMinSigned,
  kReduceMaxSigned,
  kReduceAnd,
  kReduceOr,
  kReduceXor
};

struct Wait {
  Primitive what = Primitive::kNone;
  unsigned mask = 0;  // 0: the whole block
  uint64_t value = 0;
  int argument = 0;
  Site site = nullptr;
};

class Block;

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  unsigned index = 0;  // in the block
  bool ended = false;
  Wait wait;
  uint64_t result = 0;  // of the wait
};

class Block {
 public:
  Block(unsigned index, unsigned threads, size_t shared, int device);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  unsigned index() const { return index_; }
  unsigned threads() const { return count_; }
  std::byte* shared() const { return shared_; }
  Thread& thread(unsigned i) { return threads_[i]; }
  uint32_t epoch() const { return epoch_; }
  uint32_t warp_epoch(unsigned thread) const { return warps_[thread / kLanes].epoch; }
  bool ended() const { return ended_ == count_; }

  // The thread waits, or has ended: whoever can go on is put to the ready ones. False after a fault.
  bool arrive(Thread& thread, std::vector<Thread*>& ready);

  // Why nobody is ready although not all have ended.
  void report_deadlock();

 private:
  struct Warp {
    unsigned waiting = 0;  // lanes
    uint32_t epoch = 0;    // times that all have synchronised
  };

  bool release(std::vector<Thread*>& ready);

  unsigned index_, count_, waiting_ = 0, ended_ = 0;
  uint32_t epoch_ = 0;
  std::unique_ptr<Thread[]> threads_;
  std::vector<Warp> warps_;
  std::vector<Thread*> together_;
  std::byte* shared_;
};

struct Kernel {
  const char* name;
  unsigned blocks, threads;
  size_t shared;  // B
  void (*body)(const void*);
  const void* arguments;
};

// Runs all blocks; false after a fault, which is a finding.
bool run(const Kernel& kernel, int device);

// Of the running thread of device code; null in code of the host.
extern thread_local Thread* current;
int current_device();  // where the running kernel runs
uint32_t launch_number();
unsigned grid_size();  // blocks

uint64_t wait(const Wait& wait);  // until all have come; what the primitive returns
void interrupt();                 // others may run now
[[noreturn]] void fault();        // of the running thread: the kernel ends here, after a finding

}  // namespace emulation

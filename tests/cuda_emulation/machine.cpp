#include "machine.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "counts.h"
#include "memory.h"
#include "settings.h"

namespace emulation {

thread_local Thread* current = nullptr;

namespace {

constexpr unsigned kResident = 4;    // blocks that are on the device at once
constexpr uint64_t kInterrupt = 40;  // accesses between interruptions on average, with a seed

bool of_block(Primitive what) { return what >= Primitive::kBarrier && what <= Primitive::kBarrierCount; }

// The lane that a shuffle reads; more than a warp has: its own value.
unsigned source_of(const Wait& wait, unsigned lane) {
  const auto argument = static_cast<unsigned>(wait.argument);
  switch (wait.what) {
    case Primitive::kShuffle:
      return argument % kLanes;
    case Primitive::kShuffleUp:
      return argument > lane ? kLanes : lane - argument;
    case Primitive::kShuffleDown:
      return lane + argument;
    default:
      return lane ^ argument;
  }
}

// What the primitive makes of what two threads give.
uint64_t both(Primitive what, uint64_t a, uint64_t b) {
  const auto as_signed = [](uint64_t value) { return static_cast<int32_t>(value); };
  switch (what) {
    case Primitive::kBarrierAnd:
    case Primitive::kReduceAnd:
      return a & b;
    case Primitive::kBarrierCount:
    case Primitive::kReduceAdd:
      return static_cast<uint32_t>(a + b);
    case Primitive::kReduceMin:
      return std::min(a, b);
    case Primitive::kReduceMax:
      return std::max(a, b);
    case Primitive::kReduceMinSigned:
      return as_signed(a) < as_signed(b) ? a : b;
    case Primitive::kReduceMaxSigned:
      return as_signed(a) > as_signed(b) ? a : b;
    case Primitive::kReduceXor:
      return a ^ b;
    default:  // kBarrierOr, kReduceOr, kBallot (a bit of every lane)
      return a | b;
  }
}

// Gives each of them what it waits for. All wait for the same primitive.
void combine(const std::vector<Thread*>& together) {
  const Primitive what = together.front()->wait.what;
  if (what == Primitive::kBarrier || what == Primitive::kSyncWarp) return;
  if (what < Primitive::kShuffle || what > Primitive::kMatchAny) {
    uint64_t all = together.front()->wait.value;
    for (const Thread* const thread : together)
      if (thread != together.front()) all = both(what, all, thread->wait.value);
    for (Thread* const thread : together) thread->result = all;
    return;
  }
  uint64_t values[kLanes] = {};
  unsigned present = 0, ballot = 0;
  for (const Thread* const thread : together) {
    const unsigned lane = thread->index % kLanes;
    values[lane] = thread->wait.value;
    present |= 1u << lane;
    ballot |= static_cast<unsigned>(thread->wait.value != 0) << lane;
  }
  for (Thread* const thread : together) {
    const unsigned lane = thread->index % kLanes;
    if (what == Primitive::kBallot) {
      thread->result = ballot;
    } else if (what == Primitive::kMatchAny) {
      thread->result = 0;
      for (unsigned other = 0; other < kLanes; ++other)
        if (present >> other & 1 && values[other] == values[lane]) thread->result |= 1u << other;
    } else {
      const unsigned from = source_of(thread->wait, lane);
      thread->result = from < kLanes ? values[from] : values[lane];
      if (from < kLanes && !(present >> from & 1))
        report("a shuffle reads a lane outside of its mask", {thread->wait.site});
    }
  }
}

// One kernel runs at a time, whatever threads of the host launch.
class Run {
 public:
  Run(const Kernel& kernel, int device) : kernel_(kernel), device_(device), random_(seed() * 1000003 + number_) {
    ++number_;
  }

  bool run() {
    active_ = this;
    while (!failed_ && (begun_ < kernel_.blocks || !blocks_.empty())) {
      while (begun_ < kernel_.blocks && blocks_.size() < kResident) begin(begun_++);
      step();
    }
    active_ = nullptr;
    return !failed_;
  }

  void fail() { failed_ = true; }
  const Kernel& kernel() const { return kernel_; }
  int device() const { return device_; }
  uint64_t draw(uint64_t limit) { return random_() % limit; }

  static inline thread_local Run* active_ = nullptr;
  static inline uint32_t number_ = 0;

 private:
  void begin(unsigned index) {
    blocks_.push_back(std::make_unique<Block>(index, kernel_.threads, kernel_.shared, device_));
    Block& block = *blocks_.back();
    for (unsigned i = kernel_.threads; i-- > 0;) {
      block.thread(i).fiber.prepare(
          [](void* self) {
            active_->kernel_.body(active_->kernel_.arguments);
            static_cast<Thread*>(self)->ended = true;
            static_cast<Thread*>(self)->fiber.stop();
          },
          &block.thread(i));
      ready_.push_back(&block.thread(i));
    }
  }

  void step() {
    if (ready_.empty()) {
      for (const auto& block : blocks_) block->report_deadlock();
      return fail();
    }
    if (seed()) std::swap(ready_[random_() % ready_.size()], ready_.back());
    Thread& thread = *ready_.back();
    ready_.pop_back();
    current = &thread;
    thread.fiber.run();
    current = nullptr;
    if (failed_) return;
    if (!thread.ended && thread.wait.what == Primitive::kNone) {  // interrupted: the others first
      ready_.insert(ready_.begin(), &thread);
      return;
    }
    if (!thread.block->arrive(thread, ready_)) return fail();
    if (thread.block->ended())
      blocks_.erase(std::find_if(blocks_.begin(), blocks_.end(), [](const auto& one) { return one->ended(); }));
  }

  const Kernel& kernel_;
  int device_;
  bool failed_ = false;
  unsigned begun_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<Thread*> ready_;
  std::mt19937_64 random_;
};

}  // namespace

Block::Block(unsigned index, unsigned threads, size_t shared, int device)
    : index_(index),
      count_(threads),
      threads_(new Thread[threads]),
      warps_((threads + kLanes - 1) / kLanes),
      shared_(static_cast<std::byte*>(allocate(std::max<size_t>(shared, 1), Kind::kShared, device))) {
  for (unsigned i = 0; i < threads; ++i) {
    threads_[i].block = this;
    threads_[i].index = i;
  }
}

Block::~Block() { emulation::release(shared_); }

bool Block::arrive(Thread& thread, std::vector<Thread*>& ready) {
  if (thread.ended) {
    ++ended_;
    return true;
  }
  const Wait& wait = thread.wait;
  if (of_block(wait.what)) {
    if (++waiting_ < count_) return true;
    waiting_ = 0;
    together_.resize(count_);
    for (unsigned i = 0; i < count_; ++i) together_[i] = &threads_[count_ - 1 - i];
    counts.barrier(index_);
    ++epoch_;
    return release(ready);
  }
  Warp& warp = warps_[thread.index / kLanes];
  const unsigned first = thread.index / kLanes * kLanes, lanes = std::min(kLanes, count_ - first);
  const unsigned all = lanes == kLanes ? ~0u : (1u << lanes) - 1;
  const unsigned mask = wait.mask == ~0u ? all : wait.mask;
  warp.waiting |= 1u << (thread.index - first);
  if (!(mask >> (thread.index - first) & 1) || mask & ~all) {
    report("a mask must name the thread that gives it, and none that the block lacks", {wait.site});
    return false;
  }
  if ((warp.waiting & mask) != mask) return true;
  together_.clear();
  for (unsigned lane = lanes; lane-- > 0;)
    if (mask >> lane & 1) together_.push_back(&threads_[first + lane]);
  warp.waiting &= ~mask;
  counts.warp(index_, wait.what == Primitive::kSyncWarp, count_ <= kLanes);
  // Shuffles exchange values and order no memory; all lanes at once at __syncwarp do.
  if (wait.what == Primitive::kSyncWarp && mask == all) ++warp.epoch;
  return release(ready);
}

// Those that wait together go on, the first of them first. False if they wait for different things: the compiler may
// merge two waits of the source to one, but never splits one.
bool Block::release(std::vector<Thread*>& ready) {
  const Wait one = together_.front()->wait;
  for (const Thread* const thread : together_) {
    const Wait& other = thread->wait;
    if (one.site == other.site && one.what == other.what && one.mask == other.mask) continue;
    report("threads of a block wait for each other at different places", {one.site, other.site});
    return false;
  }
  combine(together_);
  for (Thread* const thread : together_) {
    thread->wait.what = Primitive::kNone;
    ready.push_back(thread);
  }
  return true;
}

void Block::report_deadlock() {
  if (ended()) return;
  std::vector<Site> sites;
  for (unsigned i = 0; i < count_; ++i)
    if (!threads_[i].ended && std::find(sites.begin(), sites.end(), threads_[i].wait.site) == sites.end())
      sites.push_back(threads_[i].wait.site);
  report(std::string("threads of a block wait for others that ") + (ended_ ? "have ended" : "wait elsewhere"), sites);
}

bool run(const Kernel& kernel, int device) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  counts.launch();
  return Run(kernel, device).run();
}

int current_device() { return Run::active_->device(); }
uint32_t launch_number() { return Run::number_; }
unsigned grid_size() { return Run::active_->kernel().blocks; }

uint64_t wait(const Wait& wait) {
  Thread& me = *current;
  if (wait.what == Primitive::kSyncWarp && me.index % kLanes == 0 && Counts::accesses()) counts.place();
  me.wait = wait;
  me.fiber.stop();
  return me.result;
}

void interrupt() {
  if (seed() && Run::active_->draw(kInterrupt) == 0) current->fiber.stop();
}

void fault() {
  Run::active_->fail();
  current->fiber.stop();
  __builtin_unreachable();
}

}  // namespace emulation

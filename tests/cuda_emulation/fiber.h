// Threads of execution that one OS thread switches between.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulation {

class Fiber {
 public:
  static constexpr size_t kStack = 128 << 10;  // B

  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The next run() calls entry(argument), which must end with stop() and never return.
  void prepare(void (*entry)(void*), void* argument);

  void run();   // of the scheduler: until the fiber stops
  void stop();  // of the fiber: back to the scheduler

  bool holds(const void* address) const {
    const auto* const byte = static_cast<const char*>(address);
    return byte >= stack_ && byte < stack_ + kStack;
  }

 private:
  char* stack_ = nullptr;
#ifdef __x86_64__
  void *inside_ = nullptr, *outside_ = nullptr;
#else
  ucontext_t inside_, outside_;
#endif
};

}  // namespace emulation

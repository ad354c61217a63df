#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

namespace emulation {
namespace {

std::mutex stacks_mutex;
std::vector<char*>& free_stacks() {
  static auto* const stacks = new std::vector<char*>;  // never destroyed: fibers may outlive static objects
  return *stacks;
}

char* take_stack() {
  const std::lock_guard lock(stacks_mutex);
  if (!free_stacks().empty()) {
    char* const stack = free_stacks().back();
    free_stacks().pop_back();
    return stack;
  }
  void* const stack = mmap(nullptr, Fiber::kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(stack);
}

}  // namespace

Fiber::~Fiber() {
  if (!stack_) return;
  const std::lock_guard lock(stacks_mutex);
  free_stacks().push_back(stack_);
}

#ifdef __x86_64__

// Saves what the System V ABI lets a function expect of its callee, and takes up another stack.
extern "C" void emulation_switch(void** from, void* to);
asm(R"(
.text
.p2align 4
.globl emulation_switch
.hidden emulation_switch
.type emulation_switch,@function
emulation_switch:
  endbr64
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulation_switch, .-emulation_switch

.globl emulation_enter
.hidden emulation_enter
.type emulation_enter,@function
emulation_enter:
  endbr64
  movq %r12, %rdi
  call *%r13
  ud2
.size emulation_enter, .-emulation_enter
)");
extern "C" void emulation_enter();

void Fiber::prepare(void (*entry)(void*), void* argument) {
  if (!stack_) stack_ = take_stack();
  auto** top = reinterpret_cast<void**>(stack_ + kStack - 64);  // aligned to 16 bytes where `entry` is called
  *--top = reinterpret_cast<void*>(&emulation_enter);
  *--top = nullptr;                         // rbp
  *--top = nullptr;                         // rbx
  *--top = argument;                        // r12
  *--top = reinterpret_cast<void*>(entry);  // r13
  *--top = nullptr;                         // r14
  *--top = nullptr;                         // r15
  inside_ = top;
}
void Fiber::run() { emulation_switch(&outside_, inside_); }
void Fiber::stop() { emulation_switch(&inside_, outside_); }

#else

namespace {
void enter(unsigned entry_high, unsigned entry_low, unsigned argument_high, unsigned argument_low) {
  const auto joined = [](unsigned high, unsigned low) { return (static_cast<uintptr_t>(high) << 32) | low; };
  reinterpret_cast<void (*)(void*)>(joined(entry_high, entry_low))(
      reinterpret_cast<void*>(joined(argument_high, argument_low)));
}
}  // namespace

void Fiber::prepare(void (*entry)(void*), void* argument) {
  if (!stack_) stack_ = take_stack();
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStack;
  const auto code = reinterpret_cast<uintptr_t>(entry), data = reinterpret_cast<uintptr_t>(argument);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&enter), 4, static_cast<unsigned>(code >> 32),
              static_cast<unsigned>(code), static_cast<unsigned>(data >> 32), static_cast<unsigned>(data));
}
void Fiber::run() { swapcontext(&outside_, &inside_); }
void Fiber::stop() { swapcontext(&inside_, &outside_); }

#endif

}  // namespace emulation

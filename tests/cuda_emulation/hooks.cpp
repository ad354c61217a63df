// What the compiler calls in code that it instruments: -fsanitize=thread before every access of memory,
// -fsanitize=float-cast-overflow where a floating-point number does not fit into the integer that it is cast to.
//
// Source: GCC's gcc/sanitizer.def and tsan's and ubsan's interface headers name these functions. Neither library is
// linked.
#include <cstddef>
#include <cstdint>

#include "machine.h"
#include "memory.h"

namespace {

using emulation::Access;

inline void access(const void* address, size_t bytes, Access kind, const void* site) {
  if (!emulation::current) return;  // code of the host
  emulation::touch(address, bytes, kind, site);
  emulation::interrupt();
}

}  // namespace

extern "C" {

#define SITE __builtin_return_address(0)
#define ACCESSES(n)                                                               \
  void __tsan_read##n(void* p) { access(p, n, Access::kRead, SITE); }             \
  void __tsan_write##n(void* p) { access(p, n, Access::kWrite, SITE); }           \
  void __tsan_unaligned_read##n(void* p) { access(p, n, Access::kRead, SITE); }   \
  void __tsan_unaligned_write##n(void* p) { access(p, n, Access::kWrite, SITE); } \
  void __tsan_volatile_read##n(void* p) { access(p, n, Access::kAtomic, SITE); }  \
  void __tsan_volatile_write##n(void* p) { access(p, n, Access::kAtomic, SITE); }
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* p, size_t n) { access(p, n, Access::kRead, SITE); }
void __tsan_write_range(void* p, size_t n) { access(p, n, Access::kWrite, SITE); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Atomics of the C++ library in code of the host; the order is always the strictest.
#define ATOMICS(bits)                                                                                     \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* p, int) {                      \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                       \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* p, uint##bits##_t v, int) {                   \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                       \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* p, uint##bits##_t v, int) {      \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                   \
  }                                                                                                       \
  uint##bits##_t __tsan_atomic##bits##_fetch_add(volatile uint##bits##_t* p, uint##bits##_t v, int) {     \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  uint##bits##_t __tsan_atomic##bits##_fetch_sub(volatile uint##bits##_t* p, uint##bits##_t v, int) {     \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                    \
  }                                                                                                       \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* p, uint##bits##_t* expected, \
                                                    uint##bits##_t v, int, int) {                         \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
  }
ATOMICS(8)
ATOMICS(32)
ATOMICS(64)

// PTX gives the nearest integer for what is too large, x86 the lowest (PTX ISA 9.0, cvt); C++ leaves it undefined.
void __ubsan_handle_float_cast_overflow(void*, void*) {
  if (emulation::current) emulation::report("cast of a number that does not fit into the integer", {SITE});
}
}

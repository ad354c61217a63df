// What device code calls.
#include "cuda_emulation.h"
#include "machine.h"
#include "memory.h"

namespace emulation {
namespace {

constexpr unsigned kWholeBlock = 0;

int barrier(Primitive what, int value, Site site) {
  return static_cast<int>(wait({what, kWholeBlock, value != 0, 0, site}));
}

unsigned reduce(Primitive what, unsigned mask, unsigned value, Site site) {
  return static_cast<unsigned>(wait({what, mask, value, 0, site}));
}

}  // namespace

dim3 thread_index() { return {current->index, 0, 0}; }
dim3 block_index() { return {current->block->index(), 0, 0}; }
dim3 block_size() { return {current->block->threads(), 1, 1}; }
dim3 grid_dimensions() { return {grid_size(), 1, 1}; }
std::byte* shared() { return current->block->shared(); }

uint64_t exchange(Exchange what, unsigned mask, uint64_t value, int argument, const void* site) {
  constexpr Primitive primitives[] = {Primitive::kShuffle, Primitive::kShuffleUp, Primitive::kShuffleDown,
                                      Primitive::kShuffleXor, Primitive::kMatchAny};
  return wait({primitives[static_cast<int>(what)], mask, value, argument, site});
}

void* atomic(void* address, size_t bytes, const void* site) {
  interrupt();
  touch(address, bytes, Access::kAtomic, site);
  return address;
}

}  // namespace emulation

using emulation::Primitive;

#define SITE __builtin_return_address(0)

void __syncthreads() { emulation::barrier(Primitive::kBarrier, 0, SITE); }
int __syncthreads_or(int predicate) { return emulation::barrier(Primitive::kBarrierOr, predicate, SITE); }
int __syncthreads_and(int predicate) { return emulation::barrier(Primitive::kBarrierAnd, predicate, SITE); }
int __syncthreads_count(int predicate) { return emulation::barrier(Primitive::kBarrierCount, predicate, SITE); }

void __syncwarp(unsigned mask) { emulation::wait({Primitive::kSyncWarp, mask, 0, 0, SITE}); }
unsigned __ballot_sync(unsigned mask, int predicate) {
  return emulation::reduce(Primitive::kBallot, mask, static_cast<unsigned>(predicate), SITE);
}
int __any_sync(unsigned mask, int predicate) {
  return static_cast<int>(emulation::reduce(Primitive::kReduceOr, mask, predicate != 0, SITE));
}
int __all_sync(unsigned mask, int predicate) {
  return static_cast<int>(emulation::reduce(Primitive::kReduceAnd, mask, predicate != 0, SITE));
}

#define REDUCE(T, name, what)                                                                            \
  T name(unsigned mask, T value) {                                                                       \
    return static_cast<T>(emulation::reduce(Primitive::what, mask, static_cast<unsigned>(value), SITE)); \
  }
REDUCE(unsigned, __reduce_add_sync, kReduceAdd)
REDUCE(unsigned, __reduce_min_sync, kReduceMin)
REDUCE(unsigned, __reduce_max_sync, kReduceMax)
REDUCE(int, __reduce_add_sync, kReduceAdd)
REDUCE(int, __reduce_min_sync, kReduceMinSigned)
REDUCE(int, __reduce_max_sync, kReduceMaxSigned)
REDUCE(unsigned, __reduce_and_sync, kReduceAnd)
REDUCE(unsigned, __reduce_or_sync, kReduceOr)
REDUCE(unsigned, __reduce_xor_sync, kReduceXor)

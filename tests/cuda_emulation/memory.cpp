#include "memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "counts.h"
#include "machine.h"
#include "settings.h"

namespace emulation {
namespace {

constexpr size_t kPage = 4096, kWord = 4;

struct Accessor {
  uint32_t launch = 0, block = 0, thread = 0;  // thread: of the block
  uint32_t epoch = 0, warp_epoch = 0;
  const void* site = nullptr;
};

// A word of shared memory is one of 16 bits, since kernels keep such numbers there.
size_t word_bytes(Kind kind) { return kind == Kind::kShared ? 2 : kWord; }

// The last accesses to one word.
struct Word {
  Accessor write, read, other_read, atomic;
  bool written = false;
};

struct Area {
  uintptr_t begin;
  size_t bytes, pages;  // B that were asked for, and are mapped
  Kind kind;
  int device;
  Word* words;  // of all its bytes; mapped as they are touched
};

size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

void* map(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

class Areas {
 public:
  Area* find(uintptr_t address) {
    auto after = areas_.upper_bound(address);
    if (after == areas_.begin()) return nullptr;
    Area& area = (--after)->second;
    if (address - area.begin >= rounded(area.bytes, kPage)) return nullptr;
    return &area;
  }
  void add(const Area& area) { areas_[area.begin] = area; }
  void erase(uintptr_t begin) { areas_.erase(begin); }

 private:
  std::map<uintptr_t, Area> areas_;
};

std::recursive_mutex mutex;
Areas& areas() {
  static auto* const all = new Areas;
  return *all;
}
std::atomic<uint64_t> changes = 0;  // of the areas

// Those that device code has used last are found without a lock.
const Area* find(uintptr_t address) {
  constexpr size_t kRecent = 8;
  static thread_local Area recent[kRecent];
  static thread_local uint64_t known = 0;
  static thread_local size_t next = 0;
  if (known != changes.load(std::memory_order_acquire)) {
    known = changes.load(std::memory_order_acquire);
    for (Area& area : recent) area = {};
  }
  for (const Area& area : recent)
    if (address - area.begin < area.pages) return &area;
  const std::lock_guard lock(mutex);
  const Area* const area = areas().find(address);
  if (!area) return nullptr;
  next = (next + 1) % kRecent;
  recent[next] = *area;
  return &recent[next];
}

std::map<int, size_t>& taken() {
  static auto* const bytes = new std::map<int, size_t>;
  return *bytes;
}

const char* name(Kind kind) {
  return kind == Kind::kShared ? "shared memory" : kind == Kind::kArguments ? "arguments of the kernel" : "memory";
}

// Whether nothing orders them: no barrier of their block, and none of their warp, lies between them.
bool unordered(const Accessor& earlier, const Accessor& now) {
  if (earlier.launch != now.launch) return false;
  if (earlier.block != now.block) return true;
  if (earlier.epoch != now.epoch || earlier.thread == now.thread) return false;
  return earlier.thread / kLanes != now.thread / kLanes || earlier.warp_epoch == now.warp_epoch;
}

void check_races(Word& word, const Accessor& now, Access access, Kind kind) {
  const auto clash = [&](const Accessor& earlier, const char* what) {
    if (unordered(earlier, now)) report(std::string("race in ") + name(kind) + ", " + what, {earlier.site, now.site});
  };
  if (access == Access::kRead) {
    clash(word.write, "a write and a read");
    clash(word.atomic, "an atomic and a read");
    if (word.read.thread != now.thread || word.read.block != now.block) word.other_read = word.read;
    word.read = now;
    return;
  }
  const bool atomic = access == Access::kAtomic;
  clash(word.write, atomic ? "a write and an atomic" : "two writes");
  if (!atomic) clash(word.atomic, "an atomic and a write");
  clash(word.read, atomic ? "a read and an atomic" : "a read and a write");
  clash(word.other_read, atomic ? "a read and an atomic" : "a read and a write");
  (atomic ? word.atomic : word.write) = now;
}

// A word of poison that no device code has written may still have been written by the host, with other values.
void check_initialised(Word& word, uintptr_t address, const Accessor& now, const Area& area) {
  uint32_t value = kPoison;
  std::memcpy(&value, reinterpret_cast<const void*>(address), word_bytes(area.kind));
  if (!word.written && value == kPoison) report(std::string("read of uninitialised ") + name(area.kind), {now.site});
}

[[noreturn]] void illegal(const std::string& what, const void* site) {
  report(what, {site});
  fault();
}

// Constants, which nvcc puts into the device's memory.
bool of_the_program(const void* address) {
  Dl_info of_address{}, of_this{};
  return dladdr(address, &of_address) && dladdr(reinterpret_cast<const void*>(&illegal), &of_this) &&
         of_address.dli_fbase == of_this.dli_fbase;
}

}  // namespace

void poison(void* memory, size_t bytes) {
  const std::lock_guard lock(mutex);
  auto* const word = static_cast<unsigned char*>(memory);
  for (size_t i = 0; i + kWord <= rounded(bytes, kWord); i += kWord) std::memcpy(word + i, &kPoison, kWord);
  if (Area* const area = areas().find(reinterpret_cast<uintptr_t>(memory)))
    madvise(area->words, area->pages / word_bytes(area->kind) * sizeof(Word), MADV_DONTNEED);
}

void* allocate(size_t bytes, Kind kind, int device) {
  const std::lock_guard lock(mutex);
  if (kind == Kind::kDevice && bytes > memory_left(device)) return nullptr;
  const size_t pages = rounded(bytes ? bytes : 1, kPage);
  void* const memory = map(pages);
  void* const words = map(pages / word_bytes(kind) * sizeof(Word));
  if (!memory || !words) return nullptr;
  areas().add({reinterpret_cast<uintptr_t>(memory), bytes, pages, kind, device, static_cast<Word*>(words)});
  if (kind == Kind::kDevice) taken()[device] += bytes;
  for (size_t i = 0; i < rounded(bytes, kWord); i += kWord)
    std::memcpy(static_cast<char*>(memory) + i, &kPoison, kWord);
  return memory;
}

bool release(void* memory) {
  const std::lock_guard lock(mutex);
  if (!memory) return true;
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  Area* const area = areas().find(begin);
  if (!area || area->begin != begin) return false;
  if (area->kind == Kind::kDevice) taken()[area->device] -= area->bytes;
  munmap(memory, area->pages);
  munmap(area->words, area->pages / word_bytes(area->kind) * sizeof(Word));
  areas().erase(begin);
  ++changes;
  return true;
}

size_t memory_of_a_device() {  // a test may change it
  return static_cast<size_t>(setting("CUDA_EMULATION_MEMORY", int64_t{4} << 30));
}
size_t memory_left(int device) {
  const std::lock_guard lock(mutex);
  return memory_of_a_device() - std::min(taken()[device], memory_of_a_device());
}

void touch(const void* pointer, size_t bytes, Access access, const void* site) {
  Thread* const me = current;
  if (!me || me->fiber.holds(pointer)) return;
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const Area* const area = find(address);
  if (!area) {
    if (access == Access::kRead && of_the_program(pointer)) return;
    illegal("access of memory that is none of the device's, or of another thread's stack", site);
  }
  if (address + bytes > area->begin + area->bytes)
    illegal(std::string("access after the end of ") + name(area->kind), site);
  if (area->device != kAnyDevice && area->device != current_device())
    illegal("access of another device's memory", site);
  const Block& block = *me->block;
  if (area->kind == Kind::kShared && reinterpret_cast<std::byte*>(area->begin) != block.shared())
    illegal("access of another block's shared memory", site);
  if (area->kind == Kind::kArguments) {
    if (access != Access::kRead) illegal("write to the arguments of the kernel", site);
    return;
  }
  if (Counts::accesses())
    counts.access(block.index(), me->index, address, bytes, access, area->kind == Kind::kShared, site);
  const Accessor now{launch_number(), block.index(), me->index, block.epoch(), block.warp_epoch(me->index), site};
  const size_t step = word_bytes(area->kind);
  for (uintptr_t at = address / step * step; at < address + bytes; at += step) {
    Word& word = area->words[(at - area->begin) / step];
    if (access != Access::kWrite && area->kind != Kind::kPinned) check_initialised(word, at, now, *area);
    word.written |= access != Access::kRead;
    check_races(word, now, access, area->kind);
  }
}

}  // namespace emulation

// What device code costs that does not depend on the device.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "findings.h"
#include "memory.h"

namespace emulation {

// A block's share of a cache: the sectors that it used last.
class Cache {
 public:
  explicit Cache(size_t sectors) : capacity_(sectors) {}

  // Whether it has the sector, which is the last from now on.
  bool use(uintptr_t sector);

 private:
  size_t capacity_;
  std::list<uintptr_t> sectors_;  // the last first
  std::unordered_map<uintptr_t, std::list<uintptr_t>::iterator> places_;
};

// Of all launches since the last take(). An epoch lies between two barriers of a block; a block of one warp has one at
// each __syncwarp, too. The n-th access of a place in the code by the lanes of a warp in an epoch is one request.
class Counts {
 public:
  void launch() { ++totals_["launches"]; }
  void barrier(unsigned block) {
    ++totals_["barriers"];
    end_epoch(block);
  }
  void warp(unsigned block, bool is_barrier, bool only_warp) {
    ++totals_[is_barrier ? "warp_barriers" : "warp_exchanges"];
    if (is_barrier && only_warp) end_epoch(block);
  }

  // Only with CUDA_EMULATION_COUNT, as it takes long.
  void access(unsigned block, unsigned thread, uintptr_t address, size_t bytes, Access access, bool shared,
              const void* site);
  static bool accesses();

  // Likewise: a barrier of a warp that is waited for where the running thread is, and where its callers are.
  void place();

  std::string take();    // "name number" a line
  std::string places();  // "number @1a2b@ @3c4d@" a line, as findings have places; before take()

 private:
  struct Request {
    std::unordered_set<uintptr_t> sectors;
    bool shared, waits;
  };
  struct Epoch {
    std::map<std::tuple<unsigned, const void*, uint32_t>, Request> requests;  // by warp, place, how often before
    std::map<std::pair<unsigned, const void*>, uint32_t> times;               // by thread, place
  };

  void end_epoch(unsigned block);
  void look_up(const Request& request);

  std::map<std::string, uint64_t> totals_;
  std::map<std::vector<Site>, uint64_t> places_;  // of barriers of warps, the innermost first
  std::map<size_t, Cache> caches_;                // by KiB
  std::unordered_map<unsigned, Epoch> epochs_;    // by block
};
extern Counts counts;

}  // namespace emulation

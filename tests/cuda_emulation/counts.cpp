#include "counts.h"

#include <algorithm>

#include "machine.h"
#include "settings.h"

namespace emulation {

Counts counts;

bool Counts::accesses() {
  static const bool wanted = setting("CUDA_EMULATION_COUNT", 0) != 0;
  return wanted;
}

void Counts::access(unsigned block, unsigned thread, uintptr_t address, size_t bytes, Access access, bool shared,
                    const void* site) {
  constexpr uintptr_t kSector = 32;  // B that a request of global memory moves at least
  Epoch& epoch = epochs_[block];
  const uint32_t before = epoch.times[{thread, site}]++;
  Request& request = epoch.requests[{thread / kLanes, site, before}];
  request.shared = shared;
  request.waits = access != Access::kWrite;
  for (uintptr_t sector = address / kSector; sector <= (address + bytes - 1) / kSector; ++sector)
    request.sectors.insert(sector);
}

// A warp waits for what it reads, at most once for each request; the slowest warp decides.
void Counts::end_epoch(unsigned block) {
  if (!accesses()) return;
  Epoch& epoch = epochs_[block];
  std::map<unsigned, std::pair<uint64_t, uint64_t>> chains;  // of each warp: global, shared
  for (const auto& [key, request] : epoch.requests) {
    ++totals_[request.shared ? "shared_requests" : "global_requests"];
    if (!request.shared) totals_["global_sectors"] += request.sectors.size();
    auto& [global, shared] = chains[std::get<0>(key)];
    if (request.waits) ++(request.shared ? shared : global);
  }
  uint64_t global = 0, shared = 0;
  for (const auto& [warp, chain] : chains) {
    global = std::max(global, chain.first);
    shared = std::max(shared, chain.second);
  }
  totals_["global_chain"] += global;
  totals_["shared_chain"] += shared;
  epochs_.erase(block);
}

std::string Counts::take() {
  std::string text;
  for (const auto& [name, number] : totals_) text += name + " " + std::to_string(number) + "\n";
  totals_.clear();
  epochs_.clear();
  return text;
}

}  // namespace emulation

// The text is valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* emulation_counts() {
  static std::string text;
  text = emulation::counts.take();
  return text.c_str();
}

#include "counts.h"

#include <unwind.h>

#include <algorithm>

#include "machine.h"
#include "settings.h"

namespace emulation {

Counts counts;

namespace {

constexpr uintptr_t kSector = 32;  // B that a request of global memory moves at least
// KiB that a block may have of a first-level cache, or of the second level, where few or many share it.
constexpr size_t kCaches[] = {1, 2, 4, 8, 16, 24, 32, 64};

}  // namespace

bool Cache::use(uintptr_t sector) {
  const auto [place, is_new] = places_.try_emplace(sector);
  if (!is_new) sectors_.erase(place->second);
  sectors_.push_front(sector);
  place->second = sectors_.begin();
  if (sectors_.size() > capacity_) {
    places_.erase(sectors_.back());
    sectors_.pop_back();
  }
  return !is_new;
}

bool Counts::accesses() {
  static const bool wanted = setting("CUDA_EMULATION_COUNT", 0) != 0;
  return wanted;
}

void Counts::access(unsigned block, unsigned thread, uintptr_t address, size_t bytes, Access access, bool shared,
                    const void* site) {
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
    if (!request.shared) look_up(request);
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

// Caches of several sizes, as if there were one block only: how many requests have to wait for more than that.
void Counts::look_up(const Request& request) {
  totals_["global_sectors"] += request.sectors.size();
  for (const size_t size : kCaches) {
    Cache& cache = caches_.try_emplace(size, size * 1024 / kSector).first->second;
    size_t missed = 0;
    for (const uintptr_t sector : request.sectors) missed += !cache.use(sector);
    const std::string of = "_past_" + std::to_string(size) + "_KiB";
    totals_["global_sectors" + of] += missed;
    if (request.waits) totals_["global_chain" + of] += missed > 0;
  }
}

void Counts::place() {
  std::vector<Site> callers;
  _Unwind_Backtrace(
      [](_Unwind_Context* at, void* to) {
        static_cast<std::vector<Site>*>(to)->push_back(reinterpret_cast<Site>(_Unwind_GetIP(at)));
        return _URC_NO_REASON;
      },
      &callers);
  ++places_[callers];
}

std::string Counts::places() {
  std::string text;
  for (const auto& [callers, number] : places_) {
    text += std::to_string(number);
    for (const Site caller : callers) text += " " + offset(caller);
    text += "\n";
  }
  return text;
}

std::string Counts::take() {
  std::string text;
  for (const auto& [name, number] : totals_) text += name + " " + std::to_string(number) + "\n";
  totals_.clear();
  places_.clear();
  caches_.clear();
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

// Likewise.
extern "C" __attribute__((visibility("default"))) const char* emulation_places() {
  static std::string text;
  text = emulation::counts.places();
  return text.c_str();
}

// Simulates a batch of worlds of packets, kind by kind.
// Source: world.h and sst.h have the physics of the kinds.
#pragma once

#include <algorithm>

#include "run.h"

namespace topoflow::BACKEND {

int64_t packets(const PacketBatch& batch) {
  using namespace packet;
#ifndef TOPOFLOW_ON_GPU
  if (Sharing sharing(batch); sharing.is_worthwhile()) {
    try {
      return sharing.run();
    } catch (const std::bad_alloc&) {  // before a thread has begun; without parts it may fit
    }
  }
#endif
  return std::max({run_kind<PlainModel>(batch), run_kind<GeneralModel>(batch), run_kind<SstModel>(batch)});
}

}  // namespace topoflow::BACKEND

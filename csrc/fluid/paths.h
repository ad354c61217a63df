// The paths of a graph. A limit of a path's flows is a virtual link that only they cross.
//
// Source: topoflow/engine/base.py states the model.
#pragma once

#include "parallel/team.h"

namespace topoflow::BACKEND {

struct Row {
  int32_t first, hops;
};

struct Paths {
  Global<const int64_t> offsets;  // [P+1] hops of every path
  Global<const int32_t> links;    // [H]   their links
  Global<const double> weight;    // [H]   share of a flow's rate that the hop carries; null: all of it
  Global<const double> limit;     // [P]   B/s, the most that one flow gets; infinity or null: no limit
  int32_t world_links;            // L; the link of a path's limit is L + path
  Global<const Row> rows;         // [P]   hops of a path without those that need not be considered; null: all

  static constexpr double kPerFlow = -1;  // weight of the virtual link: all of one flow, however many there are

  // All hops carry all of a flow's rate, and no path has a limit, the usual case.
  DEVICE bool plain() const { return !weight && !limit; }

  DEVICE int64_t begin(int32_t path) const { return rows ? rows[path].first : offsets[path]; }
  DEVICE int64_t end(int32_t path) const { return rows ? rows[path].first + rows[path].hops : offsets[path + 1]; }

  DEVICE bool has_hops(int32_t path) const { return offsets[path] < offsets[path + 1]; }

  // Calls f(link, weight) for every hop.
  template <class F>
  DEVICE void for_each_link(int32_t path, const F& f) const {
    const int64_t first = begin(path), end = this->end(path);
    for (int64_t hop = first; hop < end; ++hop) f(links[hop], weight ? weight[hop] : 1.0);
  }

  // Likewise, with the virtual link of the path's limit.
  template <class F>
  DEVICE void for_each_hop(int32_t path, const F& f) const {
    const int64_t first = begin(path), end = this->end(path);
    if (plain()) {  // with a constant weight, f is small
      for (int64_t hop = first; hop < end; ++hop) f(links[hop], 1.0);
      return;
    }
    const int64_t all = end + (limit && limit[path] < kInfinity);
    for (int64_t hop = first; hop < all; ++hop)
      f(hop < end ? links[hop] : world_links + path, hop == end ? kPerFlow : weight ? weight[hop] : 1.0);
  }

  DEVICE bool crosses(int32_t path, int32_t link) const {
    int64_t hop = begin(path);
    while (hop < end(path) && links[hop] != link) ++hop;
    return hop < end(path);
  }

  // A link that the path crosses.
  DEVICE double weight_on(int32_t path, int32_t link) const {
    if (link >= world_links) return kPerFlow;
    if (!weight) return 1.0;
    int64_t hop = begin(path);
    while (links[hop] != link) ++hop;
    return weight[hop];
  }
};

}  // namespace topoflow::BACKEND

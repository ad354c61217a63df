// Max-min fair rates by progressive filling, from nothing: the plain oracle of maxmin.h, as short as it can be.
//   one link of 90 B/s, three paths              -> 30 30 30
//   same, but path 0 also crosses a 10 B/s link  -> 10 40 40
//
// All paths rise together. Whenever a link is full, the paths on it stay as they are.
//
// Source: Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2.
#pragma once

#include <limits>

#include "fields.h"

namespace topoflow {

struct ProgressiveFilling {
  int64_t paths, links;
  const int64_t* path_offsets;
  const int32_t *path_links, *flows;
  const double *path_weight, *path_limit, *capacity;
  double* rate;

  void operator()() const {
    for (int64_t p = 0; p < paths; ++p) rate[p] = flows[p] > 0 ? kOpen : 0;
    for (double level; (level = lowest_level()) < std::numeric_limits<double>::infinity();)
      for (int64_t p = 0; p < paths; ++p)
        if (rate[p] == kOpen && is_full(p, level)) rate[p] = level;
  }

 private:
  static constexpr double kOpen = -1;

  double weight(int64_t hop) const { return path_weight ? path_weight[hop] : 1; }
  double limit(int64_t p) const { return path_limit ? path_limit[p] : std::numeric_limits<double>::infinity(); }

  // B/s of each open flow with which the link is full; infinity without open flows.
  double level(int32_t link) const {
    double left = capacity[link], open = 0;
    for (int64_t p = 0; p < paths; ++p)
      for (int64_t hop = path_offsets[p]; hop < path_offsets[p + 1]; ++hop) {
        if (path_links[hop] != link) continue;
        if (rate[p] == kOpen)
          open += flows[p] * weight(hop);
        else
          left -= flows[p] * weight(hop) * rate[p];
      }
    return open > 0 ? (left > 0 ? left / open : 0) : std::numeric_limits<double>::infinity();
  }

  double lowest_level() const {
    double lowest = std::numeric_limits<double>::infinity();
    for (int64_t p = 0; p < paths; ++p)
      if (rate[p] == kOpen && limit(p) < lowest) lowest = limit(p);
    for (int32_t link = 0; link < links; ++link)
      if (const double full = level(link); full < lowest) lowest = full;
    return lowest;
  }

  bool is_full(int64_t p, double at) const {
    if (limit(p) <= at) return true;
    for (int64_t hop = path_offsets[p]; hop < path_offsets[p + 1]; ++hop)
      if (level(path_links[hop]) <= at * (1 + 1e-12)) return true;
    return false;
  }
};

constexpr Field<ProgressiveFilling> kProgressiveFillingFields[] = {
    array("path_offsets", &ProgressiveFilling::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &ProgressiveFilling::path_links, "H", "link of every hop"),
    optional("path_weight", &ProgressiveFilling::path_weight, "H", "share of a flow's rate that the hop carries"),
    optional("path_limit", &ProgressiveFilling::path_limit, "P", "B/s, the most that one flow gets"),
    array("flows", &ProgressiveFilling::flows, "P", "flows of each path"),
    array("capacity", &ProgressiveFilling::capacity, "L", "B/s"),
    array("rate", &ProgressiveFilling::rate, "P", "out, B/s of each flow; 0 without flows"),
    count('P', &ProgressiveFilling::paths),
    count('L', &ProgressiveFilling::links)};

}  // namespace topoflow

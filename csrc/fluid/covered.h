// Links that can be left out: all of their paths cross another link too, which has no more capacity.
//   hosts 0 and 1 send over an up-link of 100 B/s each into one switch, which has a link of 100 B/s to host 2
//     -> both up-links are covered: what fits through the last link fits through them
// In a fat-tree with routes by destination that is every link down but the last.
//
// Source: a capacity constraint that another implies may be left out (Bertsekas and Gallager, Data Networks, 2nd ed.,
// 6.5.2 states the constraints).
#pragma once

#include "rates.h"

namespace topoflow::BACKEND {

struct Covered {
  const Rates& rates;
  int32_t* hops;  // out [H] links of every path that are not covered
  Row* rows;      // out [P]

  // `info` and `members` list all paths of each link, flows or not. `touched` of covered links becomes 1.
  DEVICE void operator()(const Team auto& team, int32_t links) const {
    team.for_each(links, [&](int32_t l) { rates.info[l].touched = covered(l); });
    team.for_each(rates.path_count, [&](int32_t p) {
      const auto first = static_cast<int32_t>(rates.paths.offsets[p] - rates.paths.offsets[0]);
      int32_t* const row = hops + first;
      int32_t n = 0;
      rates.paths.for_each_hop(p, [&](int32_t l, double) {
        row[n] = l;
        n += !rates.info[l].touched;
      });
      rows[p] = {first, n};
      rates.states.set_links(p, row, n);
    });
  }

 private:
  DEVICE bool covered(int32_t l) const {
    if (rates.info[l].listed == 0) return false;
    bool found = false;
    rates.paths.for_each_hop(rates.members[rates.info[l].first],
                             [&](int32_t other, double) { found = found || covers(other, l); });
    return found;
  }

  // Of two links that cover each other the first covers.
  DEVICE bool covers(int32_t other, int32_t l) const {
    const double least = rates.bandwidth(other), most = rates.bandwidth(l);
    const int32_t more = rates.info[other].listed - rates.info[l].listed;
    if (other == l || least > most || more < 0 || (more == 0 && least == most && other > l)) return false;
    for (int32_t i = rates.info[l].first; i < rates.info[l].first + rates.info[l].listed; ++i)
      if (!rates.paths.crosses(rates.members[i], other)) return false;
    return true;
  }
};

}  // namespace topoflow::BACKEND

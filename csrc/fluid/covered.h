// Redundant links: each path of such a link also crosses another one, and takes at least as large a share of that.
//   hosts 0 and 1 send over an up-link of 100 B/s each into one switch, which has a link of 100 B/s to host 2
//     -> both up-links are covered: what fits through the last link fits through them
//   a node sends over eight rails at once, an eighth of every flow on each, from a port of 50 B/s to each rail
//     -> the first port covers the others
// In a fat-tree with routes by destination that is every link down but the last.
//
// Source: a capacity constraint that another implies may be left out (Bertsekas and Gallager, Data Networks, 2nd ed.,
// 6.5.2 states the constraints). If x_p is what a path sends, links l and m with weights w and capacities c have
// sum_p w_lp x_p <= c_l, and that of l follows from that of m where w_lp / c_l <= w_mp / c_m for all p on l.
#pragma once

#include "rates.h"

namespace topoflow::BACKEND {

struct Covered {
  const Rates& rates;
  int32_t* hops;    // out [H] links of every path that are not covered
  double* weights;  // out [H] their weights; not written where all are 1
  Row* rows;        // out [P]

  // `info` and `members` list all paths of each link, flows or not. `touched` of covered links becomes 1.
  DEVICE void operator()(const Team auto& team) const {
    team.for_each(rates.links(), [&](int32_t l) { rates.info[l].touched = covered(l); });
    team.for_each(rates.path_count, [&](int32_t p) {
      const auto first = static_cast<int32_t>(rates.paths.offsets[p] - rates.paths.offsets[0]);
      int32_t* const row = hops + first;
      int32_t n = 0;
      rates.paths.for_each_link(p, [&](int32_t l, double weight) {
        row[n] = l;
        if (rates.paths.weight) weights[first + n] = weight;
        n += !rates.info[l].touched;
      });
      rows[p] = {first, n};
      rates.states.set_links(p, row, n);
    });
  }

 private:
  // The share of the link that a path takes for each B/s.
  DEVICE double share(int32_t l, double weight) const { return weight / rates.bandwidth(l); }

  DEVICE bool covered(int32_t l) const {
    if (l >= rates.paths.world_links || rates.info[l].num_members == 0) return false;
    const int32_t p = rates.members[rates.info[l].first];
    const double link_share = share(l, rates.paths.weight_on(p, l));
    bool is_covered = false;
    rates.paths.for_each_link(p, [&](int32_t other, double weight) {
      const double other_share = share(other, weight);
      is_covered = is_covered || (other_share >= link_share && covers(other, l, other_share == link_share));
    });
    return is_covered;
  }

  // Returns whether `other` covers l; of two links that cover each other, the first does. `same`: the first path has
  // the same share of both.
  DEVICE bool covers(int32_t other, int32_t l, bool same) const {
    const LinkInfo &info = rates.info[l], &other_info = rates.info[other];
    const bool weighted = rates.paths.weight;
    if (other == l || other_info.num_members < info.num_members) return false;
    same = same && other_info.num_members == info.num_members;
    if (!weighted && same && other > l) return false;
    for (int32_t i = info.first; i < info.first + info.num_members; ++i) {
      const int32_t p = rates.members[i];
      if (!rates.paths.crosses(p, other)) return false;
      if (!weighted) continue;
      const double link_share = share(l, rates.paths.weight_on(p, l)),
                   other_share = share(other, rates.paths.weight_on(p, other));
      if (other_share < link_share) return false;
      same = same && other_share == link_share;
    }
    return !same || other < l;
  }
};

}  // namespace topoflow::BACKEND

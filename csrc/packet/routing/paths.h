// Which step of its path a packet takes.
//
// All paths of a world are one graph of steps (edges). Where several steps may follow, the row of edges of that branch
// has a bound for each: a packet draws 32 bits, and takes the first edge whose bound is not less.
//
//   bounds   0x3fffffff  0xffffffff     a quarter of the packets take the first edge, the others the second
//
// Packets that take paths in turn use no bounds (cycles.h).
//
// Source: inverse transform sampling, Devroye, "Non-Uniform Random Variate Generation", 1986, III.2; the numbers that
// are drawn are those of topoflow/engine/packet/draws.py.
#pragma once

#include "cycles.h"
#include "packet/core.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Paths : public Base {
 public:
  using Base::b_, Base::branch_, Base::draws_, Base::edge_, Base::tasks_;
  using Base::Base;

  // Returns the first row, from `first` on, whose bound is not less than the number that a packet draws.
  DEVICE int32_t draw_row(const int32_t* bound, int32_t first, int32_t task, int64_t number, uint32_t branch) const {
    const uint32_t word = draws_.of(tasks_.number(task), number, branch).word[0];
    int32_t row = first;
    while (static_cast<uint32_t>(bound[row]) < word) ++row;
    return row;
  }

  // Returns the edge that a packet takes; `next` says what may follow (batch.h).
  DEVICE int32_t choose_edge(int32_t next, const Packet& packet) const {
    if (next >= 0) return next;
    const int32_t branch = -2 - next;
    const auto first = static_cast<int32_t>(b_.paths.branch_edges[branch_ + branch] - b_.paths.branch_edges[branch_]);
    const auto place = static_cast<uint32_t>(branch);
    if (const int32_t stride = b_.model.in_turn ? b_.paths.branch_stride[branch_ + branch] : 0) {
      const auto end =
          static_cast<int32_t>(b_.paths.branch_edges[branch_ + branch + 1] - b_.paths.branch_edges[branch_]);
      const uint32_t number = packet.number & kNumber;
      return first + edge_in_turn(draws_, tasks_.number(packet.task), number, stride, end - first, place);
    }
    return draw_row(b_.paths.edge_bound + edge_, first, packet.task, packet.number, place);
  }
};

}  // namespace topoflow::BACKEND::packet

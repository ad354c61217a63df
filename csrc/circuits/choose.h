// Which circuits serve a demand best: the highest demand gets one, then counts `discount` times, while its servers have
// interfaces; the rest are wired i to i + 1, i + 2, ..., one circuit per pair first.
//   3 interfaces, 100 B from 0 to 1 and 40 B from 0 to 2, discount 1/2   -> 0 to 1, 0 to 1 (50), 0 to 2 (40)
//
// Every source knows the target to which it sends most, and looks again when what it sends there counts less or the
// target has no interface left: so a circuit costs some rows of the demand, and not all of it.
//
// Source: TopoOpt (Wang et al., NSDI 2023), Algorithm 5; topoflow/fabric/circuits/heuristic.py is its plain twin and
// says what the paper leaves open.
#pragma once

#include "fields.h"

namespace topoflow {

struct Circuits {
  int32_t servers;
  int32_t degree;   // interfaces per server, at least 1
  double discount;  // of a pair's next circuit
  double* demand;
  int64_t *sends, *receives;
  int32_t* best_target;
  int64_t* count;

  void operator()() const {
    for (int32_t i = 0; i < servers; ++i) find_target(i);
    for (int32_t i; (i = highest()) >= 0;) {
      const int32_t j = best_target[i];
      do join(i, j);
      while (discount == 1 && sends[i] > 0 && receives[j] > 0);  // it is the highest still
      demand[at(i, j)] *= discount;
      find_target(i);
      if (receives[j] > 0) continue;
      for (int32_t k = 0; k < servers; ++k)
        if (best_target[k] == j) find_target(k);
    }
    wire_remaining();
  }

 private:
  int64_t at(int32_t i, int32_t j) const { return int64_t{i} * servers + j; }
  int32_t stride(int32_t i) const { return best_target[i] > i ? best_target[i] - i : best_target[i] - i + servers; }

  void join(int32_t i, int32_t j) const {
    ++count[at(i, j)];
    --sends[i];
    --receives[j];
  }

  // Finds the target of a source's highest demand; of equal ones, the next server's.
  void find_target(int32_t i) const {
    best_target[i] = -1;
    if (sends[i] == 0) return;
    double high = 0;
    const auto among = [&](int32_t first, int32_t end) {
      for (int32_t j = first; j < end; ++j) {
        if (!(demand[at(i, j)] > high) || receives[j] == 0) continue;
        high = demand[at(i, j)];
        best_target[i] = j;
      }
    };
    among(i + 1, servers);
    among(0, i);
  }

  // The source of the highest demand, of equal ones that with the closest target; -1: there is none.
  int32_t highest() const {
    int32_t best = -1;
    double high = 0;
    for (int32_t i = 0; i < servers; ++i) {
      if (best_target[i] < 0) continue;
      const double value = demand[at(i, best_target[i])];
      if (value < high || (value == high && stride(i) >= stride(best))) continue;
      high = value;
      best = i;
    }
    return best;
  }

  void wire_remaining() const {
    int32_t* const free = best_target;  // sources with interfaces left, ascending
    int32_t sources = 0;
    for (int32_t i = 0; i < servers; ++i)
      if (sends[i] > 0) free[sources++] = i;
    for (int32_t parallel = 0; parallel < degree; ++parallel)
      for (int32_t stride = 1; stride < servers && sources > 0; ++stride) {
        int32_t remaining = 0;
        for (int32_t k = 0; k < sources; ++k) {
          const int32_t i = free[k], j = i + stride < servers ? i + stride : i + stride - servers;
          if (receives[j] > 0 && count[at(i, j)] <= parallel) join(i, j);
          if (sends[i] > 0) free[remaining++] = i;
        }
        sources = remaining;
      }
  }
};

constexpr Field<Circuits> kCircuitsFields[] = {
    array("most", &Circuits::best_target, "N", "the target to which each source sends most, -1: none; out anything"),
    array("demand", &Circuits::demand, "N,N",
          "B from server to server, not negative; out the worth of the next circuit"),
    array("sends", &Circuits::sends, "N", "degree; out interfaces that are left"),
    array("receives", &Circuits::receives, "N", "as sends"),
    array("count", &Circuits::count, "N,N", "zeros; out circuits from server to server"),
    count('N', &Circuits::servers)};

}  // namespace topoflow

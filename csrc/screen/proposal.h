// The proposal of a chain: an exchange of two choices, in a run of layers or between two layers that trade places.
//   choices 0 0 1 2 0, run of layers 1 to 3, a = 0, b = 1   -> 0 1 0 2 0
//
// Source: topoflow/search/moves.py says what is drawn and how likely it is; Hastings, "Monte Carlo sampling methods
// using Markov chains and their applications", Biometrika 57, 1970 (the ratio).
#pragma once

#include "parallel/elementary.h"
#include "parallel/random.h"
#include "walk.h"

namespace topoflow::BACKEND {

// The numbers that a chain draws in a step, each in [0, 1).
enum Draw : int32_t { kWhere, kLength, kOffset, kEnd, kOther, kKind, kTakes, kStays, kDegree, kPlace, kAccept, kSwap };
constexpr int32_t kDraws = 12;
constexpr int64_t kBlock = 64;  // steps whose numbers follow each other, as tests/twins/tempering.py draws them

// Number `index` of a chain. The counter is (block of steps, number of the ladder among all).
HD double draw(const WalkBatch& batch, int32_t ladder, int64_t step, int32_t index, int32_t chain) {
  const Philox random{{static_cast<uint64_t>(batch.seed), static_cast<uint64_t>(batch.round)}};
  const int64_t number = (index * kBlock + step % kBlock) * batch.chains + chain;
  return random.uniform(static_cast<uint64_t>(number), static_cast<uint64_t>(step / kBlock),
                        static_cast<uint64_t>(batch.first + ladder));
}

struct Proposal {
  int32_t layer, mate;               // whose choice is a; another one, whose choice b may be
  int32_t first, last;               // the run
  bool trade;                        // the two layers instead of the run
  int32_t one, other;                // a, b
  int32_t changes;                   // layers that change
  bool both;                         // whether some change from b to a
  int64_t freed_bytes, added_bytes;  // B that go from each GPU of a's holders, and come to those of b's
  double ratio;                      // log of the probability of the reverse proposal over that of this one

  HD bool has(int32_t i) const { return trade ? i == layer || i == mate : first <= i && i <= last; }
  HD int32_t target(int32_t i, int32_t choice) const {
    return !has(i) ? choice : choice == one ? other : choice == other ? one : choice;
  }
};

class Proposer {
 public:
  // `draws` [kDrawn, C]
  HD Proposer(const WalkBatch& batch, const double* draws, int32_t chain)
      : m_(batch.moves),
        budget_(batch.budget),
        draws_(draws + chain),
        chains_(batch.chains),
        layers_(batch.model.strategies.layers),
        choices_(batch.model.strategies.choices) {}

  // Returns the proposal of a chain with `placement` [Y].
  HD Proposal propose(const int32_t* placement) const {
    Proposal p{};
    p.layer = whole(kWhere, layers_);
    set_run(p);
    const double joins = set_mate(p);
    const int32_t a = placement[p.layer], mates = placement[p.mate];
    const int32_t b = number(kTakes) < joins ? mates : choice(a);
    p.one = a;
    p.other = b;
    if (a == b) return p;
    int32_t of_a = 0, of_b = 0;
    for (int32_t i = p.first; i <= p.last; i += step(p)) {
      const bool is_a = placement[i] == a, is_b = placement[i] == b;
      of_a += is_a;
      of_b += is_b;
      if (!budget_.binds || !(is_a || is_b)) continue;
      const int64_t* need = budget_.need + int64_t{i} * choices_;
      p.freed_bytes += is_a ? need[a] : -need[a];
      p.added_bytes += is_a ? need[b] : -need[b];
    }
    p.changes = of_a + of_b;
    p.both = of_b > 0;
    const double forward = (1 - joins) * likely(a, b) + (mates == b ? joins : 0);
    const double backward = (1 - joins) * likely(b, a) + (mates == a ? joins : 0);
    p.ratio = natural_log((of_a * backward + of_b * forward) / (of_a * forward + of_b * backward));
    return p;
  }

  HD double number(Draw index) const { return draws_[int64_t{index} * chains_]; }

 private:
  // 0 .. count - 1
  HD int32_t whole(Draw index, int32_t count) const { return static_cast<int32_t>(number(index) * count); }

  HD double likely(int32_t a, int32_t b) const { return m_.likely[m_.degree[a] * m_.degrees + m_.degree[b]]; }

  // A run that has the layer at any place, equally likely: of one layer half of the time, of 2 a quarter, ..
  HD void set_run(Proposal& p) const {
    int32_t longest = 2, size = 1;
    while (longest < layers_) longest *= 2;
    for (double tail = 1 - number(kLength); size < longest && tail <= 0.5; tail *= 2) size *= 2;
    const int32_t begin = p.layer - whole(kOffset, size);
    p.first = begin > 0 ? begin : 0;
    p.last = (begin + size < layers_ ? begin + size : layers_) - 1;
  }

  // Returns the probability that b is the choice of the mate.
  HD double set_mate(Proposal& p) const {
    p.trade = number(kKind) < m_.trades;
    if (p.trade) {
      p.mate = whole(kOther, layers_);
      p.first = p.layer < p.mate ? p.layer : p.mate;
      p.last = p.layer < p.mate ? p.mate : p.layer;
      return 1;
    }
    const int32_t end = number(kEnd) < 0.5 ? p.first : p.last;
    const int64_t begin = m_.near_offsets[end];
    p.mate = m_.near[begin + whole(kOther, static_cast<int32_t>(m_.near_offsets[end + 1] - begin))];
    return p.mate < p.first || p.mate > p.last ? m_.joins : 0;
  }

  // Returns the distance from one layer of the set to the next.
  HD static int32_t step(const Proposal& p) { return p.trade && p.last > p.first ? p.last - p.first : 1; }

  // Another choice than a.
  HD int32_t choice(int32_t a) const {
    const int32_t degree_of_a = m_.degree[a];
    const bool same = number(kStays) < m_.stays && m_.count[degree_of_a] > 1;
    const int32_t other = whole(kDegree, m_.degrees - 1), degree = same ? degree_of_a : other + (other >= degree_of_a);
    const int32_t place = whole(kPlace, m_.count[degree] - same);
    return m_.order[m_.first[degree] + place + (same && place >= m_.place[a])];
  }

  const Moves& m_;
  const MemoryBudget& budget_;
  const double* draws_;
  int32_t chains_, layers_, choices_;
};

}  // namespace topoflow::BACKEND

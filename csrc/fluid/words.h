// What is left of each link, and how much of what crosses it is still open, while rates are refilled (refill.h). What
// refilling costs is to read and write these, so where capacities allow it, they are one word each. Copies of them,
// each with more paths frozen than the one before, tell where filling can be taken up.
//
// Source: link.h states the sums; a copy every so often is a checkpoint (Griewank, Achieving logarithmic growth of
// temporal and spatial complexity in reverse automatic differentiation, Optimization Methods and Software 1, 1992).
#pragma once

#include <type_traits>

#include "rates.h"

namespace topoflow::BACKEND {

struct Words : Rates {
  static constexpr int32_t kCopies = 16;

  double least, most;  // B/s, the capacities of links
  std::byte* spare;    // where copies are kept: memory that only the other way needs
  int64_t spare_bytes;
  // The same in all threads of the team:
  int32_t links = 0;        // with those of the paths' limits
  int32_t copies = 0;       // of the links' words
  int32_t copied[kCopies];  // how many paths were frozen then, ascending
  double per_word = 0;      // units of a light world in 1 B/s; 0: it is none
  int64_t room = 0;         // weight that a link of a light world may have

  // Whether one word can say what is left of a link, and flows can be counted: then half as much memory is moved.
  DEVICE bool light() const { return per_word > 0; }

  // As reopen(), for this way.
  DEVICE void reopen(const Team auto& team, int32_t p, int32_t now, int32_t event) const {
    const int32_t then = counted[p];
    if (!light())
      return Rates::reopen(team, p, now, event,
                           [&](int32_t l, const Amount& had, const Amount& opened, const Amount& more) {
                             atomic_add(team, &link[l].left, had);
                             atomic_add(team, &link[l].open, opened);
                             for (int32_t i = 0; i < copies; ++i) atomic_add(team, &copy_of<false>(i)[l].open, more);
                           });
    const int64_t had = then > 0 ? then * word(rate[p]) : 0;
    Rates::reopen(team, p, now, event, [&](int32_t l, const Amount&, const Amount&, const Amount&) {
      atomic_add(team, &light_link()[l], Amount{had, now});
      for (int32_t i = 0; i < copies; ++i) team.atomic_add(&copy_of<true>(i)[l].low, int64_t{now - then});
    });
  }

  // n of so many paths will have other flows. To tell that to the copies may cost more than they save.
  DEVICE void expect(int32_t n, int32_t flowing) {
    if (n > flowing / 64) copies = 0;
  }

  // All flows of a link fit in 62 bits though each has the most that any link has, and twice as many as there are now.
  // The world is light if that leaves 2^44 units for the least.
  DEVICE void choose_words(const Team auto& team) {
    per_word = 0;
    room = int64_t{1} << 62;
    if (!paths.plain()) return;
    const double flows =
        2 - 2 * team.min(links, [&](int32_t l) { return -static_cast<double>(share[l].total.high / kWhole); });
    const double fit = static_cast<double>(room) / (most * flows);
    if (!(fit * least >= static_cast<double>(int64_t{1} << 44))) return;
    per_word = fit;
    room = kWhole * static_cast<int64_t>(flows);
  }

  // A light world has in `link` two words for each: what is left, and how many flows are open.
  DEVICE Amount* light_link() const { return &link->left; }
  DEVICE int64_t word(double of_rate) const { return static_cast<int64_t>(of_rate * per_word + 0.5); }

  // As if no path had got anything yet.
  template <bool kLight>
  DEVICE void reset(int32_t l) const {
    if constexpr (kLight)
      light_link()[l] = {word(bandwidth(l)), share[l].total.high / kWhole};
    else
      link[l] = {capacity(l), share[l].total};
  }

  template <bool kLight>
  DEVICE bool has_open(int32_t l) const {
    return (kLight ? light_link()[l].low : link[l].open.high) > 0;
  }
  template <bool kLight>
  DEVICE int64_t left_of(int32_t l) const {
    return kLight ? light_link()[l].high : link[l].left.high;
  }

  // B/s, of a link with open paths.
  template <bool kLight>
  DEVICE double level_of(int32_t l) const {
    if constexpr (!kLight) return even(link[l].left, link[l].open);
    const Amount k = light_link()[l];
    return k.high > 0 ? static_cast<double>(k.high) / (static_cast<double>(k.low) * per_word) : 0;
  }

  template <bool kLight>
  DEVICE bool overrun(int32_t l) const {
    if constexpr (!kLight) return over(l);
    return light_link()[l].high < 0 && static_cast<double>(light_link()[l].high) < -kSame * bandwidth(l) * per_word;
  }

  // What a hop of a path reads and writes of each link.
  template <bool kLight>
  using Word = std::conditional_t<kLight, Amount, Link>;
  template <bool kLight>
  DEVICE Word<kLight>* words() const {
    return reinterpret_cast<Word<kLight>*>(link);
  }
  template <bool kLight>
  DEVICE Word<kLight>* copy_of(int32_t i) const {
    return reinterpret_cast<Word<kLight>*>(spare) + int64_t{i} * links;
  }

  // Keeps a copy for when so many paths are frozen.
  template <bool kLight>
  DEVICE void keep(const Team auto& team, int32_t frozen) {
    team.copy(links, words<kLight>(), copy_of<kLight>(copies));
    copied[copies++] = frozen;
  }

  // Goes back to the last copy, or to where no path is frozen.
  template <bool kLight>
  DEVICE void go_back(const Team auto& team) const {
    if (copies > 0)
      team.copy(links, copy_of<kLight>(copies - 1), words<kLight>());
    else
      team.for_each(links, [&](int32_t l) { reset<kLight>(l); });
  }

  // Paths between two copies: as many as there is memory for, and a copy costs as much as an eighth of a path per link.
  template <bool kLight>
  DEVICE int32_t apart(int32_t flowing) const {
    const int64_t fit = spare_bytes / static_cast<int64_t>(sizeof(Word<kLight>) * (links + 1));
    const int32_t most_copies = fit < kCopies ? static_cast<int32_t>(fit) : kCopies;
    const int32_t even = flowing / (most_copies + 1);
    return even > links / 8 ? even : links / 8;
  }
  template <bool kLight>
  DEVICE bool has_room() const {
    return copies < kCopies && (copies + 1) * static_cast<int64_t>(sizeof(Word<kLight>)) * links <= spare_bytes;
  }

  // Read once: as far as the compiler knows, a link's words may be these pointers.
  struct Mover {
    Amount* links;
    const Row* rows;
    const int32_t *hops, *counted;

    // The path's flows give back what they have of each link, so many units for each of them, or (sign -1) get it.
    DEVICE void operator()(const Team auto& team, int32_t p, int64_t words, int32_t sign) const {
      const int32_t flows = sign * counted[p];
      const Amount use = flows == sign ? Amount{words * sign, sign} : Amount{words * flows, flows};
      const Row row = rows[p];
      const int32_t* hop = hops + row.first;
      const int32_t *const end = hop + row.hops, *const last = end - 1;
      for (; hop < last; hop += 2) {  // a path mostly goes up as often as down
        give(team, &links[static_cast<uint32_t>(hop[0])], use);
        give(team, &links[static_cast<uint32_t>(hop[1])], use);
      }
      if (hop < end) give(team, &links[static_cast<uint32_t>(*hop)], use);
    }
    DEVICE static void give(const Team auto& team, Amount* to, const Amount& use) {
      team.atomic_add_both(&to->high, use.high, use.low);
    }
  };
  DEVICE Mover mover() const { return {light_link(), paths.rows, paths.links, counted}; }

  DEVICE void move_heavy(const Team auto& team, int32_t p, double of_rate, int32_t sign) const {
    paths.for_each_hop(p, [&](int32_t l, double weight) {
      atomic_add(team, &link[l].left, used(p, weight, of_rate) * sign);
      atomic_add(team, &link[l].open, weigh(p, weight) * sign);
    });
  }

  // The paths of a list are held back by this link, at this rate.
  template <bool kLight>
  DEVICE void hold(const Team auto& team, int32_t n, const int32_t* list, int32_t l, double of_rate) const {
    const Mover move = mover();
    const int64_t words = word(of_rate);
    int32_t* const bottleneck = this->bottleneck;
    team.for_each(n, [=, this](int32_t i) {
      bottleneck[list[i]] = l;
      if constexpr (kLight)
        move(team, list[i], words, -1);
      else
        move_heavy(team, list[i], of_rate, -1);
    });
  }

  // They get (sign -1), or give back, what their bottlenecks give them.
  template <bool kLight>
  DEVICE void move_all(const Team auto& team, int32_t n, const int32_t* list, int32_t sign) const {
    const Mover move = mover();
    const double per_word = this->per_word;
    const int32_t* const bottleneck = this->bottleneck;
    const Share* const share = this->share;
    team.for_each(n, [=, this](int32_t i) {
      const int32_t p = list[i], l = bottleneck[p];
      if (l == kNoLink || l == kNoFlows) return;  // it has other flows than before
      const double level = share[l].level;
      if constexpr (kLight)
        move(team, p, static_cast<int64_t>(level * per_word + 0.5), sign);
      else
        move_heavy(team, p, level, sign);
    });
  }
};

}  // namespace topoflow::BACKEND

// A ladder: Metropolis chains at temperatures that fit themselves, run by one team from step to step.
//   1. descent: all chains are at one state and propose; all go to the fastest that was proposed, if it is faster. It
//      ends where `patience` steps in a row found nothing faster
//   2. then each chain accepts an energy E' in place of E with probability min(1, q'/q exp((E - E') / T)), temperatures
//      follow what is accepted, and neighbours on the ladder swap
//
// During a descent the loads of chain 0 are those of all.
//
// Source: topoflow/search/tempering.py states the walk and its sources, tests/twins/tempering.py is the same in plain
// Python.
#pragma once

#include "contention.h"
#include "parallel/memory.h"
#include "proposal.h"

namespace topoflow::BACKEND {

class Ladder {
 public:
  HD Ladder(const WalkBatch& batch, int32_t ladder, Memory memory)
      : b_(batch), ladder_(ladder), n_(batch.chains), layers_(batch.model.strategies.layers) {
    const int64_t first = int64_t{ladder} * n_;
    placement_ = batch.placement + first * layers_;
    load_ = batch.load + first * CoflowLoads::numbers(batch.model.strategies);
    used_ = batch.used + first * batch.model.strategies.servers;
    energy_ = batch.energy + first;
    rung_ = batch.rung + first;
    temperature_ = batch.temperature + first;
    slower_ = batch.slower + first;
    best_ = batch.best + int64_t{ladder} * batch.best_count;
    best_placement_ = batch.best_placement + int64_t{ladder} * batch.best_count * layers_;
    stuck_ = batch.stuck + ladder;
    model_ = memory.take<double>(Contention::numbers(batch.model));
    undo_ = memory.take<int64_t>(CoflowLoads::undo_numbers(batch.model));
    draws_ = memory.take<double>(int64_t{kDraws} * n_);
    for (double** array : {&limit_, &proposed_}) *array = memory.take<double>(n_);
    sample_ = memory.take<double>(int64_t{kSampled} * n_);
    proposal_ = memory.take<Proposal>(n_);
    target_ = memory.take<int32_t>(layers_);
    for (int32_t** array : {&accepted_, &at_, &swaps_}) *array = memory.take<int32_t>(n_);
    bytes = memory.taken();
  }

  int64_t bytes;  // that one team keeps

  // Begins with the placements.
  DEVICE void begin(const Team auto& team) const {
    team.for_each(b_.best_count, [&](int32_t i) { best_[i] = kInfinity; });
    for (int32_t chain = 0; chain < n_; ++chain) {
      const double energy = measure(team, chain);
      put(team, &energy_[chain], energy);
      record_best(team, energy, placement(chain));
    }
    team.set(stuck_, 0);
    if (b_.patience > 0) {
      const int32_t fastest = lowest_of(team, energy_);
      if (fastest != 0) team.copy(numbers(), load(fastest), load_);
      move_all_to(team, fastest, energy_[fastest]);
    }
    fill(team);
    team.for_each(n_, [&](int32_t chain) {
      int32_t rung = 0;
      for (int32_t i = 0; i < n_; ++i)
        rung += energy_[i] < energy_[chain] || (energy_[i] == energy_[chain] && i < chain);
      rung_[chain] = rung;
      slower_[chain] = 0;
    });
  }

  // Computes the arrays that follow from the state.
  DEVICE void resume(const Team auto& team) const {
    for (int32_t chain = 0; chain < (descends(team) ? 1 : n_); ++chain) loads(chain).build(team);
    fill(team);
  }

  // Steps from `first` to `end`; where `heats`, first temperatures are found before. For these, too, each chain
  // proposes some states: all that is proposed is evaluated in one place, as a GPU's code has a copy of the estimate
  // for each.
  DEVICE void walk(const Team auto& team, int64_t first, int64_t end, bool heats) const {
    int32_t remaining = heats ? kSampled : 0, samples = 0;  // to be drawn by each chain; that all have drawn
    for (int64_t step = first; step < end || remaining > 0;) {
      if (remaining == 0 && team.poll(b_.cancel)) return;
      const bool together = descends(team);
      propose(team, remaining > 0 ? kNever + kSampled - remaining : step);
      set_limits(team, remaining > 0, together);
      for (int32_t chain = 0; chain < n_; ++chain) try_proposal(team, chain, together, remaining == 0 && !together);
      if (remaining > 0) {
        samples = sample(team, samples);
        if (--remaining == 0) heat(team, samples);
        continue;
      }
      const int32_t accepted = together ? descend(team) : temper(team, step);
      log(team, step - first, accepted);
      ++step;
      if (together && !descends(team)) {
        remaining = kSampled;
        samples = 0;
      }
    }
  }

 private:
  static constexpr int32_t kSampled = 4;  // proposals of each chain from which the first temperatures are computed
  static constexpr int64_t kNever = int64_t{1} << 40;  // a step that no walk reaches, from which they are drawn
  static constexpr double kDecay = 0.6;                // of corrections
  static constexpr double kSame = 1e-9;      // states whose energies differ relatively by no more are taken for one
  static constexpr double kColdest = 1e-12;  // relative to the energy: no temperature is lower
  static constexpr int32_t kHalvings = 64;   // of an interval, to the last bit
  static constexpr double kNone = -1;        // s: nothing is accepted

  DEVICE int32_t* placement(int32_t chain) const { return placement_ + int64_t{chain} * layers_; }
  DEVICE int64_t* used(int32_t chain) const { return used_ + int64_t{chain} * b_.model.strategies.servers; }
  DEVICE int64_t numbers() const { return CoflowLoads::numbers(b_.model.strategies); }
  DEVICE int64_t* load(int32_t chain) const { return load_ + chain * numbers(); }
  DEVICE CoflowLoads loads(int32_t chain) const { return {b_.model.strategies, placement(chain), load(chain)}; }

  // Returns whether all chains are at one state.
  DEVICE bool descends(const Team auto& team) const { return team.get(stuck_) < b_.patience; }

  // limit_ [C]: s that a proposal may take to be accepted, or to be faster during a descent; none while `heats`.
  DEVICE void set_limits(const Team auto& team, bool heats, bool together) const {
    team.for_each(n_, [&](int32_t chain) {
      double limit = heats ? kInfinity : energy_[chain];
      if (!heats && !together) {
        const double chance = natural_log(1 - draws_[kAccept * n_ + chain]);
        limit += temperature_[rung_[chain]] * (proposal_[chain].ratio - chance);
      }
      limit_[chain] = limit;
    });
  }

  // proposed_[chain] becomes s of what the chain proposes, infinity where that is no other placement or does not fit.
  // The chain goes there if it `moves` and that is within its limit.
  DEVICE void try_proposal(const Team auto& team, int32_t chain, bool together, bool moves) const {
    const double limit = limit_[chain];
    double proposed = kInfinity;
    if (is_feasible(team, chain))
      proposed = evaluate(team, together ? 0 : chain, chain, later_of(limit, energy_[chain]), moves ? limit : kNone);
    put(team, &proposed_[chain], proposed);
  }

  // Step 1, once proposals are evaluated. Returns whether one was faster.
  DEVICE int32_t descend(const Team auto& team) const {
    const int32_t fastest = lowest_of(team, proposed_);
    const double lowest = proposed_[fastest], energy = energy_[0];
    if (!(lowest < energy)) {
      const int32_t stuck = team.get(stuck_) + 1;
      team.set(stuck_, stuck);
      if (stuck == b_.patience)
        for (int32_t chain = 1; chain < n_; ++chain) team.copy(numbers(), load_, load(chain));
      return 0;
    }
    for (int32_t chain = 0; chain < n_; ++chain) {
      if (!(proposed_[chain] < energy)) continue;
      set_target(team, chain);
      record_best(team, proposed_[chain], target_);
    }
    set_target(team, fastest);
    add_memory(team, fastest, 0);
    exchange(team, loads(0), proposal_[fastest]);
    move_all_to(team, 0, lowest);
    fill_others(team);
    team.set(stuck_, 0);
    return 1;
  }

  // Step 2, once proposals are evaluated. Returns how many were accepted.
  DEVICE int32_t temper(const Team auto& team, int64_t step) const {
    int32_t accepted = 0;
    for (int32_t chain = 0; chain < n_; ++chain) {
      const double proposed = proposed_[chain];
      if (!(proposed <= limit_[chain])) continue;
      ++accepted;
      add_memory(team, chain, chain);
      record_best(team, proposed, placement(chain));
    }
    team.wait();  // all have read proposed_
    team.for_each(n_, [&](int32_t chain) {
      const double proposed = proposed_[chain], before = energy_[chain];
      accepted_[chain] = proposed <= limit_[chain];
      if (accepted_[chain]) energy_[chain] = proposed;
      proposed_[chain] = proposed > before && proposed < kInfinity;  // whether it was slower
    });
    adjust(team, step);
    return accepted;
  }

  DEVICE void log(const Team auto& team, int64_t at, int32_t accepted) const {
    team.for_each(1, [&](int32_t) {
      const int64_t row = int64_t{ladder_} * b_.slice + at;
      b_.best_log[row] = best_[0];
      b_.accepted_log[row] = accepted;
      for (int32_t chain = 0; chain < n_; ++chain)
        if (rung_[chain] == 0) b_.coldest_log[row] = energy_[chain];
    });
  }

  // Temperatures follow what was accepted, and neighbours swap.
  DEVICE void adjust(const Team auto& team, int64_t step) const {
    const auto odd = static_cast<int32_t>(step % 2);
    team.for_each(n_, [&](int32_t chain) { at_[rung_[chain]] = chain; });
    team.for_each((n_ - odd) / 2, [&](int32_t pair) {
      const int32_t low = odd + 2 * pair, cold = at_[low], hot = at_[low + 1];
      const double colder = 1 / temperature_[low] - 1 / temperature_[low + 1];
      const double likely = colder * (energy_[cold] - energy_[hot]);
      swaps_[low] = draws_[kSwap * n_ + low] < exponential(likely < 0 ? likely : 0);
    });
    team.for_each(n_, [&](int32_t chain) {
      if (proposed_[chain] == 0) return;
      const int32_t rung = rung_[chain];
      const double weight = exponential(-kDecay * natural_log(1.0 + slower_[rung]));
      temperature_[rung] *= exponential(weight * (b_.share[rung] - accepted_[chain]));
      slower_[rung] += accepted_[chain];
    });
    team.for_each((n_ - odd) / 2, [&](int32_t pair) {
      const int32_t low = odd + 2 * pair;
      if (!swaps_[low]) return;
      rung_[at_[low]] = low + 1;
      rung_[at_[low + 1]] = low;
    });
    ascend(team);
  }

  // No rung is colder than the one below it.
  DEVICE void ascend(const Team auto& team) const {
    team.for_each(1, [&](int32_t) {
      for (int32_t rung = 1; rung < n_; ++rung)
        temperature_[rung] = later_of(temperature_[rung], temperature_[rung - 1]);
    });
  }

  // sample_ gets by how much the proposals that are slower are slower. Returns how many it has then.
  DEVICE int32_t sample(const Team auto& team, int32_t samples) const {
    for (int32_t chain = 0; chain < n_; ++chain) {
      const double slower = proposed_[chain] - energy_[chain];
      if (slower > 0 && slower < kInfinity) put(team, &sample_[samples++], slower);
    }
    return samples;
  }

  // Temperatures at which each rung would accept its share of the samples.
  DEVICE void heat(const Team auto& team, int32_t samples) const {
    const double energy = team.min_of(n_, energy_);
    team.for_each(n_, [&](int32_t rung) { temperature_[rung] = first_temperature(samples, b_.share[rung], energy); });
    ascend(team);
  }

  DEVICE double first_temperature(int32_t samples, double share, double energy) const {
    double low = natural_log(kColdest * energy), high = natural_log(energy / kColdest);
    for (int32_t i = 0; samples > 0 && i < kHalvings; ++i) {
      const double middle = (low + high) / 2, temperature = exponential(middle);
      double accepts = 0;
      for (int32_t sample = 0; sample < samples; ++sample) accepts += exponential(-sample_[sample] / temperature);
      (accepts / samples < share ? low : high) = middle;
    }
    return exponential(low);
  }

  // proposal_ [C] of a step.
  DEVICE void propose(const Team auto& team, int64_t step) const {
    team.for_each(kDraws * n_, [&](int32_t i) { draws_[i] = draw(b_, ladder_, step, i / n_, i % n_); });
    team.for_each(n_, [&](int32_t chain) {
      proposal_[chain] = Proposer(b_, draws_, chain).propose(placement(chain));
      accepted_[chain] = 0;
    });
  }

  // Returns whether the chain proposes another placement, and whether that fits.
  DEVICE bool is_feasible(const Team auto& team, int32_t chain) const {
    const Proposal& p = proposal_[chain];
    if (p.one == p.other) return false;
    if (!b_.budget.binds) return true;
    const int64_t* used = this->used(chain);
    return !team.any(b_.model.strategies.servers,
                     [&](int32_t server) { return used[server] + added(p, server) > b_.budget.memory; });
  }

  DEVICE int64_t added(const Proposal& p, int32_t server) const {
    const int64_t n = b_.model.strategies.servers;
    return p.added_bytes * b_.budget.member[p.other * n + server] -
           p.freed_bytes * b_.budget.member[p.one * n + server];
  }

  // The chain `to` has what `chain` proposes.
  DEVICE void add_memory(const Team auto& team, int32_t chain, int32_t to) const {
    if (!b_.budget.binds) return;
    int64_t* used = this->used(to);
    const Proposal& p = proposal_[chain];
    team.for_each(b_.model.strategies.servers, [&](int32_t server) { used[server] += added(p, server); });
  }

  // s of what `chain` proposes, where the chain `at` is at the same state; above the limit, it is only known to be that
  // high. The chain `at` goes there if it is at most `accepts`.
  DEVICE double evaluate(const Team auto& team, int32_t at, int32_t chain, double limit, double accepts) const {
    const CoflowLoads loads = this->loads(at);
    const Contention model(b_.model, loads, model_);
    const Proposal& p = proposal_[chain];
    set_target(team, chain);
    double seconds = model.reduces(target_, p.other);
    if (seconds <= limit && p.both) seconds = later_of(seconds, model.reduces(target_, p.one));
    if (seconds > limit) return seconds;
    const bool one = p.changes == 1;
    if (one) loads.save(team, p.layer, undo_);
    exchange(team, loads, p);
    seconds = model.makespan(team, limit);
    if (seconds <= accepts) return seconds;
    if (one)
      loads.restore(team, p.layer, p.one, undo_);
    else
      exchange(team, loads, p);
    return seconds;
  }

  // target_ [Y] becomes what the chain proposes.
  DEVICE void set_target(const Team auto& team, int32_t chain) const {
    const Proposal& p = proposal_[chain];
    const int32_t* now = placement(chain);
    team.for_each(layers_, [&](int32_t layer) { target_[layer] = p.target(layer, now[layer]); });
  }

  // A placement and target_, what the proposal made of it, change places.
  DEVICE void exchange(const Team auto& team, const CoflowLoads& loads, const Proposal& p) const {
    const bool one = p.changes == 1;
    for (int32_t layer = one ? p.layer : p.first; layer <= (one ? p.layer : p.last); ++layer) {
      const int32_t before = loads.choice(layer), after = target_[layer];  // read by all before change() writes
      if (before == after) continue;
      loads.change(team, layer, after);
      team.set(&target_[layer], before);
    }
    team.wait();  // all have read both
  }

  // s of a chain's placement, from scratch.
  DEVICE double measure(const Team auto& team, int32_t chain) const {
    const CoflowLoads loads = this->loads(chain);
    loads.build(team);
    return Contention(b_.model, loads, model_).makespan(team, kInfinity);
  }

  // All chains go where one is.
  DEVICE void move_all_to(const Team auto& team, int32_t chain, double energy) const {
    team.for_each(layers_, [&](int32_t layer) { target_[layer] = placement(chain)[layer]; });
    team.for_each(n_ * layers_, [&](int32_t i) { placement_[i] = target_[i % layers_]; });
    team.for_each(n_, [&](int32_t i) { energy_[i] = energy; });
  }

  // used_ [C, N] of the placements.
  DEVICE void fill(const Team auto& team) const {
    const int32_t servers = b_.model.strategies.servers, choices = b_.model.strategies.choices;
    team.for_each(n_ * servers, [&](int32_t i) {
      int64_t bytes = 0;
      for (int32_t layer = 0; layer < layers_; ++layer) {
        const int64_t choice = placement(i / servers)[layer];
        bytes += b_.budget.need[int64_t{layer} * choices + choice] * b_.budget.member[choice * servers + i % servers];
      }
      used_[i] = bytes;
    });
  }

  // Copies the memory of chain 0 to all others.
  DEVICE void fill_others(const Team auto& team) const {
    const int32_t servers = b_.model.strategies.servers;
    for (int32_t chain = 1; b_.budget.binds && chain < n_; ++chain) team.copy(servers, used_, used(chain));
  }

  // A state that was reached is kept if it is one of the fastest; of equal ones, the first.
  DEVICE void record_best(const Team auto& team, double energy, const int32_t* state) const {
    if (!(energy < best_[b_.best_count - 1])) return;
    int32_t row = 0;
    while (best_[row] <= energy) ++row;
    if (row > 0 && energy <= best_[row - 1] * (1 + kSame)) return;
    const int32_t last = best_[row] <= energy * (1 + kSame) ? row : b_.best_count - 1;  // what it takes the place of
    team.wait();                                                                        // all have read
    for (int32_t i = last; i > row; --i)
      team.copy(layers_, best_placement_ + int64_t{i - 1} * layers_, best_placement_ + int64_t{i} * layers_);
    team.copy(layers_, state, best_placement_ + int64_t{row} * layers_);
    team.for_each(1, [&](int32_t) {
      for (int32_t i = last; i > row; --i) best_[i] = best_[i - 1];
      best_[row] = energy;
    });
  }

  DEVICE static void put(const Team auto& team, double* to, double value) {
    team.for_each(1, [=](int32_t) { *to = value; });
  }

  // The first chain whose value is the lowest.
  DEVICE int32_t lowest_of(const Team auto& team, const double* values) const {
    const double lowest = team.min_of(n_, values);
    return team.first(n_, [&](int32_t chain) { return values[chain] == lowest; });
  }

  const WalkBatch& b_;
  int32_t ladder_, n_, layers_;
  int32_t* placement_;                // [C, Y]
  int64_t *load_, *used_;             // [C, Y, 2, L], [C, N]
  double* energy_;                    // [C]
  int32_t* rung_;                     // [C]
  double* temperature_;               // [C]
  int32_t* slower_;                   // [C]
  double* best_;                      // [D]
  int32_t *best_placement_, *stuck_;  // [D, Y], [1]
  double* model_;                     // what Contention needs
  int64_t* undo_;                     // what CoflowLoads::save() writes
  double* draws_;                     // [kDrawn, C]
  double *limit_, *proposed_;         // [C] s, as set_limits() and try_proposal() say
  double* sample_;                    // [kSampled, C] s
  Proposal* proposal_;                // [C]
  int32_t* target_;                   // [Y]
  int32_t *accepted_, *at_, *swaps_;  // [C] 1: accepted; chain on every rung; 1: those at a rung and the next swap
};

}  // namespace topoflow::BACKEND

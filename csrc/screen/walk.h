// Ladders of Metropolis chains over placements, as the kernel takes them: what may be proposed, what fits in memory,
// and the state of every chain between two steps.
//
// Shapes: as in coflows.h; A ladders, C chains of each, D states that are kept, B degrees, M neighbours, S steps of a
// launch.
//
// Source: topoflow/search/moves.py, memory.py and tempering.py make them and say what is in them.
#pragma once

#include "coflows.h"

namespace topoflow {

// The moves that chains propose.
struct Moves {
  int32_t degrees;
  const int32_t *order, *degree, *place, *first, *count;
  const double* likely;
  const int64_t* near_offsets;
  const int32_t* near;
  double trades, stays, joins;
};

constexpr Field<Moves> kMovesFields[] = {
    array("first", &Moves::first, "B", "where the choices of each degree begin in `order`"),
    array("count", &Moves::count, "B", "how many there are"),
    array("order", &Moves::order, "K", "choices by degree"),
    array("degree", &Moves::degree, "K", "which of the degrees a choice has"),
    array("place", &Moves::place, "K", "where it is among those of its degree"),
    array("likely", &Moves::likely, "B,B", "probability of a choice of one degree where a layer has one of another"),
    array("near_offsets", &Moves::near_offsets, "Y+1", "first neighbour of each layer"),
    array("near", &Moves::near, "M", "layers that a layer reads or is read by"),
    count('B', &Moves::degrees)};

// The memory that placements need, and how much there is.
struct MemoryBudget {
  const int64_t* need;
  const int64_t* member;
  int64_t memory;  // B of a GPU
  bool binds;      // whether anything does not fit
};

constexpr Field<MemoryBudget> kMemoryBudgetFields[] = {
    array("need", &MemoryBudget::need, "Y,K", "B on each GPU of a holder"),
    array("member", &MemoryBudget::member, "K,N", "1: the server is a holder")};

enum class WalkPart : int32_t { kBegin, kResume, kSteps };

struct WalkBatch {
  ContentionModel model;
  Moves moves;
  MemoryBudget budget;
  Where where;
  int32_t ladders, chains, best_count, slice;
  int32_t first;  // the number, among all that walk, of the first ladder here: what a ladder draws depends on it
  int32_t* placement;
  double* energy;
  int32_t* rung;
  double* temperature;
  int32_t* slower;
  int32_t* best_placement;
  double* best;
  int32_t* stuck;
  int64_t *load, *used;
  const double* share;
  double *best_log, *coldest_log;
  int32_t* accepted_log;
  const int32_t* cancel;
  int64_t seed, round, patience;
  WalkPart part;
  int64_t step, end;
};

constexpr Field<WalkBatch> kWalkFields[] = {
    array("placement", &WalkBatch::placement, "A,C,Y", "in and out, choice of each layer"),
    array("energy", &WalkBatch::energy, "A,C", "s"),
    array("rung", &WalkBatch::rung, "A,C", "of each chain on its ladder, 0 is the coldest"),
    array("temperature", &WalkBatch::temperature, "A,C", "s, of every rung"),
    array("slower", &WalkBatch::slower, "A,C", "slower proposals that were accepted so far, on every rung"),
    array("best", &WalkBatch::best, "A,D", "s, the fastest states so far"),
    array("best_placement", &WalkBatch::best_placement, "A,D,Y", "which these are"),
    array("stuck", &WalkBatch::stuck, "A", "steps of a descent in a row that found nothing faster"),
    array("load", &WalkBatch::load, "A,C,Y,2,L", "1/unit B of a layer's coflows on links: activations, gradients"),
    array("used", &WalkBatch::used, "A,C,N", "B on each GPU of a server"),
    array("share", &WalkBatch::share, "C", "of slower proposals that a rung accepts"),
    array("best_log", &WalkBatch::best_log, "A,S", "out, s, the fastest state after every step of the launch"),
    array("coldest_log", &WalkBatch::coldest_log, "A,S", "out, s, of the chain on the coldest rung"),
    array("accepted_log", &WalkBatch::accepted_log, "A,S", "out, proposals that were accepted"),
    on_host("cancel", &WalkBatch::cancel, "1", "not 0: stop between two steps"),
    count('A', &WalkBatch::ladders),
    count('C', &WalkBatch::chains),
    count('D', &WalkBatch::best_count),
    count('S', &WalkBatch::slice)};

namespace cpu {
void walk(const WalkBatch& batch);
}
namespace cuda {
void walk(const WalkBatch& batch);
}

}  // namespace topoflow

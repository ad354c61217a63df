// The state of a world's tasks and flows while it runs. Source: what world.h asks for.
#pragma once

#include "arena.h"
#include "flows.h"
#include "queues/resources.h"

namespace topoflow::BACKEND {

struct State {
  Global<int32_t> hops;     // [H] links, without those that need not be considered
  Global<double> weights;   // [H] of `hops`; none where the graph has no weights
  Global<Row> rows;         // [P] of `hops`
  Global<Flows> flows;      // [P]
  Tournament ends;          // paths by s
  List changed;             // paths
  Global<Flow> flow;        // [T]
  Global<int32_t> pending;  // [T] tasks in `after` that have not finished
  Waits waits;              // tasks by s
  List due;                 // tasks whose wait has ended
  List finished;            // tasks
  Resources<double> resources;
  List queued;  // tasks that occupy a resource and have just become ready, or have just finished

  HD State(Arena& arena, const Sizes& n)
      : hops(arena.take<int32_t>(n.hops)),
        weights(arena.take<double>(n.weights)),
        rows(arena.take<Row>(n.paths)),
        flows(arena.take<Flows>(n.paths)),
        ends(arena.tournament(n.paths)),
        changed(arena.list(n.paths)),
        flow(arena.take<Flow>(n.tasks)),
        pending(arena.take<int32_t>(n.tasks)),
        waits(arena.waits(n.tasks)),
        due(arena.list(n.tasks)),
        finished(arena.list(n.tasks)),
        resources(arena, n.occupying),
        queued(arena.list(n.occupying)) {}
};

}  // namespace topoflow::BACKEND

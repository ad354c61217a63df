// Resources that tasks occupy one at a time, such as the stream of a GPU: the task that was ready first runs first; of
// tasks that were ready at one time, that with the lowest number.
//   tasks 3, 1 and 2 of a resource are ready at 5, 5 and 4 s and take 2 s each   -> they begin at 8, 6 and 4 s
//
// The number of a resource is that of one of its tasks. wait() and release() record the events of one time, in any
// order; then serve() begins the tasks whose turn it is.
//
// Source: first come, first served, Kleinrock, "Queueing systems", volume 1, 1975, 1.2; the heap is that of
// skew_heap.h.
#pragma once

#include "parallel/memory.h"
#include "skew_heap.h"

namespace topoflow::BACKEND {

template <class Time>
struct Resources {
  struct Waiting {
    Time target;          // when it was ready
    int32_t left, right;  // tasks that begin later, -1: none
  };
  struct Queue {
    Time free;      // when the last task that occupied it has finished
    int32_t first;  // the task that begins next, -1: none waits
    bool occupied;
    bool called;  // it is in `called`
  };

  Waiting* task;    // [T]
  Queue* queue;     // [T] by the number of the resource
  int32_t* called;  // of a part: how many resources something has happened to, then these

  // `tasks`: 0 where none occupies a resource. Of several parts, each has the resources with the numbers of its own
  // tasks.
  HD Resources(Memory& memory, int64_t tasks, int32_t parts = 1, int32_t part = 0, int64_t tasks_before = 0)
      : task(memory.take<Waiting>(tasks)),
        queue(memory.take<Queue>(tasks)),
        called(memory.take<int32_t>(tasks > 0 ? tasks + parts : 0) + (tasks > 0 ? tasks_before + part : 0)) {}

  DEVICE void begin(int32_t resource, Time earliest) const { queue[resource] = {earliest, -1, false, false}; }
  DEVICE void begin() const { called[0] = 0; }

  // Called, as what follows is, so that it leaves room in a GPU's cache for the instructions that are always needed.
  CALLED_ON_GPU void wait(int32_t resource, int32_t t, Time since) const {
    task[t] = {since, -1, -1};
    queue[resource].first = merged(task, queue[resource].first, t);
    call(resource);
  }

  CALLED_ON_GPU void release(int32_t resource, Time time) const {
    queue[resource].occupied = false;
    queue[resource].free = time;
    call(resource);
  }

  // Calls begin(task, since when its resource is free) for each task that begins.
  template <class F>
  DEVICE void serve(const F& begin) const {
    while (called[0] > 0) {
      const int32_t resource = called[called[0]--], t = next(resource);
      if (t >= 0) begin(t, queue[resource].free);
    }
  }

 private:
  // The task that begins on a resource, -1: none does.
  CALLED_ON_GPU int32_t next(int32_t resource) const {
    Queue& q = queue[resource];
    q.called = false;
    if (q.occupied || q.first < 0) return -1;
    const int32_t t = q.first;
    q.first = merged(task, task[t].left, task[t].right);
    q.occupied = true;
    return t;
  }

  DEVICE void call(int32_t resource) const {
    if (queue[resource].called) return;
    queue[resource].called = true;
    called[++called[0]] = resource;
  }
};

}  // namespace topoflow::BACKEND

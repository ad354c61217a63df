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

  DEVICE void wait(int32_t resource, int32_t t, Time since) const { add(*this, resource, t, since); }
  DEVICE void release(int32_t resource, Time time) const { free(*this, resource, time); }

  // Calls begin(task, since when its resource is free) for each task that begins.
  template <class F>
  DEVICE void serve(const F& begin) const {
    while (called[0] > 0) {
      const int32_t resource = called[called[0]--], t = next(*this, resource);
      if (t >= 0) begin(t, queue[resource].free);
    }
  }

 private:
  // These are called, so that they leave room in a GPU's cache for the instructions that are always needed. They take a
  // copy: what a call has the address of lies in local memory, and so would the world around it.
  CALLED_ON_GPU static void add(Resources resources, int32_t resource, int32_t t, Time since) {
    resources.task[t] = {since, -1, -1};
    resources.queue[resource].first = merged(resources.task, resources.queue[resource].first, t);
    resources.call(resource);
  }

  CALLED_ON_GPU static void free(Resources resources, int32_t resource, Time time) {
    resources.queue[resource].occupied = false;
    resources.queue[resource].free = time;
    resources.call(resource);
  }

  // The task that begins on a resource, -1: none does.
  CALLED_ON_GPU static int32_t next(Resources resources, int32_t resource) {
    Queue& q = resources.queue[resource];
    q.called = false;
    if (q.occupied || q.first < 0) return -1;
    const int32_t t = q.first;
    q.first = merged(resources.task, resources.task[t].left, resources.task[t].right);
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

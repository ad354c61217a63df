// Tasks of a world: which of them are ready, and what happens to them next.
//
// A task begins when those that it waits for have finished. Where tasks run for several rounds, each of these
// dependencies has tokens: one more when the first task has finished, one less when the second has begun. A task
// begins when it does not run and all of its dependencies have one; those that lead from a round to the next have one
// at first.
//
//   a -> b -> a of the next round      a runs   a | b | a | b ..     tokens of a -> b   0 | 1 0 | ..
//
// Source: marked graphs, Commoner, Holt, Even and Pnueli, "Marked directed graphs", Journal of Computer and System
// Sciences 5(5), 1971.
#pragma once

#include "batch.h"
#include "latencies.h"
#include "parallel/events.h"
#include "parallel/memory.h"

namespace topoflow::BACKEND::packet {

// Where a task is.
struct Progress {
  int64_t since;    // ps, when it was ready in its last round; kNever: it has not been
  int32_t pending;  // dependencies without a token, and where there are several rounds one more while it runs
  int32_t begun;    // rounds
};

struct TaskState {
  EventHeap* events;
  Event* heap;         // [T] what it consists of: of each task one at a time
  Progress* progress;  // [T]
  int32_t* tokens;     // [D] where there are several rounds

  HD TaskState(Memory& memory, const PacketBatch& batch, int32_t world) {
    const int64_t first = batch.task_offsets[world], end = batch.task_offsets[world + 1], tasks = end - first;
    const bool repeats = batch.rounds[world] > 1;
    events = memory.take<EventHeap>(1);
    heap = memory.take<Event>(tasks);
    progress = memory.take<Progress>(tasks);
    tokens = memory.take<int32_t>(repeats ? batch.follower_offsets[end] - batch.follower_offsets[first] : 0);
  }
};

class Tasks {
 public:
  DEVICE Tasks(const PacketBatch& batch, int32_t world, const TaskState& state)
      : b_(batch),
        s_(state),
        world_(world),
        first_(batch.task_offsets[world]),
        count_(static_cast<int32_t>(batch.task_offsets[world + 1] - first_)),
        rounds_(batch.rounds[world]),
        edge_(batch.follower_offsets[first_]),
        latencies_(batch.message_latencies + int64_t{world} * kLatencyBins) {}

  DEVICE bool repeats() const { return rounds_ > 1; }

  DEVICE void begin() {
    *s_.events = {s_.heap, 0};
    latencies_.begin();
    for (int32_t t = 0; t < count_; ++t) {
      s_.progress[t] = {kNever, b_.pending[first_ + t], 0};
      b_.start[first_ + t] = b_.finish[first_ + t] = kNever;
    }
    if (repeats())
      for (int64_t e = 0; e < b_.follower_offsets[first_ + count_] - edge_; ++e) s_.tokens[e] = b_.tokens[edge_ + e];
    for (int32_t t = 0; t < count_; ++t)
      if (b_.pending[first_ + t] == 0) ready(t, 0);
  }

  // When something happens next, ps, and what.
  DEVICE int64_t time() const { return s_.events->time(); }
  DEVICE Event pop() const { return s_.events->pop(); }
  DEVICE void push(const Event& event) const { s_.events->push(event); }

  // What an event is: the message of `task` comes to its NIC, or else the task has finished.
  DEVICE int32_t task(const Event& event) const { return static_cast<int32_t>(event.what / 2 % count_); }
  DEVICE static bool is_offer(const Event& event) { return event.what % 2 == 0; }

  // The message of a task has arrived, or is received as late as `time`.
  DEVICE Event finished(int32_t task, int64_t time) const { return {time, 2 * number(task) + 1}; }

  // Of the round that a task is in. As numbers of tasks are if all rounds are written one after the other.
  DEVICE int64_t number(int32_t task) const {
    return repeats() ? int64_t{s_.progress[task].begun - 1} * count_ + task : int64_t{task};
  }

  DEVICE void finish(int32_t task, int64_t time) {
    if (b_.bytes[first_ + task] > 0) latencies_.count(time - s_.progress[task].since - b_.waited[first_ + task]);
    if (s_.progress[task].begun == rounds_) b_.finish[first_ + task] = time;
    for (int64_t e = b_.follower_offsets[first_ + task]; e < b_.follower_offsets[first_ + task + 1]; ++e)
      if (!repeats() || s_.tokens[e - edge_]++ == 0) wait_less(b_.followers[e], time);
    if (repeats()) wait_less(task, time);
  }

  // Whether everything has finished, if nothing is left that could happen.
  DEVICE bool have_finished() const {
    for (int32_t t = 0; t < count_; ++t)
      if (b_.finish[first_ + t] == kNever) return false;
    return true;
  }

  DEVICE void write_latencies() const {
    latencies_.write(b_.message_latency_sum[world_], b_.message_latency_most[world_]);
  }

 private:
  DEVICE void wait_less(int32_t task, int64_t time) {
    Progress& progress = s_.progress[task];
    if (--progress.pending == 0 && progress.begun < rounds_) ready(task, time);
  }

  DEVICE void ready(int32_t task, int64_t time) {
    const int64_t released = b_.release[first_ + task], begin = time > released ? time : released;
    Progress& progress = s_.progress[task];
    progress.since = begin;
    if (++progress.begun == 1) b_.start[first_ + task] = begin;
    if (repeats()) take_tokens(task);
    const bool sends = b_.bytes[first_ + task] > 0;
    push({begin + b_.delay[first_ + task] + (sends ? b_.nic_latency : 0), 2 * number(task) + !sends});
  }

  DEVICE void take_tokens(int32_t task) const {
    int32_t& pending = s_.progress[task].pending;
    ++pending;
    for (int64_t i = b_.awaited_offsets[first_ + task]; i < b_.awaited_offsets[first_ + task + 1]; ++i)
      pending += --s_.tokens[b_.awaited[i]] == 0;
  }

  const PacketBatch& b_;
  TaskState s_;
  int32_t world_;
  int64_t first_;
  int32_t count_;
  int64_t rounds_, edge_;  // the first edge, of the dependencies of all worlds
  Latencies latencies_;    // of messages
};

}  // namespace topoflow::BACKEND::packet

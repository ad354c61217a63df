// Tasks of a world: which of them are ready, and what happens to them next.
//
// A task begins when those that it waits for have finished. Where tasks run for several rounds, each of these
// dependencies has tokens: one more when the first task has finished, one less when the second has begun. A task
// begins when it does not run and all of its dependencies have one; those that lead from a round to the next have one
// at first. A task that takes no time finishes as it begins, without an event.
//
//   a -> b -> a of the next round      a runs   a | b | a | b ..     tokens of a -> b   0 | 1 0 | ..
//
// Source: marked graphs, Commoner, Holt, Even and Pnueli, "Marked directed graphs", Journal of Computer and System
// Sciences 5(5), 1971.
#pragma once

#include "batch.h"
#include "packet/counts/latencies.h"
#include "parallel/memory.h"
#include "queues/event_heap.h"
#include "queues/resources.h"

namespace topoflow::BACKEND::packet {

constexpr int32_t kNone = -1;

// The state of a task, in a cache line.
struct alignas(64) Task {
  int64_t since;                     // ps, when it was ready in its last round; kNever: it has not been
  int64_t release, delay, waited;    // ps (batch.h); the delay of a message is that of its NIC, too
  int64_t followers;                 // the first, from that of the world on
  int32_t pending;                   // dependencies without a token, and with several rounds one more while it runs
  int32_t begun;                     // rounds
  int32_t follows, awaited, awaits;  // how many followers; with several rounds: the first that it awaits, how many
  int16_t part;                      // that sends its message (part.h), kNone: it has several senders
  bool sends;

  DEVICE bool takes_time() const { return sends || delay > 0; }
};
static_assert(sizeof(Task) == 64);

// The events of the tasks that a part follows. Aligned, so that heaps of two parts never share a cache line.
struct alignas(64) TaskEvents : EventHeap {};

struct TaskState {
  TaskEvents* events;  // a part's own
  Event* heap;         // what it consists of: of each task one at a time
  Event* due;          // those of a window
  Task* task;          // [T]
  int32_t* at_once;    // those that finish as soon as they begin, and have begun
  int32_t* tokens;     // [D] of each dependency, where there are several rounds
  int64_t* latencies;  // [B] a part's own: messages in each bin
  Resources<int64_t> resources;

  HD TaskState(Memory& memory, const PacketBatch& batch, int32_t world, const Share& share)
      : resources(memory,
                  batch.tasks.resource ? batch.tasks.task_offsets[world + 1] - batch.tasks.task_offsets[world] : 0,
                  share.parts, share.rank, share.tasks_before) {
    const int64_t first = batch.tasks.task_offsets[world], end = batch.tasks.task_offsets[world + 1],
                  tasks = end - first;
    const bool repeats = batch.tasks.rounds[world] > 1;
    events = memory.take<TaskEvents>(share.parts) + share.rank;
    heap = memory.take<Event>(tasks) + share.tasks_before;
    due = memory.take<Event>(tasks) + share.tasks_before;
    task = memory.take<Task>(tasks);
    at_once = memory.take<int32_t>(tasks) + share.tasks_before;
    tokens =
        memory.take<int32_t>(repeats ? batch.tasks.follower_offsets[end] - batch.tasks.follower_offsets[first] : 0);
    latencies = latency_bins(memory, batch.out.message_latencies + int64_t{world} * kLatencyBins, share);
  }
};

class Tasks {
 public:
  DEVICE Tasks(const PacketBatch& batch, int32_t world, const TaskState& state)
      : b_(batch),
        s_(state),
        world_(world),
        first_(batch.tasks.task_offsets[world]),
        count_(static_cast<int32_t>(batch.tasks.task_offsets[world + 1] - first_)),
        rounds_(batch.tasks.rounds[world]),
        edge_(batch.tasks.follower_offsets[first_]),
        latencies_(state.latencies) {}

  DEVICE bool repeats() const { return rounds_ > 1; }

  // Sets the state of all tasks, which parts share.
  DEVICE void begin() const {
    for (int32_t t = 0; t < count_; ++t) {
      begin_task(t);
      b_.out.start[first_ + t] = b_.out.finish[first_ + t] = kNever;
      if (b_.tasks.resource) s_.resources.begin(t, 0);
    }
    if (repeats())
      for (int64_t e = 0; e < b_.tasks.follower_offsets[first_ + count_] - edge_; ++e)
        s_.tokens[e] = b_.tasks.tokens[edge_ + e];
  }

  // Begins the tasks that wait for none, of those with follows(task). Called after begin() has ended.
  template <class F>
  DEVICE void begin_first(const F& follows) {
    *s_.events = {{s_.heap, 0}};
    latencies_.begin();
    if (b_.tasks.resource) s_.resources.begin();
    for (int32_t t = 0; t < count_; ++t)
      if (b_.tasks.pending[first_ + t] == 0 && follows(t)) ready(t, s_.task[t], 0);
    finish_at_once(0);
    serve(0);
  }

  // Sets the part that sends the message of a task, after begin().
  DEVICE void set_part(int32_t t, int32_t part) const { s_.task[t].part = static_cast<int16_t>(part); }
  DEVICE int32_t part(int32_t t) const { return s_.task[t].part; }

  // Returns the next event and its time, ps.
  DEVICE int64_t time() const {
    const int64_t time = s_.events->time();
    return at_ < due_ && s_.due[at_].time < time ? s_.due[at_].time : time;
  }
  DEVICE Event pop() {
    if (at_ == due_ || (s_.events->size > 0 && s_.events->event[0] < s_.due[at_])) return s_.events->pop();
    return s_.due[at_++];
  }
  DEVICE void push(const Event& event) const { s_.events->push(event); }

  // Begins a window and sorts its events, so that the next ones are known. All of them must be popped.
  DEVICE void begin_window(int64_t end) {
    at_ = due_ = 0;
    while (s_.events->time() < end) s_.due[due_++] = s_.events->pop();
  }

  // Returns the event `later` places after the next one, of those that are known since the window began; nullptr if
  // there is none.
  DEVICE const Event* ahead(int32_t later) const { return at_ + later < due_ ? s_.due + at_ + later : nullptr; }

  // Fetch what finish() will read of a task, one cache line after the other: each says where the next one is.
  DEVICE void look_at(int32_t t) const { prefetch(&s_.task[t]); }

  DEVICE void look_at_dependencies(int32_t t) const {
    const Task& task = s_.task[t];
    prefetch(&b_.tasks.followers[edge_ + task.followers]);
    if (!repeats()) return;
    prefetch(&b_.tasks.awaited[edge_ + task.followers]);
    prefetch(&s_.tokens[task.awaited]);
  }

  DEVICE void look_at_followers(int32_t t) const {
    const int64_t first = edge_ + s_.task[t].followers;
    for (int32_t i = 0; i < s_.task[t].follows && i < 2; ++i) {
      look_at(b_.tasks.followers[first + i]);
      if (repeats()) prefetch(&s_.tokens[b_.tasks.awaited[first + i]]);
    }
  }

  // Returns the first follower if it takes no time, so that its own followers begin with it; else kNone.
  DEVICE int32_t instant_follower(int32_t t) const {
    if (s_.task[t].follows == 0) return kNone;
    const int32_t follower = b_.tasks.followers[edge_ + s_.task[t].followers];
    return s_.task[follower].takes_time() ? kNone : follower;
  }

  // Return the task of an event, and whether its message comes to its NIC; else the task has finished.
  DEVICE int32_t task(const Event& event) const {
    const int64_t number = event.code / 2;
    return static_cast<int32_t>(repeats() && is_offer(event) ? number % count_ : number);
  }
  DEVICE static bool is_offer(const Event& event) { return event.code % 2 == 0; }

  // Returns the event that a task finishes at `time`.
  DEVICE static Event finished(int32_t task, int64_t time) { return {time, 2 * int64_t{task} + 1}; }

  // Returns the number of a task in its round: that of a graph in which the tasks of all rounds follow each other.
  DEVICE int64_t number(int32_t task) const {
    return repeats() ? int64_t{s_.task[task].begun - 1} * count_ + task : int64_t{task};
  }

  // Finishes a task, and the tasks that wait for nothing else and take no time. The order of the events of one time
  // changes nothing: tokens are counted, and messages are offered in the order of their numbers.
  DEVICE void finish(int32_t t, int64_t time) {
    finish_one(t, time);
    finish_at_once(time);
  }

  // Begins tasks on resources after the last event at `time`.
  DEVICE void serve(int64_t time) const {
    if (!b_.tasks.resource || this->time() == time) return;
    s_.resources.serve([&](int32_t t, int64_t) {
      s_.task[t].since = b_.out.start[first_ + t] = time;
      push(finished(t, time + s_.task[t].delay));
    });
  }

  // Returns whether all tasks have finished, once no event is left.
  DEVICE bool have_finished() const {
    for (int32_t t = 0; t < count_; ++t)
      if (b_.out.finish[first_ + t] == kNever) return false;
    return true;
  }

  // Adds the latencies of the messages that this part has followed; that of rank 0 is the first to do so.
  DEVICE void add_latencies(int32_t rank) const {
    latencies_.add(b_.out.message_latencies, b_.out.message_latency_sum, b_.out.message_latency_most, world_, rank);
  }

 private:
  DEVICE void begin_task(int32_t t) const {
    const int64_t row = first_ + t, followers = b_.tasks.follower_offsets[row];
    Task task{};
    task.since = kNever;
    task.sends = b_.tasks.bytes[row] > 0;
    task.release = b_.tasks.release[row];
    task.delay = b_.tasks.delay[row] + (task.sends ? b_.model.nic_latency : 0);
    task.waited = b_.tasks.waited[row];
    task.followers = followers - edge_;
    task.follows = static_cast<int32_t>(b_.tasks.follower_offsets[row + 1] - followers);
    task.pending = b_.tasks.pending[row];
    if (repeats()) {
      task.awaited = static_cast<int32_t>(b_.tasks.awaited_offsets[row] - edge_);
      task.awaits = static_cast<int32_t>(b_.tasks.awaited_offsets[row + 1] - b_.tasks.awaited_offsets[row]);
    }
    s_.task[t] = task;
  }

  // Returns the resource of a task; kNone: it occupies none. If any task occupies one, there is one round.
  DEVICE int32_t resource(int32_t t) const { return b_.tasks.resource ? b_.tasks.resource[first_ + t] : kNone; }

  DEVICE void finish_at_once(int64_t time) {
    while (begun_ > 0) finish_one(s_.at_once[--begun_], time);
  }

  DEVICE void finish_one(int32_t t, int64_t time) {
    const Task& task = s_.task[t];
    if (const int32_t r = resource(t); r != kNone) {
      if (task.since == kNever) return s_.resources.wait(r, t, time);  // it has been released
      s_.resources.release(r, time);
    }
    if (task.sends) latencies_.count(time - task.since - task.waited);
    if (task.begun == rounds_) b_.out.finish[first_ + t] = time;
    for (int64_t e = task.followers; e < task.followers + task.follows; ++e)
      if (!repeats() || s_.tokens[b_.tasks.awaited[edge_ + e]]++ == 0) wait_less(b_.tasks.followers[edge_ + e], time);
    if (repeats()) wait_less(t, time);
  }

  DEVICE void wait_less(int32_t t, int64_t time) {
    Task& task = s_.task[t];
    if (--task.pending == 0 && task.begun < rounds_) ready(t, task, time);
  }

  DEVICE void ready(int32_t t, Task& task, int64_t time) {
    if (const int32_t r = resource(t); r != kNone) {
      task.begun = 1;
      return task.release > time ? push(finished(t, task.release)) : s_.resources.wait(r, t, time);
    }
    const int64_t begin = time > task.release ? time : task.release;
    task.since = begin;
    if (++task.begun == 1) b_.out.start[first_ + t] = begin;
    if (repeats()) take_tokens(task);
    if (begin == time && !task.takes_time()) {
      s_.at_once[begun_++] = t;
    } else {
      push(task.sends ? Event{begin + task.delay, 2 * number(t)} : finished(t, begin + task.delay));
    }
  }

  DEVICE void take_tokens(Task& task) const {
    ++task.pending;
    int32_t* const tokens = s_.tokens + task.awaited;
    for (int32_t i = 0; i < task.awaits; ++i) task.pending += --tokens[i] == 0;
  }

  const PacketBatch& b_;
  TaskState s_;
  int32_t world_;
  int64_t first_;
  int32_t count_, at_ = 0, due_ = 0;  // the next of those of a window, and how many
  int32_t begun_ = 0;                 // of those that finish at once
  int64_t rounds_, edge_;             // the first edge, of the dependencies of all worlds
  Latencies latencies_;               // of messages
};

}  // namespace topoflow::BACKEND::packet

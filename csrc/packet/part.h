// The part of a world that one thread simulates: all of it (Whole), or some of its ports (Part).
//
// Ports are numbered switch by switch, and the channels and queues of a port lie together (layout.py). So a part is a
// range of ports, and with it of channels, queues and routers. In a window no port depends on another, so each thread
// sends by its own ports. What goes to another part waits in a mailbox until the window has ended:
//
//   a packet   time: when its port began to send it;   next: the edge that it takes, or its channel (by address)
//   a credit   time: when the packet has left the buffer; task: none; step: flits; next: the channel
//   an event   of a task, for the thread that follows it; or what a message hears, for its receiver's or its sender's
//              part
//
//     take mail | all agree on the window | tasks | meet | offers, what messages hear, arrivals, ports | meet
//
// Dependencies between tasks take no time. So tasks that depend on each other, even by way of others, are followed by
// one thread, wherever their messages go; where all do, the others wait meanwhile. Then each thread offers the messages
// that its own ports send. Nothing depends on the order in which mail is taken: a queue has one sender, the times of
// credits are compared, events are in the order of their times and of what they are, and so are the messages of a NIC.
//
// Source: as world.h: windows of the lookahead in which processes do not depend on each other; Nicol, "The cost of
// conservative synchronization in parallel discrete event simulations", Journal of the ACM 40(2), 1993.
#pragma once

#include "state.h"
#ifndef TOPOFLOW_ON_GPU
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <vector>

#include "parallel/barrier.h"
#endif

namespace topoflow::BACKEND::packet {

// Where the part of a thread begins, and that of the one before ends.
struct Cut {
  int32_t port, channel, queue, router;
};

struct Whole {
  static constexpr bool kAlone = true;

  DEVICE int32_t rank() const { return 0; }
  DEVICE int32_t threads() const { return 1; }
  DEVICE Share share() const { return {}; }
  DEVICE bool follows(int32_t) const { return true; }
  DEVICE int32_t first_port() const { return 0; }
  DEVICE int32_t end_port(int32_t ports) const { return ports; }
  DEVICE int32_t first_channel() const { return 0; }
  DEVICE int32_t end_channel(int32_t channels) const { return channels; }
  DEVICE int32_t first_router() const { return 0; }
  DEVICE int32_t end_router(int32_t routers) const { return routers; }

  template <int32_t Cut::* kWhat>
  DEVICE static bool has(int32_t) {
    return true;
  }

  DEVICE int64_t agree(int64_t first, int64_t, bool&) const { return first; }
  DEVICE void after_tasks(int64_t) const {}
  DEVICE void meet() const {}

  DEVICE static void add(int64_t& count, int64_t more) { count += more; }

  // Whether it was the last packet of its message.
  DEVICE bool arrives(Message& message, int64_t arrival) const {
    if (arrival > message.arrival) message.arrival = arrival;
    return --message.left == 0;
  }
};

#ifndef TOPOFLOW_ON_GPU

// What one thread has for another.
struct alignas(64) Mail {
  std::vector<Slot> slots;
  std::vector<Event> events;
  std::vector<Event> offers;  // of messages to the ports that send them, in the window
};

// What a thread says before a window.
struct alignas(64) Notice {
  int64_t first, tasks;  // ps, when something happens in its part; when something happens to a task that it follows
  bool gives_up;
};

// What the threads of one world share.
struct Partition {
  Partition(const PacketBatch& batch, int32_t world, int32_t threads)
      : threads(threads),
        cuts(static_cast<size_t>(threads) + 1),
        thread_of(batch.task_offsets[world + 1] - batch.task_offsets[world]),
        tasks_before(static_cast<size_t>(threads) + 1),
        mail(static_cast<size_t>(threads) * threads),
        notices(threads),
        barrier(threads) {
    for (int32_t t = 0; t <= threads; ++t) cuts[t] = cut(batch, world, t);
    share_tasks(batch, world);
  }

  const int32_t threads;
  std::vector<Cut> cuts;
  std::vector<int16_t> thread_of;     // that follows each task
  std::vector<int64_t> tasks_before;  // how many the threads before each follow
  std::vector<Mail> mail;             // from each thread to each
  std::vector<Notice> notices;
  Barrier barrier;
  bool is_cancelled = false;

 private:
  // Each thread follows about as many tasks: sets of tasks that depend on each other, in the order of their first
  // tasks.
  void share_tasks(const PacketBatch& b, int32_t world) {
    const int64_t row = b.task_offsets[world];
    const auto count = static_cast<int32_t>(b.task_offsets[world + 1] - row);
    std::vector<int32_t> first(count), size(count, 0);  // an earlier task of the same set, or itself; of a set
    std::iota(first.begin(), first.end(), 0);
    const auto find = [&](int32_t t) {
      for (; first[t] != t; t = first[t]) first[t] = first[first[t]];
      return t;
    };
    for (int32_t t = 0; t < count; ++t) {
      for (int64_t e = b.follower_offsets[row + t]; e < b.follower_offsets[row + t + 1]; ++e) {
        const int32_t one = find(t), other = find(b.followers[e]);
        first[std::max(one, other)] = std::min(one, other);
      }
    }
    for (int32_t t = 0; t < count; ++t) ++size[find(t)];
    int64_t shared = 0;
    for (int32_t t = 0; t < count; ++t) {
      const int32_t set = find(t);
      if (set == t) {
        thread_of[t] = static_cast<int16_t>((2 * shared + size[t]) * threads / (2 * int64_t{count}));
        shared += size[t];
      }
      thread_of[t] = thread_of[set];
      ++tasks_before[thread_of[t] + 1];
    }
    std::partial_sum(tasks_before.begin(), tasks_before.end(), tasks_before.begin());
  }

  // Parts have about equally many ports, and whole switches.
  Cut cut(const PacketBatch& b, int32_t world, int32_t t) const {
    const int64_t first = b.port_offsets[world], channel = b.channel_offsets[world];
    const auto ports = static_cast<int32_t>(b.port_offsets[world + 1] - first);
    const auto channels = static_cast<int32_t>(b.channel_offsets[world + 1] - channel);
    Cut found{static_cast<int32_t>(int64_t{ports} * t / threads), 0, 0, 0};
    while (found.port > 0 && found.port < ports && b.node[first + found.port] == b.node[first + found.port - 1])
      ++found.port;
    const int32_t* const from = b.channel_port + channel;
    found.channel = static_cast<int32_t>(std::lower_bound(from, from + channels, found.port) - from);
    found.queue = static_cast<int32_t>(b.port_queues[first + found.port] - b.port_queues[first]);
    found.router = found.port < ports ? b.node[first + found.port] : ports == 0 ? 0 : b.node[first + ports - 1] + 1;
    if (t == 0) found.router = 0;
    return found;
  }
};

class Part {
 public:
  static constexpr bool kAlone = false;

  Part(Partition& all, int32_t rank) : all_(all), rank_(rank), first_(all.cuts[rank]), end_(all.cuts[rank + 1]) {}

  int32_t rank() const { return rank_; }
  int32_t threads() const { return all_.threads; }
  Share share() const { return {all_.threads, rank_, all_.tasks_before[rank_]}; }
  bool follows(int32_t task) const { return thread_of(task) == rank_; }
  int32_t thread_of(int32_t task) const { return all_.thread_of[task]; }
  int32_t first_port() const { return first_.port; }
  int32_t end_port(int32_t) const { return end_.port; }
  int32_t first_channel() const { return first_.channel; }
  int32_t end_channel(int32_t) const { return end_.channel; }
  int32_t first_router() const { return first_.router; }
  int32_t end_router(int32_t routers) const { return end_.router < routers ? end_.router : routers; }

  template <int32_t Cut::* kWhat>
  bool has(int32_t i) const {
    return first_.*kWhat <= i && i < end_.*kWhat;
  }

  // The part with port, channel, queue or router i, and what this thread has for it.
  template <int32_t Cut::* kWhat>
  int32_t part_of(int32_t i) const {
    int32_t part = 0;
    while (all_.cuts[part + 1].*kWhat <= i) ++part;
    return part;
  }
  template <int32_t Cut::* kWhat>
  Mail& mail_for(int32_t i) const {
    return mail_to(part_of<kWhat>(i));
  }
  Mail& mail_to(int32_t to) const { return all_.mail[rank_ * all_.threads + to]; }
  Mail& mail_from(int32_t from) const { return all_.mail[from * all_.threads + rank_]; }

  // The earliest `first` of all threads.
  int64_t agree(int64_t first, int64_t tasks, bool& gives_up) {
    all_.notices[rank_] = {first, tasks, gives_up};
    meet();
    tasks_ = tasks;
    for (const Notice& notice : all_.notices) {
      first = std::min(first, notice.first);
      tasks_ = std::min(tasks_, notice.tasks);
      gives_up |= notice.gives_up;
    }
    return first;
  }

  // Waits until all events of tasks before `end` are treated.
  void after_tasks(int64_t end) const {
    if (tasks_ < end) meet();
  }

  void meet() const { all_.barrier.wait(); }

  // What several threads count.
  static void add(int64_t& count, int64_t more) { std::atomic_ref(count).fetch_add(more, std::memory_order_relaxed); }

  bool arrives(Message& message, int64_t arrival) const {
    const std::atomic_ref latest(message.arrival);
    int64_t known = latest.load(std::memory_order_relaxed);
    while (known < arrival && !latest.compare_exchange_weak(known, arrival, std::memory_order_relaxed)) continue;
    return std::atomic_ref(message.left).fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  Partition& all_;
  const int32_t rank_;
  const Cut first_, end_;
  int64_t tasks_ = kNever;
};

#endif

}  // namespace topoflow::BACKEND::packet

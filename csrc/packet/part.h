// A part of a world: all of it (Whole), or some of its ports (Part), so that threads can share the world.
//
// Ports are numbered switch by switch, and the channels and queues of a port lie together (layout.py). So a part is a
// range of ports, and with it of channels, queues and routers. In a window no port depends on another, so the parts of
// a window are done side by side, each by the thread that is the first to begin it (parallel/stages.h). What goes to
// another part waits in a mailbox until the window has ended:
//
//   a packet   time: when its port began to send it; next: the edge that it takes, or its channel (by address)
//   a credit   for the port that sends into a channel
//   an event   of a task, for the part that follows it; or what a message hears, for its receiver's or its sender's
//              part
//
//     stages of a window:   take mail | tasks | offers, what messages hear, arrivals, ports
//
// A window without events of tasks has two stages. Once a part has taken its mail, it says when its next event is; the
// window begins with the earliest of these.
//
// Dependencies between tasks take no time. So tasks that depend on each other or occupy one resource, even through
// others, are followed by one part, wherever their messages go. Then each part offers the messages that its own ports
// send. Nothing depends on the order in which mail is taken: a queue has one sender, the times of credits are compared,
// events are in the order of their times and of what they are, and so are the messages of a NIC.
//
// Source: as world.h: windows of the lookahead in which processes do not depend on each other; Nicol, "The cost of
// conservative synchronization in parallel discrete event simulations", Journal of the ACM 40(2), 1993.
#pragma once

#include "state.h"
#ifndef TOPOFLOW_ON_GPU
#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>
#endif

namespace topoflow::BACKEND::packet {

// The times of the next event, ps: of any kind, and of a task.
struct Notice {
  int64_t first, tasks;
  bool gives_up;  // a message does
};

// The first port, channel, queue and router of a part, at which the part before ends.
struct Cut {
  int32_t port, channel, queue, router;
};

struct Whole {
  static constexpr bool kAlone = true;

  DEVICE int32_t rank() const { return 0; }
  DEVICE Share share() const { return {}; }
  DEVICE bool follows(int32_t) const { return true; }
  DEVICE int32_t first_port() const { return 0; }
  DEVICE int32_t end_port(int32_t ports) const { return ports; }
  DEVICE int32_t first_channel() const { return 0; }
  DEVICE int32_t end_channel(int32_t channels) const { return channels; }
  DEVICE int32_t first_router() const { return 0; }
  DEVICE int32_t end_router(int32_t routers) const { return routers; }

  template <int32_t Cut::* kMember>
  DEVICE static bool has(int32_t) {
    return true;
  }

  DEVICE static void add(int64_t& count, int64_t more) { count += more; }

  DEVICE bool arrives(int32_t, Message& message, int64_t arrival) const { return count(message, arrival); }

  // Counts a packet that has arrived, of a message that no other part counts; returns whether it was the last one.
  DEVICE static bool count(Message& message, int64_t arrival) {
    if (arrival > message.arrival) message.arrival = arrival;
    return --message.left == 0;
  }
};

#ifndef TOPOFLOW_ON_GPU

struct Credit {
  int64_t left_at;  // ps, when the packet has left the buffer
  int32_t channel, flits;
};

// Messages from one part to another.
struct alignas(64) Mail {
  std::vector<Slot> packets;
  std::vector<Credit> credits;
  std::vector<Event> events;
  std::vector<Event> offers;  // of messages to the ports that send them, in the window
};

// The state that the parts of one world share.
struct Partition {
  Partition(const PacketBatch& batch, int32_t world, int32_t parts)
      : parts(parts),
        cuts(static_cast<size_t>(parts) + 1),
        follower(batch.tasks.task_offsets[world + 1] - batch.tasks.task_offsets[world]),
        is_split(follower.size(), 0),
        tasks_before(static_cast<size_t>(parts) + 1),
        mail(static_cast<size_t>(parts) * parts) {
    for (int32_t part = 0; part <= parts; ++part) cuts[part] = cut(batch, world, part);
    share_tasks(batch, world);
    if (batch.address.routing[world] == kByPaths) find_split(batch, world);  // by address a server has one last port
  }

  template <int32_t Cut::* kMember>
  int32_t part_of(int32_t i) const {
    int32_t part = 0;
    while (cuts[part + 1].*kMember <= i) ++part;
    return part;
  }

  const int32_t parts;
  std::vector<Cut> cuts;
  std::vector<int16_t> follower;      // the part that follows each task
  std::vector<char> is_split;         // whether packets of its message may arrive in several parts
  std::vector<int64_t> tasks_before;  // how many the parts before each follow
  std::vector<Mail> mail;             // from each part to each

 private:
  // Each part follows about as many tasks: sets of tasks that depend on each other, in the order of their first
  // tasks.
  void share_tasks(const PacketBatch& b, int32_t world) {
    const int64_t row = b.tasks.task_offsets[world];
    const auto count = static_cast<int32_t>(b.tasks.task_offsets[world + 1] - row);
    std::vector<int32_t> first(count), size(count, 0);  // an earlier task of the same set, or itself; of a set
    std::iota(first.begin(), first.end(), 0);
    const auto find = [&](int32_t t) {
      for (; first[t] != t; t = first[t]) first[t] = first[first[t]];
      return t;
    };
    for (int32_t t = 0; t < count; ++t) {
      for (int64_t e = b.tasks.follower_offsets[row + t]; e < b.tasks.follower_offsets[row + t + 1]; ++e) {
        const int32_t one = find(t), other = find(b.tasks.followers[e]);
        first[std::max(one, other)] = std::min(one, other);
      }
    }
    for (int32_t t = 0; t < count && b.tasks.resource; ++t) {
      if (b.tasks.resource[row + t] < 0) continue;
      const int32_t one = find(t), other = find(b.tasks.resource[row + t]);
      first[std::max(one, other)] = std::min(one, other);
    }
    for (int32_t t = 0; t < count; ++t) ++size[find(t)];
    int64_t shared = 0;
    for (int32_t t = 0; t < count; ++t) {
      const int32_t set = find(t);
      if (set == t) {
        follower[t] = static_cast<int16_t>((2 * shared + size[t]) * parts / (2 * int64_t{count}));
        shared += size[t];
      }
      follower[t] = follower[set];
      ++tasks_before[follower[t] + 1];
    }
    std::partial_sum(tasks_before.begin(), tasks_before.end(), tasks_before.begin());
  }

  void find_split(const PacketBatch& b, int32_t world) {
    const int64_t row = b.tasks.task_offsets[world], root = b.paths.root_offsets[world];
    Ends ends(*this, b, world);
    for (size_t t = 0; t < is_split.size(); ++t) {
      int32_t part = kNone;
      for (int64_t r = root + b.tasks.first_root[row + t];
           r < root + b.tasks.first_root[row + t] + b.tasks.roots[row + t]; ++r)
        part = Ends::either(part, ends.of(b.paths.root_port[r], b.paths.root_channel[r], b.paths.root_next[r]));
      is_split[t] = part == Ends::kSeveral;
    }
  }

  // Finds the part of the last port of packets that take a step; kSeveral: their last ports may be in several parts.
  class Ends {
   public:
    static constexpr int32_t kSeveral = -2;

    Ends(const Partition& all, const PacketBatch& b, int32_t world)
        : all_(all),
          b_(b),
          edge_(b.paths.edge_offsets[world]),
          branch_(b.paths.branch_edges + b.paths.branch_offsets[world]),
          part_of_edge_(b.paths.edge_offsets[world + 1] - edge_, kUnknown) {}

    // `port` sends into `channel` (kNone: it is the last one), and `next` follows (batch.h).
    int32_t of(int32_t port, int32_t channel, int32_t next) {
      if (channel == kNone) return all_.part_of<&Cut::port>(port);
      if (next >= 0) return of_edge(next);
      const int64_t* const branch = branch_ + (-2 - next);
      int32_t part = kNone;
      for (int64_t e = branch[0] - branch_[0]; e < branch[1] - branch_[0]; ++e)
        part = either(part, of_edge(static_cast<int32_t>(e)));
      return part;
    }

    static int32_t either(int32_t one, int32_t other) {
      if (one == kNone || one == other) return other;
      return other == kNone ? one : kSeveral;
    }

   private:
    static constexpr int32_t kUnknown = -3;

    int32_t of_edge(int32_t edge) {
      const int64_t row = edge_ + edge;
      if (part_of_edge_[edge] == kUnknown)
        part_of_edge_[edge] = of(b_.paths.edge_port[row], b_.paths.edge_channel[row], b_.paths.edge_next[row]);
      return part_of_edge_[edge];
    }

    const Partition& all_;
    const PacketBatch& b_;
    int64_t edge_;           // the first of the world
    const int64_t* branch_;  // [K+1] where its branches begin
    std::vector<int32_t> part_of_edge_;
  };

  // Parts have about equally many ports, and whole switches.
  Cut cut(const PacketBatch& b, int32_t world, int32_t part) const {
    const int64_t first = b.ports.port_offsets[world], channel = b.ports.channel_offsets[world];
    const auto ports = static_cast<int32_t>(b.ports.port_offsets[world + 1] - first);
    const auto channels = static_cast<int32_t>(b.ports.channel_offsets[world + 1] - channel);
    Cut result{static_cast<int32_t>(int64_t{ports} * part / parts), 0, 0, 0};
    while (result.port > 0 && result.port < ports &&
           b.ports.node[first + result.port] == b.ports.node[first + result.port - 1])
      ++result.port;
    const int32_t* const from = b.ports.channel_port + channel;
    result.channel = static_cast<int32_t>(std::lower_bound(from, from + channels, result.port) - from);
    result.queue = static_cast<int32_t>(b.ports.port_queues[first + result.port] - b.ports.port_queues[first]);
    result.router = result.port < ports ? b.ports.node[first + result.port]
                    : ports == 0        ? 0
                                        : b.ports.node[first + ports - 1] + 1;
    if (part == 0) result.router = 0;
    return result;
  }
};

class Part {
 public:
  static constexpr bool kAlone = false;

  Part(Partition& all, int32_t rank) : all_(all), rank_(rank), first_(all.cuts[rank]), end_(all.cuts[rank + 1]) {}

  int32_t rank() const { return rank_; }
  int32_t parts() const { return all_.parts; }
  Share share() const { return {all_.parts, rank_, all_.tasks_before[rank_]}; }
  bool follows(int32_t task) const { return follower(task) == rank_; }
  int32_t follower(int32_t task) const { return all_.follower[task]; }
  int32_t first_port() const { return first_.port; }
  int32_t end_port(int32_t) const { return end_.port; }
  int32_t first_channel() const { return first_.channel; }
  int32_t end_channel(int32_t) const { return end_.channel; }
  int32_t first_router() const { return first_.router; }
  int32_t end_router(int32_t routers) const { return end_.router < routers ? end_.router : routers; }

  template <int32_t Cut::* kMember>
  bool has(int32_t i) const {
    return static_cast<uint32_t>(i - first_.*kMember) < static_cast<uint32_t>(end_.*kMember - first_.*kMember);
  }

  // Return the part with port, channel, queue or router i, and the mail of this part for it.
  template <int32_t Cut::* kMember>
  int32_t part_of(int32_t i) const {
    return all_.part_of<kMember>(i);
  }
  template <int32_t Cut::* kMember>
  Mail& mail_for(int32_t i) const {
    return mail_to(part_of<kMember>(i));
  }
  Mail& mail_to(int32_t to) const { return all_.mail[rank_ * all_.parts + to]; }
  Mail& mail_from(int32_t from) const { return all_.mail[from * all_.parts + rank_]; }

  // Counters that several parts share.
  static void add(int64_t& count, int64_t more) { std::atomic_ref(count).fetch_add(more, std::memory_order_relaxed); }

  // Counts a packet that has arrived; returns whether it was the last one of its message.
  bool arrives(int32_t task, Message& message, int64_t arrival) const {
    if (!all_.is_split[task]) return Whole::count(message, arrival);
    const std::atomic_ref latest(message.arrival);
    int64_t observed = latest.load(std::memory_order_relaxed);
    while (observed < arrival && !latest.compare_exchange_weak(observed, arrival, std::memory_order_relaxed)) continue;
    return std::atomic_ref(message.left).fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  Partition& all_;
  const int32_t rank_;
  const Cut first_, end_;
};

#endif

}  // namespace topoflow::BACKEND::packet

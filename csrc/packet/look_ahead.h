// Prefetches of data that will be read soon.
//
// A large network does not fit into caches. At each router a packet reads a dozen cache lines, and the address of some
// lines stands in others. A core would spend most of its time waiting for one line after the other. So each line is
// fetched some packets (or tasks) before it is read, after the line that has its address:
//
//   packets before   24                               18        12                 8           4
//   fetched          slot, channel as both ends see   message   entries of tables  ports there their channels
//                    it
//
//   tasks before     48     40             32               20 and 10
//   fetched          task   dependencies   tasks of these   the same of a follower that takes no time
//
// A GPU runs other threads meanwhile, and fetches nothing ahead.
//
// Source: software-pipelined prefetching, Chen, Ailamaki, Gibbons and Mowry, "Improving hash join performance through
// prefetching", ICDE 2004, 5; how many packets or tasks before is ours, tried on 10,368 and 110,592 nodes.
#pragma once

#include "packet/routing/addresses.h"
#include "packet/routing/arrivals.h"
#include "packet/routing/draws.h"

namespace topoflow::BACKEND::packet {

#ifdef TOPOFLOW_ON_GPU

class LookAhead {
 public:
  DEVICE LookAhead(const State&, const Addresses&, const Tasks&, const Draws&) {}
  DEVICE void at_tasks() const {}
  template <class F>
  DEVICE void at_offers(const F&) const {}
  DEVICE void begin_window() const {}
  DEVICE void at_arrivals(const Arrivals&) const {}
  DEVICE void at_port(int32_t) const {}
  DEVICE void at_output(int32_t) const {}
  DEVICE void at_first_packet(int32_t) const {}
  DEVICE void at_its_channel(int32_t) const {}
};

#else

class LookAhead {
 public:
  LookAhead(const State& state, const Addresses& addresses, const Tasks& tasks, const Draws& draws)
      : s_(state), addresses_(addresses), tasks_(tasks), draws_(draws) {}

  // Fetches what the next events of tasks will read.
  void at_tasks() const {
    const auto finishing = [&](int32_t later) {
      const Event* const event = tasks_.ahead(later);
      return event == nullptr || Tasks::is_offer(*event) ? kNone : tasks_.task(*event);
    };
    if (const Event* const event = tasks_.ahead(48)) tasks_.look_at(tasks_.task(*event));
    if (const int32_t task = finishing(40); task != kNone) tasks_.look_at_dependencies(task);
    if (const int32_t task = finishing(32); task != kNone) tasks_.look_at_followers(task);
    if (const int32_t task = finishing(20); task != kNone)
      if (const int32_t next = tasks_.instant_follower(task); next != kNone) tasks_.look_at_dependencies(next);
    if (const int32_t task = finishing(10); task != kNone)
      if (const int32_t next = tasks_.instant_follower(task); next != kNone) tasks_.look_at_followers(next);
  }

  // Fetches what offering messages will read. task(n): the task whose message is offered n offers later, kNone if that
  // is unknown.
  template <class F>
  void at_offers(const F& task) const {
    if (const int32_t t = task(48); t != kNone) prefetch(&s_.first_sender[t]);
    if (const int32_t t = task(32); t != kNone) {
      prefetch(&s_.sender[s_.first_sender[t]]);
      prefetch(&s_.message[t]);
    }
    if (const int32_t t = task(16); t != kNone) at_port(s_.sender[s_.first_sender[t]].port);
  }

  void begin_window() {
    for (Candidates& options : candidates_) options.entries = 0;
  }

  // Fetches what routers will read of the next packets.
  void at_arrivals(const Arrivals& arrivals) {
    if (const Arrival* const arrival = arrivals.ahead(24)) {
      prefetch(&s_.slot[arrival->slot]);
      prefetch(&s_.input[arrival->channel]);
      prefetch(&s_.channel[arrival->channel]);
    }
    if (const Arrival* const arrival = arrivals.ahead(18)) {
      const int32_t task = s_.slot[arrival->slot].packet.task;
      prefetch(&s_.message[task]);
      if (tasks_.repeats() && s_.input[arrival->channel].level == kUp) tasks_.look_at(task);
    }
    if (const Arrival* const arrival = arrivals.ahead(12)) find(candidates(arrivals, 12), *arrival);
    if (arrivals.ahead(8)) {
      Candidates& options = candidates(arrivals, 8);
      for (int32_t i = 0; i < options.entries; ++i) {
        options.port[i] = addresses_.port(*options.entry[i], 0);
        at_port(options.port[i]);
        at_output(options.port[i]);
      }
    }
    if (const Arrival* const arrival = arrivals.ahead(4)) {
      const Candidates& options = candidates(arrivals, 4);
      for (int32_t i = 0; i < options.entries; ++i) {
        const int32_t after = channel_after(s_.input[arrival->channel], s_.output[options.port[i]]);
        if (after != kNone) prefetch(&s_.channel[after]);
      }
    }
  }

  void at_port(int32_t p) const {
    prefetch(&s_.port[p]);
    prefetch(&s_.port[p].last);
  }

  void at_output(int32_t p) const { prefetch(&s_.output[p]); }

  // Fetches the channels of the packet that a port will send, or its sender.
  void at_first_packet(int32_t p) const {
    const int32_t only = s_.output[p].only, scheduled = s_.port[p].scheduled;
    if (only != kNone) {
      prefetch(&s_.channel[s_.queue[only].channel]);
      if (s_.queue[only].after != kNone) prefetch(&s_.channel[s_.queue[only].after]);
    } else if (scheduled != kNone) {
      prefetch(&s_.sender[scheduled]);
    }
  }

  // Fetches the message and the channel of the packet that a NIC will send.
  void at_its_channel(int32_t p) const {
    const int32_t scheduled = s_.port[p].scheduled;
    if (s_.output[p].only != kNone || scheduled == kNone) return;
    prefetch(&s_.message[s_.sender[scheduled].task]);
    if (s_.sender[scheduled].channel != kNone) prefetch(&s_.channel[s_.sender[scheduled].channel]);
  }

 private:
  // Ports that a packet may take; of a set of ports the first one.
  struct Candidates {
    int32_t entries = 0;
    const int32_t* entry[4];  // of tables
    int32_t port[4];
  };

  // Returns the candidates of the packet that arrives `ahead` places later.
  Candidates& candidates(const Arrivals& arrivals, int64_t ahead) {
    return candidates_[static_cast<uint64_t>(arrivals.number() + ahead) % 16];
  }

  void find(Candidates& options, const Arrival& arrival) const {
    const Packet& packet = s_.slot[arrival.slot].packet;
    const Message& message = s_.message[packet.task];
    options.entries = 0;
    const auto add = [&](int32_t step) {
      const int32_t* const entry = addresses_.next(arrival.router, message.endpoint, message.router, step);
      options.entry[options.entries++] = entry;
      prefetch(entry);
    };
    const bool begins = s_.input[arrival.channel].level == kUp;
    if (!begins && !addresses_.is_at_middle(arrival.router, packet.step)) return add(packet.step);
    const Steps steps = begins ? addresses_.draw_steps(arrival.router, message.router, words(packet, kAtSource))
                               : Steps{addresses_.draw_direct(words(packet, kAtMiddle)), kNone};
    for (const int32_t step : {steps.direct, steps.around}) {
      if (step == kNone) continue;
      add(step);
      if (addresses_.cables > 1) add(addresses_.by_next_cable(step));
    }
  }

  Words words(const Packet& packet, uint32_t branch) const {
    return draws_.of(tasks_.number(packet.task), packet.number, branch);
  }

  const State& s_;
  const Addresses& addresses_;
  const Tasks& tasks_;
  const Draws& draws_;
  Candidates candidates_[16];
};

#endif

}  // namespace topoflow::BACKEND::packet

// Routers that forward packets by address.
//
// A router looks up the port towards a packet's endpoint in its table (addresses.h). The first router of a packet
// decides whether it takes a minimal route or one by a middle. Routers that adapt decide when the head of a packet has
// arrived, by the occupancy of their downstream buffers at that time (adaptive.h).
//
//   packets arrive at a router at 10 and 40 ns, and its port 2 sends at 0, 20 and 50 ns
//     the second one sees the downstream buffer of port 2 with the packets of 0 and 20 ns, without that of 50 ns
//
// Source: Singh, "Load-balanced routing in interconnection networks", Stanford 2005 (UGAL); Kim, Dally, Scott and Abts,
// "Technology-driven, highly-scalable dragonfly topology", ISCA 2008, 4.
#pragma once

#include "adaptive.h"
#include "arrivals.h"
#include "packet/transport.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Router : public Base {
 public:
  using Base::addresses_, Base::b_, Base::channel_, Base::channels_, Base::draws_, Base::end_, Base::look_ahead_,
      Base::port_, Base::ports_, Base::region_, Base::routers_, Base::s_, Base::tasks_, Base::adapts, Base::collect,
      Base::delay, Base::enqueue, Base::head_time, Base::is_occupied, Base::loses, Base::occupy, Base::on_enqueue,
      Base::open_queue, Base::output_of, Base::port_of, Base::queue_of, Base::self, Base::sent_until_free,
      Base::size_of, Base::time, Base::transports;
  using Base::Base;
  using typename Base::Region;

  DEVICE void begin_by_address() {
    for (int32_t p = 0; p < ports_; ++p) {
      const int32_t first = b_.address.first_channel[port_ + p],
                    buffer = first == kNone ? 0 : b_.ports.buffer[channel_ + first];
      const int32_t place = first == kNone ? kNone : b_.address.place[channel_ + first];
      s_.output[p] = {0, addresses_.end(p), first, place, addresses_.level(p), buffer, kNone};
    }
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t p = port_of(c);
      const Output& port = s_.output[p];
      s_.input[c] = {p,
                     port.router,
                     b_.address.place[channel_ + c],
                     static_cast<int16_t>(port.level),
                     static_cast<int16_t>(c - port.first_channel),
                     s_.port[p].byte_time};
    }
    if (!adapts()) return;
    for (int32_t r = 0, p = 0; r <= routers_; ++r) {
      while (p < ports_ && b_.ports.node[port_ + p] < r) ++p;
      s_.first_port[r] = p;
    }
  }

  // A packet is sent into a channel. Adaptive routers decide when its head has come, others when it is sent to them.
  DEVICE void forward_by_address(const Port& port, int32_t slot, int32_t channel, int32_t size, int64_t now) {
    if constexpr (!Region::kAlone) {
      const int32_t router = s_.output[&port - s_.port].router;
      if (!region_.template has<&Cut::router>(router))
        return self().mail_packet(region_.template mail_for<&Cut::router>(router), slot, channel, now);
    }
    enqueue_by_address(port, slot, channel, size, now);
  }

  // A packet that `port` has begun to send at `now` waits at the router where the channel ends, or arrives at it.
  DEVICE void enqueue_by_address(const Port& port, int32_t slot, int32_t channel, int32_t size, int64_t now) {
    if (adapts()) {
      const Output& output = output_of(port);
      const int32_t place = output.place + channel - output.first_channel;
      return arrivals_.add({now + delay(port, port, size), place, channel, slot, output.router});
    }
    const int32_t out = route(s_.input[channel], s_.slot[slot].packet, now);
    enqueue_at_port(channel, out, slot, now + delay(port, s_.port[out], size));
  }

  // A packet that came by a channel waits for port `out` from `ready` on.
  INLINED_ON_CPU void enqueue_at_port(int32_t channel, int32_t out, int32_t slot, int64_t ready) {
    const Input& input = s_.input[channel];
    const Port& port = s_.port[out];
    if (!is_occupied(port, input.place)) open_queue(out, input, channel);
    Queue& queue = queue_of(port, input.place);
    const bool is_head = enqueue(queue, slot, ready);
    if (transports()) on_enqueue(queue, ready);
    if (is_head) occupy(out, input.place, ready);
    if (adapts() && ready < end_ && (is_head || transports())) wake_in_window(input.router, out);
  }

  // Each router takes the packets that arrive in the window, and then sends. Other routers see none of it in the
  // window, so they are done one after the other.
  DEVICE void run_routers(int64_t end) {
    arrivals_.collect(end);
    look_ahead_.begin_window();
    if (first_router_ < end_router_) mark_awake(first_router_, end);
    for (int32_t router = first_router_; router < end_router_; ++router) {
      if (router + 1 < end_router_) mark_awake(router + 1, end);
      for_each_awake(router, [&](int32_t p) { look_ahead_.at_first_packet(p); });
      while (arrivals_.has(router)) {
        look_ahead_.at_arrivals(arrivals_);
        on_arrival(arrivals_.pop());
      }
      for_each_awake(router, [&](int32_t p) { look_ahead_.at_its_channel(p); });
      for_each_awake(router, [&](int32_t p) { self().send_until(p, end); });
    }
  }

  // Returns the words whose bits say which ports of a router may send before the end of the window. The r routers
  // before it have p ports, which take p / 64 + r words at most.
  DEVICE uint64_t* awake(int32_t router) const { return s_.awake_bits + s_.first_port[router] / 64 + router; }

  // Sets these bits, before packets arrive at the router.
  DEVICE void mark_awake(int32_t router, int64_t end) const {
    const int32_t first = s_.first_port[router], ports = s_.first_port[router + 1] - first;
    for (int32_t from = 0; from < ports; from += 64) {
      uint64_t& word = awake(router)[from / 64] = 0;
      for (int32_t i = from; i < from + 64 && i < ports; ++i) word |= uint64_t{s_.next[first + i] < end} << (i - from);
    }
    for_each_awake(router, [&](int32_t p) {
      look_ahead_.at_port(p);
      look_ahead_.at_output(p);
    });
  }

  template <class F>
  DEVICE void for_each_awake(int32_t router, const F& f) const {
    const int32_t first = s_.first_port[router], ports = s_.first_port[router + 1] - first;
    for (int32_t from = 0; from < ports; from += 64)
      for (uint64_t word = awake(router)[from / 64]; word; word &= word - 1) f(first + from + lowest_bit(word));
  }

  DEVICE void wake_in_window(int32_t router, int32_t p) const {
    const int32_t i = p - s_.first_port[router];
    awake(router)[i / 64] |= uint64_t{1} << (i % 64);
  }

  // A packet arrives at its next router.
  DEVICE void on_arrival(const Arrival& arrival) {
    const Input& input = s_.input[arrival.channel];
    Packet& packet = s_.slot[arrival.slot].packet;
    const int32_t size = size_of(packet.task, packet.number), out = route(input, packet, arrival.ready);
    s_.output[out].waiting += size;
    int64_t ready = arrival.ready;
    if (s_.port[out].byte_time != input.byte_time) {
      const Port& port = s_.port[input.port];
      ready += head_time(port, s_.port[out], size) - head_time(port, port, size);
    }
    enqueue_at_port(arrival.channel, out, arrival.slot, ready);
  }

  INLINED_ON_CPU Words words(const Packet& packet, uint32_t branch) const {
    return draws_.of(tasks_.number(packet.task), packet.number, branch);
  }

  // Returns the port by which a packet leaves the router at the end of its channel.
  DEVICE int32_t route(const Input& input, Packet& packet, int64_t now) {
    if (input.level == kUp) {
      packet.step = first_step(input, packet, now);
    } else if (addresses_.is_at_middle(input.router, packet.step)) {
      packet.step = less_occupied(input, packet, addresses_.draw_direct(words(packet, kAtMiddle)), now);
    }
    return port_towards(input, packet, packet.step, now);
  }

  // Returns the port towards a step. Of a set of ports one is drawn; adaptive routers compare it with the next port of
  // the set, and take that if its buffer is less occupied.
  DEVICE int32_t port_towards(const Input& input, const Packet& packet, int32_t step, int64_t now) {
    const int32_t entry = entry_towards(input.router, packet, step), ports = addresses_.count(entry);
    if (ports == 1) return addresses_.port(entry, 0);
    const int32_t place = draw_place(input.router, packet, ports);
    const int32_t one = addresses_.port(entry, place), two = addresses_.port(entry, (place + 1) % ports);
    return adapts() && occupied(input, two, now).occupied < occupied(input, one, now).occupied ? two : one;
  }

  DEVICE int32_t entry_towards(int32_t router, const Packet& packet, int32_t step) const {
    const Message& message = s_.message[packet.task];
    return *addresses_.next(router, message.endpoint, message.router, step);
  }

  DEVICE int32_t draw_place(int32_t router, const Packet& packet, int32_t ports) const {
    return below(words(packet, static_cast<uint32_t>(router)).word[0], ports);
  }

  // Returns the ps until a flit that leaves port `p` reaches the target of a packet by the ports that it draws, as from
  // routers that do not look at their queues.
  CALLED_ON_CPU int64_t remaining_by_address(int32_t p, const Packet& packet) const {
    int64_t total = time(s_.port[p], 1) + s_.port[p].latency;
    for (int32_t step = packet.step; s_.output[p].level != kDown;) {
      const int32_t router = s_.output[p].router;
      if (addresses_.is_at_middle(router, step)) step = addresses_.draw_direct(words(packet, kAtMiddle));
      const int32_t entry = entry_towards(router, packet, step), ports = addresses_.count(entry);
      p = addresses_.port(entry, ports == 1 ? 0 : draw_place(router, packet, ports));
      total += b_.model.switch_latency + time(s_.port[p], 1) + s_.port[p].latency;
    }
    return total;
  }

  // Returns the step that a packet takes from its first router: to its target, or to a middle.
  DEVICE int32_t first_step(const Input& input, const Packet& packet, int64_t now) {
    const int32_t router = input.router, target = s_.message[packet.task].router;
    const Steps steps = addresses_.draw_steps(router, target, words(packet, kAtSource));
    if (addresses_.routing == kMinimal || router == target) return steps.direct;
    if (!adapts()) return steps.around == kNone ? steps.direct : steps.around;
    const int32_t best = less_occupied(input, packet, steps.direct, now);
    if (steps.around == kNone) return best;
    const int32_t other = less_occupied(input, packet, steps.around, now);
    return goes_around(input, packet, best, other, now) ? other : best;
  }

  // Returns whether a packet takes the step by a middle rather than the direct one.
  DEVICE bool goes_around(const Input& input, const Packet& packet, int32_t direct, int32_t around, int64_t now) {
    const Candidate one = candidate(input, packet, direct, now), two = candidate(input, packet, around, now);
    const int32_t endpoint = s_.message[packet.task].endpoint;
    return with_routing(addresses_.routing, [&](const auto& routing) {
      return routing.goes_around(b_, addresses_, input.router, endpoint, one, two);
    });
  }

  DEVICE Candidate candidate(const Input& input, const Packet& packet, int32_t step, int64_t now) {
    const Occupied buffer = occupied(input, port_towards(input, packet, step, now), now);
    return {step, buffer.occupied, buffer.free};
  }

  // Returns the step, or the same by the next cable if the buffer there is less occupied.
  DEVICE int32_t less_occupied(const Input& input, const Packet& packet, int32_t step, int64_t now) {
    if (!adapts() || addresses_.cables == 1) return step;
    const int32_t next = addresses_.by_next_cable(step);
    const int32_t one = port_towards(input, packet, step, now);
    const int32_t two = port_towards(input, packet, next, now);
    return one != two && occupied(input, two, now).occupied < occupied(input, one, now).occupied ? next : step;
  }

  struct Occupied {
    int64_t occupied, free;  // flits
  };

  // Returns what waits for a port, and what is occupied of the buffer at its end, as its router knows it at `now`. If
  // packets can be lost, the port has the buffer, and the one at its end does not count.
  DEVICE Occupied occupied(const Input& input, int32_t out, int64_t now) {
    self().send_until(out, now);
    const Output& output = s_.output[out];
    const int32_t after = channel_after(input, output);
    if (after == kNone) return {output.waiting, 0};
    int64_t flits = output.waiting;
    if (loses()) {
      flits += sent_until_free(out, now);
    } else {
      Channel& c = s_.channel[after];
      collect(c, now);
      flits += int64_t{output.buffer} - c.room;
    }
    return {flits, flits < output.buffer ? output.buffer - flits : 0};
  }

  int32_t first_router_ = region_.first_router(),
          end_router_ = region_.end_router(adapts() ? routers_ : 0);  // of this region
  Arrivals arrivals_{s_, first_router_, end_router_};                 // packets on their way to these
};

}  // namespace topoflow::BACKEND::packet

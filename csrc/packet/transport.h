// Ports that lose or mark packets, and what messages do about it.
//
// A message may have a number of packets under way. A receiver acknowledges each packet, and the sender may then send
// another packet, or again the one that was lost. An acknowledgement takes the time of a flit on the idle way back.
//
//   2 packets may be under way; the second is lost
//     sender      0 1     2 1'      (1' is packet 1 once more)
//     receiver      ack 0   ack 2
//
// Packets that come to a port wait for it (admit) in the order of their times. A port drops a packet for which there is
// no room, or trims it to its header, which goes on to the receiver. It marks a packet by the length of its queue.
//
// The other layers call on_open, on_round, admit, end_sending, on_enqueue, on_dequeue, on_nic_departure, on_departure,
// after_departure, on_delivery and run_feedback, which do nothing in a world without a transport; number_of and
// send_next replace those of the NIC.
//
// Source: RFC 3168 (marks); Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
// Transactions on Networking 1(4), 1993; Handley et al., "Re-architecting datacenter networks and stacks for low
// latency and high performance", SIGCOMM 2017 (trimming).
#pragma once

#include "arbiter.h"
#include "packet/controls/controls.h"

namespace topoflow::BACKEND::packet {

template <class Base>
class Transport : public Base {
 public:
  using Base::b_, Base::draws_, Base::edge_, Base::messages_, Base::port_, Base::ports_, Base::region_, Base::root_,
      Base::s_, Base::task_, Base::tasks_, Base::adapts, Base::begin_taken, Base::by_address, Base::end_queue,
      Base::find_queue, Base::free_slot, Base::max_taken, Base::offer, Base::remember_taken, Base::requeue, Base::self,
      Base::short_bytes, Base::size_of, Base::choose_edge, Base::time, Base::transports;
  using Base::Base;
  using typename Base::Region;

  DEVICE bool loses() const { return transports() && b_.transport.loss != kLossless; }

  DEVICE void begin_transport() {
    if (!transports()) return;
    for (int32_t t = 0; t < messages_; ++t) {
      Flow& flow = s_.flow[t];
      flow = {};
      flow.allowed = b_.flows.allowed[task_ + t];
      if (b_.model.choice == kRecycled) s_.entropies[t].recycled = {};
      if (b_.model.choice == kFlowlets) s_.entropies[t].flowlets = {0, 0};
      with_control(b_.transport.control, [&](const auto& control) { control.begin(*this, flow, t); });
      for (int64_t* count : {b_.out.sent, b_.out.sent_bytes, b_.out.delivered, b_.out.delivered_bytes, b_.out.lost_of,
                             b_.out.lost_bytes})
        count[task_ + t] = 0;
    }
    for (int32_t p = 0; p < ports_; ++p) {
      s_.lane[p] = {kNever, 0, 0, 0, 0, 0, 0};
      b_.out.deepest[port_ + p] = 0;
    }
  }

  // A queue begins, without a packet.
  DEVICE void on_open(const Queue& queue) const {
    if (transports()) s_.in_flight[&queue - s_.queue] = {kNever, kNone, kNone};
  }

  // The message of a task is sent, or is sent once more.
  DEVICE void on_round(int32_t task) const {
    if (transports()) s_.flow[task].waits = true;
  }

  // Returns the number of a sender's next packet. A packet that is sent again has a new number, so that it draws
  // another path.
  DEVICE uint32_t number_of(const Sender& sender) const {
    if (!transports() || !has_lost(s_.flow[sender.task])) return Base::number_of(sender);
    const Flow& flow = s_.flow[sender.task];
    return (static_cast<uint32_t>(sender.packets + flow.resent) & kNumber) | (flow.lost_full == 0 ? kShort : 0);
  }

  // Gives a packet the entropy that its sender chooses: its number then ends with it.
  CALLED_ON_CPU void choose_entropy(Packet& packet, int64_t now) const {
    const uint32_t number = packet.number & kNumber, num_entropies = static_cast<uint32_t>(b_.model.entropies);
    Entropies& entropies = s_.entropies[packet.task];
    const int32_t chosen = b_.model.choice == kFlowlets ? entropies.flowlets.next(b_.model.flowlet_gap, now)
                                                        : entropies.recycled.next(draw_entropy(packet.task, number));
    const uint32_t ended = (number * num_entropies + (static_cast<uint32_t>(chosen) & (num_entropies - 1))) & kNumber;
    packet.number = (packet.number & ~kNumber) | ended;
  }

  DEVICE int32_t draw_entropy(int32_t task, uint32_t number) const {
    return static_cast<int32_t>(draws_.of(kEntropy, tasks_.number(task), number, 0).word[0] &
                                static_cast<uint32_t>(b_.model.entropies - 1));
  }

  DEVICE static bool has_lost(const Flow& flow) { return flow.lost_full + flow.lost_short > 0; }

  DEVICE static bool may_send(const Sender& sender, const Flow& flow) {
    return flow.allowed > 0 && (has_lost(flow) || sender.number < sender.packets);
  }

  // Sender `i` has sent `packet`; the next one waits for its turn, if there is one that may be sent.
  DEVICE void send_next(Port& port, int32_t i, Packet& packet, int64_t now) {
    if (!transports()) return Base::send_next(port, i, packet, now);
    if (b_.model.choice != kByNumber) choose_entropy(packet, now);
    Sender& sender = s_.sender[i];
    Flow& flow = s_.flow[sender.task];
    if (has_lost(flow)) {
      --(flow.lost_full ? flow.lost_full : flow.lost_short);
      if (++flow.resent > kMaxLosses * sender.packets) gives_up_ = true;
    } else {
      ++sender.number;
    }
    --flow.allowed;
    count(b_.out.sent, b_.out.sent_bytes, packet);
    const int32_t size = size_of(packet.task, packet.number);
    const auto p = static_cast<int32_t>(&port - s_.port);
    int64_t gap = sender.pace;
    if (feedback_mask_) {
      const int64_t min_gap = with_control(b_.transport.control,
                                           [&](const auto& control) { return control.gap(*this, flow, p, size, now); });
      if (min_gap > gap) gap = min_gap;
    }
    flow.earliest = now + gap;
    flow.waits = may_send(sender, flow);
    if (!flow.waits) return;
    if (flow.earliest > now) return offer(i, flow.earliest);
    requeue(port, i, now);
  }

  // A packet is on its way to the end of a queue.
  DEVICE void on_enqueue(Queue& queue, int64_t ready) {
    if (!transports()) return;
    InFlight& in_flight = s_.in_flight[&queue - s_.queue];
    if (in_flight.first == kNone) in_flight = {ready, in_flight.before, queue.tail};
    Lane& lane = s_.lane[queue.port];
    if (ready < lane.arrives) lane.arrives = ready;
    if (ready < s_.next[queue.port]) s_.next[queue.port] = ready;
  }

  // A queue has sent the packet of a slot.
  DEVICE void on_dequeue(const Queue& queue, int32_t slot) const {
    if (transports() && s_.in_flight[&queue - s_.queue].before == slot) s_.in_flight[&queue - s_.queue].before = kNone;
  }

  // A port begins to send a packet of its NIC.
  DEVICE void on_nic_departure(const Port& port) const {
    if (transports()) s_.lane[&port - s_.port].sending = 0;
  }

  // A port begins to send a packet that waited.
  DEVICE void on_departure(const Port& port, Packet& packet, int64_t now) {
    if (!transports() || !looks_at_departures_) return;
    const auto p = static_cast<int32_t>(&port - s_.port);
    const int32_t waits = s_.lane[p].waiting - size_of(packet.task, packet.number);
    if (b_.transport.mark_leaving) mark(packet, p, waits);
    with_control(b_.transport.control, [&](const auto& control) {
      control.measure(*this, port, packet.task, packet.number & kNumber, waits, now);
    });
  }

  // The port has begun to send that packet: its `size` flits no longer wait.
  DEVICE void after_departure(const Port& port, int32_t size) const {
    if (!transports()) return;
    Lane& lane = s_.lane[&port - s_.port];
    lane.waiting -= size;
    lane.sending = size;
  }

  // Packets that come to a port until `end` begin to wait, or are lost, in the order of their times.
  INLINED_ON_CPU void admit(int32_t p, int64_t end) {
    if (!transports()) return;
    if (by_address()) return admit_by_address(p, end);
    admit_from(p, end, [](const Port& port, const auto& compare) {
      for (int32_t place = 0; place < port.queues; ++place) compare(port.first_queue + place, place);
    });
  }

  CALLED_ON_CPU void admit_by_address(int32_t p, int64_t end) {
    admit_from(p, end, [this](const Port& port, const auto& compare) {
      find_queue(port, 0, port.queues, [&](int32_t place, const Queue& queue) {
        compare(static_cast<int32_t>(&queue - s_.queue), place);
        return false;
      });
    });
  }

  // for_each(port, f) calls f(number, place) for the queues of a port that may hold packets.
  template <class F>
  INLINED_ON_CPU void admit_from(int32_t p, int64_t end, const F& for_each) {
    Lane& lane = s_.lane[p];
    while (lane.arrives <= end) {
      int32_t first_queue = kNone, first_place = kNone;
      int64_t first = kNever, second = kNever;
      for_each(s_.port[p], [&](int32_t number, int32_t place) {
        const int64_t time = s_.in_flight[number].time;
        if (time < first) {
          second = first;
          first = time;
          first_queue = number;
          first_place = place;
        } else if (time < second) {
          second = time;
        }
      });
      if (first_queue != kNone) admit_one(p, first_queue, first_place, first);
      const int64_t next = first_queue == kNone ? kNever : s_.in_flight[first_queue].time;
      lane.arrives = next < second ? next : second;
    }
  }

  // Does so with the first packet that has not come yet of queue `number`, which is in this place of the port.
  INLINED_ON_CPU void admit_one(int32_t p, int32_t number, int32_t place, int64_t now) {
    Port& port = s_.port[p];
    Lane& lane = s_.lane[p];
    Queue& queue = s_.queue[number];
    InFlight& in_flight = s_.in_flight[number];
    const int32_t slot = in_flight.first;
    Packet& packet = s_.slot[slot].packet;
    const int32_t size = size_of(packet.task, packet.number), next = packet.next;
    const int32_t waits = lane.waiting + sent_until_free(p, now);
    in_flight.first = next;
    in_flight.time = next == kNone ? kNever : s_.slot[next].ready;
    if (loses() && waits + size > b_.flows.depth[port_ + p]) {
      ++lane.lost;
      if (adapts()) s_.output[p].waiting -= size;
      count(b_.out.lost_of, b_.out.lost_bytes, packet);
      on_loss(p, queue, packet, now);
      (in_flight.before == kNone ? queue.head : s_.slot[in_flight.before].packet.next) = next;
      if (queue.tail == slot) queue.tail = in_flight.before;
      free_slot(slot);
      if (in_flight.before != kNone) return;
      queue.ready = in_flight.time;
      if (next == kNone) end_queue(port, place, queue);
      return;
    }
    if (!b_.transport.mark_leaving) mark(packet, p, waits);
    lane.waiting += size;
    if (waits + size > lane.max_waiting) lane.max_waiting = waits + size;
    in_flight.before = slot;
  }

  // Returns the flits of the packet that a port sends at `now`, if it waited there.
  DEVICE int32_t sent_until_free(int32_t p, int64_t now) const {
    return now < s_.port[p].free ? s_.lane[p].sending : 0;
  }

  // A port has sent all that it can before `end`, and next looks at `now`.
  INLINED_ON_CPU void end_sending(int32_t p, int64_t end, int64_t now) {
    if (!transports()) return;
    admit(p, end - 1);
    if (s_.lane[p].arrives < now) s_.next[p] = s_.lane[p].arrives;
  }

  DEVICE void mark(Packet& packet, int32_t p, int32_t flits) {
    if (!is_marked(packet, p, int64_t{flits} * b_.model.flit)) return;
    packet.number |= kMarked;
    ++s_.lane[p].marked;
  }

  DEVICE bool is_marked(const Packet& packet, int32_t p, int64_t waits) const {
    const TransportSettings& settings = b_.transport;
    if (settings.mark_to < 0 || packet.number & kMarked || waits <= settings.mark_from) return false;
    if (waits >= settings.mark_to) return true;
    const int64_t limit = settings.mark_most * (waits - settings.mark_from) / (settings.mark_to - settings.mark_from);
    return draws_
               .of(kMarks, tasks_.number(packet.task), packet.number & kNumber,
                   static_cast<uint32_t>(b_.ports.first_seen[port_ + p]))
               .word[0] < limit;
  }

  // A trimmed packet continues as a flit in the time of an idle path; the sender of a dropped one waits.
  DEVICE void on_loss(int32_t p, const Queue& queue, const Packet& packet, int64_t now) {
    const Port& port = s_.port[p];
    if (b_.transport.loss == kTrims) return notify(now + remaining_delay(p, queue.after, packet), packet, kLost);
    const int64_t timeout = packet.born + b_.transport.timeout, earliest = now + time(port, 1) + port.latency;
    notify(timeout > earliest ? timeout : earliest, packet, kLost | kAtSender);
  }

  // Returns the ps until a flit that leaves port `p` reaches the target of a packet, which will be in `channel` next.
  DEVICE int64_t remaining_delay(int32_t p, int32_t channel, const Packet& packet) const {
    if (by_address()) return self().remaining_by_address(p, packet);
    int64_t total = time(s_.port[p], 1) + s_.port[p].latency;
    for (int32_t next = packet.step; channel != kNone;) {
      const int32_t edge = choose_edge(next, packet);
      const Port& port = s_.port[b_.paths.edge_port[edge_ + edge]];
      total += b_.model.switch_latency + time(port, 1) + port.latency;
      channel = b_.paths.edge_channel[edge_ + edge];
      next = s_.edge[edge].next;
    }
    return total;
  }

  // A packet arrives at its target.
  DEVICE void on_delivery(const Packet& packet, int64_t arrival) {
    if (!transports()) return;
    count(b_.out.delivered, b_.out.delivered_bytes, packet);
    int64_t delay = (arrival - packet.born) >> kTickBits;
    delay = delay < longest_delay_ ? delay : longest_delay_;
    if (recycles()) delay += (packet.number & static_cast<uint32_t>(b_.model.entropies - 1)) * (longest_delay_ + 1);
    notify(arrival, packet, packet.number & kMarked ? kMark : 0, delay);
  }

  DEVICE void count(int64_t* packets, int64_t* bytes, const Packet& packet) const {
    Region::add(packets[task_ + packet.task], 1);
    Region::add(bytes[task_ + packet.task], packet.number & kShort ? short_bytes(packet.task) : b_.model.size);
  }

  // A message hears of a packet at `time`: at its receiver first, and then at its sender.
  DEVICE void notify(int64_t time, const Packet& packet, int32_t feedback, int64_t delay = 0) {
    const int64_t bits = feedback | (packet.number & kShort ? kLastOne : 0);
    post({time, kFeedback + ((16 * int64_t{packet.task} + bits) << kDelayBits) + delay}, packet.task,
         feedback & kAtSender);
  }

  // An event of a message of a task happens to its sender or its receiver.
  DEVICE void post(const Event& event, int32_t task, [[maybe_unused]] bool at_sender) {
    if constexpr (!Region::kAlone) {
      const int32_t nic = b_.paths.root_port[root_ + b_.tasks.first_root[task_ + task]];
      const int32_t port = at_sender ? nic : b_.flows.puller[task_ + task];
      if (!region_.template has<&Cut::port>(port))
        return region_.template mail_for<&Cut::port>(port).events.push_back(event);
    }
    s_.feedback.push(event);
  }

  // Returns the time at which a message hears of a packet next, ps.
  DEVICE int64_t feedback_time() const { return transports() ? s_.feedback.time() : kNever; }

  DEVICE void run_feedback(int64_t end) {
    if (!transports()) return;
    while (s_.feedback.time() < end) on_feedback(s_.feedback.pop());
  }

  DEVICE void on_feedback(const Event& event) {
    const int64_t bits = (event.code - kFeedback) >> kDelayBits;
    const auto task = static_cast<int32_t>(bits / 16), feedback = static_cast<int32_t>(bits % 16);
    feedback& kAtSender ? on_ack(task, feedback, event) : on_arrival_at_receiver(task, feedback, event);
  }

  DEVICE void on_arrival_at_receiver(int32_t task, int32_t feedback, const Event& event) {
    Flow& flow = s_.flow[task];
    const int64_t now = event.time;
    int64_t code = event.code + (int64_t{kAtSender} << kDelayBits);
    if (now < flow.quiet) {
      code &= ~(int64_t{kMark} << kDelayBits);
    } else if (feedback & kMark) {
      flow.quiet = now + b_.transport.notice;
    }
    const int64_t sent = with_control(b_.transport.control, [&](const auto& control) {
      return control.ack_time(*this, flow, task, (feedback & kLost) != 0, now);
    });
    if (sent != kNever) post({sent + b_.flows.back[task_ + task], code}, task, true);
  }

  DEVICE void on_ack(int32_t task, int32_t feedback, const Event& event) {
    const int64_t now = event.time;
    const int32_t i = s_.first_sender[task], p = s_.sender[i].port;
    self().send_until(p, now);
    Flow& flow = s_.flow[task];
    ++flow.allowed;
    if (feedback & kLost) ++(feedback & kLastOne ? flow.lost_short : flow.lost_full);
    if (recycles()) recycle(task, feedback, event);
    if (feedback & feedback_mask_) {
      const Ack ack{((event.code & longest_delay_) << kTickBits) + b_.flows.back[task_ + task],
                    feedback & kLastOne ? short_bytes(task) : b_.model.size, (feedback & kLost) != 0,
                    (feedback & kMark) != 0};
      with_control(b_.transport.control, [&](const auto& control) { control.on_ack(*this, flow, task, p, ack, now); });
    }
    if (flow.waits || !may_send(s_.sender[i], flow)) return;
    flow.waits = true;
    offer(i, now > flow.earliest ? now : flow.earliest);
  }

  DEVICE bool recycles() const { return b_.model.choice == kRecycled; }

  // A message learns of a packet and its entropy. Only a dropped packet times out.
  CALLED_ON_CPU void recycle(int32_t task, int32_t feedback, const Event& event) const {
    Recycled& recycled = s_.entropies[task].recycled;
    const int64_t entropy = (event.code & kLongestDelay) / (longest_delay_ + 1);
    if (!(feedback & kLost)) return recycled.on_ack(static_cast<int32_t>(entropy), (feedback & kMark) != 0, event.time);
    if (b_.transport.loss == kDrops) recycled.on_timeout(event.time);
  }

  // Depths of queues over time (depths.h) have a column for each channel, or for each port where packets are lost.
  DEVICE int32_t max_flits(int32_t i) const { return loses() ? s_.lane[i].max_waiting : max_taken(i); }

  DEVICE void remember(int32_t i, int32_t flits) {
    if (!loses()) return remember_taken(i, flits);
    if (flits > s_.lane[i].max_waiting) s_.lane[i].max_waiting = flits;
  }

  DEVICE void begin_interval(int32_t i, int64_t now) {
    if (!loses()) return begin_taken(i, now);
    Lane& lane = s_.lane[i];
    int32_t& deepest = b_.out.deepest[port_ + i];
    if (lane.max_waiting > deepest) deepest = lane.max_waiting;
    lane.max_waiting = lane.waiting + sent_until_free(i, now);
  }

  // Writes what waited for a port, and what it lost and marked.
  DEVICE void write_lane(int32_t p) const {
    if (!transports()) return;
    b_.out.lost[port_ + p] = s_.lane[p].lost;
    b_.out.marked[port_ + p] = s_.lane[p].marked;
    int32_t& deepest = b_.out.deepest[port_ + p];
    if (s_.lane[p].max_waiting > deepest) deepest = s_.lane[p].max_waiting;
  }

  // Returns what a control hears of packets, bits of Feedback. A lambda in an initializer would be of the host alone.
  DEVICE int32_t feedback_mask() const {
    return with_control(b_.transport.control, [](const auto& control) { return control.kFeedbackMask; });
  }

  DEVICE bool looks_at_departures() const {
    return b_.transport.mark_leaving ||
           with_control(b_.transport.control, [](const auto& control) { return control.kMeasures; });
  }

  // Returns the longest delay that an event says, ticks: with recycled entropies it says one of these as well.
  DEVICE int64_t longest_delay() const {
    return recycles() ? (kLongestDelay + 1) / b_.model.entropies - 1 : kLongestDelay;
  }

  bool gives_up_ = false;  // a message has given up
  int32_t feedback_mask_ = feedback_mask();
  int64_t longest_delay_ = longest_delay();
  bool looks_at_departures_ = looks_at_departures();
};

}  // namespace topoflow::BACKEND::packet

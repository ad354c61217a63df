// One world of packets, simulated by windows of time.
//
// A port sees what another port does one link later at the earliest: it gets a packet from the port before it, and a
// credit from the port after it; tasks learn of the end of a message. The least of these times is a window. In a window
// ports do not depend on each other, so each sends to the end of the window, one port after the other in any order.
// Only tasks have events. Threads share the ports of a world (part.h).
//
//   next: 4 ports, 2 of them have something to send in a window of 600 ns that begins with the first
//     before   120   never    480   2000
//     after   1400     780   1135   2000      the first two sent to each other's queues; 780 is such a packet's head
//
// With input queues, the packet that one port sends makes way for a packet of another port at once. There, ports take
// turns in the order of their times.
//
// The layers of a world are listed in core.h.
//
// Source: conservative parallel simulation with lookahead, Chandy and Misra, "Distributed simulation", IEEE Trans.
// Software Engineering SE-5(5), 1979; the model is stated in tests/twins/packet.py.
#pragma once

#include "packet/counts/depths.h"
#include "packet/periods/fast_forward.h"

namespace topoflow::BACKEND::packet {

template <class World, class Kind, class Region>
using Layers = Periods<Ports<Router<Transport<Arbiter<Nic<Queues<Credits<Paths<Core<World, Kind, Region>>>>>>>>>>;

// Kind: the features that the world may have (run.h). OneRegion: all of the world, or the ports of a thread (part.h).
template <class Kind, class OneRegion>
class World : public Layers<World<Kind, OneRegion>, Kind, OneRegion> {
  using Base = Layers<World<Kind, OneRegion>, Kind, OneRegion>;

 public:
  using Base::arrivals_, Base::b_, Base::begin_, Base::channel_, Base::channels_, Base::end_, Base::end_port_,
      Base::first_port_, Base::gives_up_, Base::latencies_, Base::look_ahead_, Base::messages_, Base::port_,
      Base::ports_, Base::region_, Base::s_, Base::task_, Base::tasks_, Base::window_, Base::world_, Base::adapts,
      Base::begin_buffers, Base::begin_by_address, Base::begin_messages, Base::begin_port, Base::begin_queues,
      Base::begin_round, Base::begin_transport, Base::by_address, Base::earliest, Base::enqueue_by_address,
      Base::enqueue_by_path, Base::feedback_time, Base::has_packets, Base::is_occupied, Base::loses, Base::max_taken,
      Base::offer_message, Base::output_queues, Base::port_of, Base::queue_of, Base::return_credit, Base::run_feedback,
      Base::run_routers, Base::send_all, Base::sending_part, Base::size_of, Base::take_slot, Base::try_once,
      Base::write_lane, Base::end_period, Base::skip_periods;
  using Base::Base;
  using typename Base::Region;

  // Sets the state that all parts of the world share.
  DEVICE void begin() {
    for (int32_t p = 0; p < ports_; ++p) begin_port(p);
    begin_buffers();
    begin_queues();
    begin_messages();
    if (by_address()) begin_by_address();
    begin_transport();
    tasks_.begin();
    b_.out.skipped[world_] = 0;
    if constexpr (!Region::kAlone)
      for (int32_t t = 0; t < messages_; ++t) tasks_.set_part(t, sending_part(t));
  }

  // Sets the state of this region, after begin() has ended.
  DEVICE void begin_region() {
    latencies_.begin();
    tasks_.begin_first([&](int32_t t) { return region_.follows(t); });
  }

  // Simulates up to this many windows; returns kRunning if there are more.
  DEVICE Status advance(int32_t windows) {
    for (; windows > 0; --windows) {
      Notice next = notice();
      const Status status = status_of(next);
      if constexpr (Kind::kIsPlain) {
        Alone alone{*this};
        if (status != kRunning) fast_forward_.end(alone);
        if (status == kRunning && fast_forward_.is_on()) next.first = fast_forward_.begin_window(alone, next);
      }
      if (status != kRunning) return status;
      begin_window(next.first, fast_forward_.latest_end());
      run_tasks();
      run_ports();
    }
    return kRunning;
  }

  // Takes the mail that other parts sent in the window before (part.h).
  DEVICE void accept_mail() {
    for (int32_t from = 0; from < region_.parts(); ++from) {
      auto& mail = region_.mail_from(from);
      for (const Slot& packet : mail.packets) accept(packet);
      for (const auto& credit : mail.credits) return_credit(s_.channel[credit.channel], credit.flits, credit.left_at);
      for (const Event& event : mail.events) event.code < kFeedback ? tasks_.push(event) : s_.feedback.push(event);
      mail.packets.clear();
      mail.credits.clear();
      mail.events.clear();
    }
  }

  // Returns the time of the next event of this region.
  DEVICE Notice notice() const { return {soonest(), tasks_.time(), gives_up_}; }

  // Returns whether there is another window; `next` is the first notice of all parts.
  DEVICE Status status_of(const Notice& next) const {
    if (next.gives_up) return kStarved;
    if (next.first > b_.run.until[world_]) return kPaused;
    if (next.first < kNever / 2) return kRunning;
    return next.first < kNever ? kTooLong : ended();
  }

  // Begins a window at `first` that ends at `latest` or earlier, ps.
  DEVICE void begin_window(int64_t first, int64_t latest) {
    begin_ = first;
    if (first >= depths_.end()) write_depths(first);
    if (depths_.end() < latest) latest = depths_.end();
    end_ = first + window_ < latest ? first + window_ : latest;
  }

  // Runs the events of tasks in the window.
  DEVICE void run_tasks() {
    for (tasks_.begin_window(end_); tasks_.time() < end_;) {
      look_ahead_.at_tasks();
      const Event event = tasks_.pop();
      on_task_event(event);
      tasks_.serve(event.time);
    }
  }

  // Lets ports send in the window, after the tasks of all parts.
  DEVICE void run_ports() {
    if constexpr (!Region::kAlone) accept_offers();
    run_feedback(end_);
    if (adapts()) {
      run_routers(end_);
    } else if (output_queues()) {
      send_all(end_);
    } else if (first_port_ < end_port_) {
      for (int32_t p = earliest(); s_.next[p] < end_; p = earliest()) try_once(p);
    }
  }

  // Returns whether this region has offered a message since the last call.
  DEVICE bool take_offered() {
    const bool has_offered = has_offered_;
    has_offered_ = false;
    return has_offered;
  }

  // Returns whether states of the world can come back and nobody looks at it before its end.
  DEVICE bool may_fast_forward() const {
    if (!may_repeat(b_, world_) || b_.run.until[world_] < kNever) return false;
    for (int32_t t = 0; t < messages_; ++t)
      if (b_.tasks.roots[task_ + t] > 1) return false;
    return true;
  }

  DEVICE int64_t end_of_interval() const { return depths_.end(); }
  DEVICE int64_t next_of(int32_t p) const { return s_.next[p]; }

  // Returns how many of these periods from `now` on may be skipped: what was taken of a buffer in each interval is
  // known where all of a period is in it.
  DEVICE int64_t periods_of_depths(int64_t now, int64_t period, int64_t periods) const {
    for (; periods > 0; --periods) {
      const int64_t begin = depths_.begin_at(now + periods * period);
      if (begin <= now || now + periods * period - begin >= period) break;
    }
    return periods;
  }

  // Skips periods that last `by` ps together, at `now`.
  DEVICE void skip(int64_t now, int64_t periods, int64_t by) {
    end_period();
    begin_ = now + by;
    Region::add(b_.out.skipped[world_], skip_periods(periods, by));
    if (begin_ < depths_.end()) return;
    OfPeriod columns{*this};
    depths_.write(begin_, region_.first_channel(), region_.end_channel(channels_), columns);
  }

  // Adds the counts of this region to those of the world; that of rank 0 comes first.
  DEVICE void add_counts() const {
    latencies_.add(b_.out.latencies, b_.out.latency_sum, b_.out.latency_most, world_, region_.rank());
    tasks_.add_latencies(region_.rank());
  }

  // Writes the counts of ports and buffers.
  DEVICE void end() const {
    for (int32_t p = 0; p < ports_; ++p) {
      const Port& port = s_.port[p];
      b_.out.active[port_ + p] = (port.packets - port.short_packets) * port.full_time + port.short_time;
      b_.out.stalled[port_ + p] = port.stalled;
      b_.out.port_bytes[port_ + p] = (port.packets - port.short_packets) * b_.model.size + port.short_bytes;
      b_.out.packets[port_ + p] = port.packets;
      b_.out.idle_intervals[port_ + p] = port.idle_intervals;
      b_.out.idle_1us[port_ + p] = port.idle_1us;
      b_.out.idle_1ms[port_ + p] = port.idle_1ms;
      b_.out.free[port_ + p] = port.free;
      write_lane(p);
    }
    for (int32_t c = 0; c < channels_; ++c) {
      const int32_t taken = max_taken(c);
      int32_t& fullest = b_.out.fullest[channel_ + c];
      if (taken > fullest) fullest = taken;
      b_.out.waits_for[channel_ + c] = kNone;
    }
    for (int32_t p = 0; p < ports_; ++p) {
      const Port& port = s_.port[p];
      if (!has_packets(port)) continue;
      for (int32_t place = 0; place < port.queues; ++place) {
        if (!is_occupied(port, place)) continue;
        const Queue& queue = queue_of(port, place);
        int32_t& waits = b_.out.waits_for[channel_ + queue.channel];
        if (waits == kNone) waits = queue.after;
      }
    }
    depths_.finish(*this);
  }

  // Returns the time of the next event of this region, ps.
  DEVICE int64_t soonest() const {
    int64_t first = tasks_.time();
    if (const int64_t time = feedback_time(); time < first) first = time;
    for (int32_t p = first_port_; p < end_port_; ++p) first = s_.next[p] < first ? s_.next[p] : first;
    return adapts() && arrivals_.time() < first ? arrivals_.time() : first;
  }

  // Takes a packet that another part has sent.
  DEVICE void accept(const Slot& slot) {
    const Packet& packet = slot.packet;
    const int32_t edge_or_channel = packet.next;
    const int32_t size = size_of(packet.task, packet.number), new_slot = take_slot();
    s_.slot[new_slot].packet = packet;
    if (by_address()) {
      enqueue_by_address(s_.port[port_of(edge_or_channel)], new_slot, edge_or_channel, size, slot.ready);
    } else {
      const int32_t channel = b_.ports.queue_channel[b_.ports.queue_offsets[world_] + s_.edge[edge_or_channel].queue];
      enqueue_by_path(s_.port[port_of(channel)], new_slot, edge_or_channel, size, slot.ready);
    }
  }

  // The message of a task comes to its NIC, or the task finishes.
  DEVICE void on_task_event(const Event& event) {
    const int32_t task = tasks_.task(event);
    if (!Tasks::is_offer(event)) return tasks_.finish(task, event.time);
    has_offered_ = true;
    if constexpr (Region::kAlone) {
      look_ahead_.at_offers([&](int32_t later) {
        const Event* const next = tasks_.ahead(later);
        return next == nullptr || !Tasks::is_offer(*next) ? kNone : tasks_.task(*next);
      });
      offer_message(task, event.time);
    } else if (tasks_.part(task) != kNone) {
      region_.mail_to(tasks_.part(task)).offers.push_back(event);
    } else {
      begin_round(task);
      for (int32_t to = 0; to < region_.parts(); ++to) region_.mail_to(to).offers.push_back(event);
    }
  }

  // Takes the messages that the ports of this region send.
  DEVICE void accept_offers() {
    for (int32_t from = 0; from < region_.parts(); ++from) {
      auto& offers = region_.mail_from(from).offers;
      for (size_t i = 0; i < offers.size(); ++i) {
        look_ahead_.at_offers(
            [&](int32_t later) { return i + later < offers.size() ? tasks_.task(offers[i + later]) : kNone; });
        offer_message(tasks_.task(offers[i]), offers[i].time);
      }
      offers.clear();
    }
  }

  // Returns whether all tasks have finished, once no event is left.
  DEVICE Status ended() const {
    for (int32_t p = 0; p < ports_; ++p)
      if (has_packets(s_.port[p])) return kBlocked;
    return tasks_.have_finished() ? kDone : kDeadlock;
  }

  // Writes the depths of queues in the intervals that have ended by `now`.
  DEVICE void write_depths(int64_t now) {
    const int32_t first = loses() ? first_port_ : region_.first_channel();
    depths_.write(now, first, loses() ? end_port_ : region_.end_channel(channels_), *this);
  }

 private:
  // This world as FastForward has it, if it is not shared.
  struct Alone {
    World& world;
    DEVICE World& first() const { return world; }
    template <class F>
    DEVICE void for_each_part(const F& f) const {
      f(world);
    }
  };

  // The occupancy of buffers in intervals that begin in skipped periods (depths.h).
  struct OfPeriod {
    World& world;
    DEVICE int32_t max_flits(int32_t c) const { return world.max_flits(c); }
    DEVICE void remember(int32_t c, int32_t flits) const { world.remember(c, flits); }
    DEVICE void begin_interval(int32_t c, int64_t) const { world.begin_of_period(c); }
  };

  Depths depths_{b_, world_, loses() ? ports_ : channels_};
  FastForward fast_forward_{Kind::kIsPlain && Region::kAlone && may_fast_forward()};
  bool has_offered_ = false;  // a message, since the last look
};

}  // namespace topoflow::BACKEND::packet

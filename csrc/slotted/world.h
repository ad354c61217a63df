// One world of slots: tasks, servers, LOCAL, and the slots of an epoch. What leaves LOCAL is the protocol's
// (protocols/); run.h puts them together.
//
// Between two barriers a node's thread writes what is the node's. What it hands to others it writes into tables with a
// place for each pair; bits of them are set by adding, each at most once.
//
// Source: topoflow/engine/slotted/reference.py is the model, in the same order.
#pragma once

#include "state.h"

namespace topoflow::BACKEND::slotted {

template <Team T>
class World {
 public:
  DEVICE World(const T& team, const SlottedBatch& batch, int32_t world, std::byte* memory)
      : team(team), batch(batch), world(world), state(Memory(memory), batch, world) {
    first_task = batch.task_offsets[world];
    tasks = static_cast<int32_t>(batch.task_offsets[world + 1] - first_task);
    first_node = batch.node_offsets[world];
    nodes = static_cast<int32_t>(batch.node_offsets[world + 1] - first_node);
    first_server = batch.server_offsets[world];
    servers = static_cast<int32_t>(batch.server_offsets[world + 1] - first_server);
    rows = batch.radix[world] ? 0 : nodes;
    slots = batch.slots[world];
    groups = (nodes + slots - 1) / slots;
    words = (nodes + kWordBits - 1) / kWordBits;
    group_words = (groups + kWordBits - 1) / kWordBits;
    columns = slots * groups;
    column_words = (columns + kWordBits - 1) / kWordBits;
    room = batch.queue[world];
    slot_time = batch.slot[world];
    epoch_time = slots * slot_time;
    pace = batch.pace[world];
    window = batch.window[world];
    key[0] = static_cast<uint32_t>(batch.key[2 * world]);
    key[1] = static_cast<uint32_t>(batch.key[2 * world + 1]);
  }

  // Everything is as before the first epoch.
  DEVICE void begin() {
    team.for_each(nodes, [&](int32_t i) { begin_node(i); });
    team.for_each(servers, [&](int32_t i) { state.server[i] = {{kNone, kNone}, 0, 0}; });
    team.for_each(rows * columns, [&](int32_t i) {
      state.local[i] = {kNone, kNone};
      state.queue[i] = {0, 0, 0};
    });
    team.for_each(rows * nodes, [&](int32_t i) { state.candidate[i] = i % nodes + (i % nodes >= i / nodes); });
    team.for_each(tasks, [&](int32_t i) { begin_task(i); });
    team.for_each(1, [&](int32_t) { *state.control = {{state.heap, 0}, 0, 0, tasks, 0, 0, 0, 0}; });
  }

  // Lets everything happen that is due when an epoch begins, and chooses that epoch. Returns a Status.
  DEVICE int32_t begin_epoch() {
    team.for_each(1, [&](int32_t) { state.control->status = next_epoch(); });
    epoch = team.get(&state.control->epoch);
    return team.get(&state.control->status);
  }

  // Servers put cells into LOCAL: they have sent for an epoch.
  DEVICE void inject() {
    team.for_each(nodes, [&](int32_t node) {
      const int64_t* const row = batch.node_servers + first_node + node;
      for (int64_t i = row[0] - first_server; i < row[1] - first_server; ++i)
        if (state.server[i].queue.head != kNone) inject(state.server[i]);
    });
  }

  DEVICE void send() {
    team.for_each(nodes, [&](int32_t i) { note_fullest(i); });
    for (int32_t slot = 0; slot < slots; ++slot) {
      team.for_each(nodes, [&](int32_t node) { send_from(node, slot); });
      team.for_each(nodes, [&](int32_t node) { receive_at(node, slot); });
    }
  }

  // An epoch has passed: grants that found no cell are known to the nodes that gave them.
  DEVICE void end_epoch() {
    team.for_each(rows, [&](int32_t node) {
      for_bits(state.declined + node * words, words,
               [&](int32_t source) { --state.queue[node * columns + state.unused[node * nodes + source]].reserved; });
      for (int32_t word = 0; word < words; ++word) state.declined[node * words + word] = 0;
    });
    team.for_each(1, [&](int32_t) { ++state.control->epoch; });
  }

  // Writes what nodes saw.
  DEVICE void end() {
    team.for_each(nodes, [&](int32_t i) { batch.fullest[first_node + i] = state.node[i].fullest; });
    team.for_each(tasks, [&](int32_t i) {
      batch.delivered[first_task + i] = state.receipt[i].arrived;
      batch.reorder[first_task + i] = state.receipt[i].latest;
    });
    team.for_each(1, [&](int32_t) {
      int64_t hops = 0, received = 0;
      for (int32_t i = 0; i < nodes; ++i) hops += state.node[i].hops, received += state.node[i].received;
      batch.hops[world] = hops;
      batch.received[world] = received;
      batch.epochs[world] = state.control->epoch;
    });
  }

  // For protocols: a cell for the column `target` leaves LOCAL of `source`. There is one.
  DEVICE Cell take(int32_t source, int32_t target) {
    Ends& list = state.local[source * columns + target];
    const int32_t task = list.head;
    Flow& flow = state.flow[task];
    Active* const row = active_of(source);
    list.head = flow.next_local;
    if (--row[flow.place].local) {
      append(list, task, &Flow::next_local, state.flow);
    } else {
      const Active last = row[--state.node[source].active];
      row[flow.place] = last;
      state.flow[last.task].place = flow.place;
      flow.place = kNone;
    }
    ++state.node[source].held;
    return {task, flow.number++};
  }

  // A cell waits at `node` to be sent on to `column`, in a place that is reserved.
  DEVICE void relay(int32_t node, int32_t column, const Cell& cell) {
    Queue& queue = state.queue[node * columns + column];
    int32_t place = queue.first + queue.count++;
    if (place >= room) place -= room;
    state.relayed[(place * nodes + node) * columns + column] = cell;
    set_waiting(state.has_relayed, node, column);
  }

  // From the node to the server.
  DEVICE void deliver(const Cell& cell, int32_t node, int64_t time) {
    Receipt& receipt = state.receipt[cell.task];
    Server& server = state.server[receipt.server];
    server.free = (server.free > time ? server.free : time) + pace;
    state.node[node].received += server.free <= window;
    ++receipt.arrived;
    if (cell.number == receipt.expected && receipt.arrived == cell.number + 1) {
      ++receipt.expected;  // in order, as most are
    } else {
      arrive_early(receipt, cell.number);
    }
    if (receipt.arrived < receipt.cells) return;
    batch.finish[first_task + cell.task] = server.free;
    state.ended[team.atomic_add(&state.control->ended, 1)] = cell.task;
  }

  DEVICE void note_fullest(int32_t i) {
    Node& node = state.node[i];
    if (node.held > node.fullest) node.fullest = node.held;
  }

  // That something waits at `source` for the slot of `column`.
  DEVICE void set_waiting(uint64_t* has, int32_t source, int32_t column) const {
    const int32_t place = column / groups, group = column - place * groups;
    has[(source * slots + place) * group_words + group / kWordBits] |= bit(group);
  }

  DEVICE int32_t column_of(int32_t node) const { return state.place[node] * groups + state.group[node]; }

  DEVICE Active* active_of(int32_t node) const {
    return state.active + (batch.node_tasks[first_node + node] - batch.node_tasks[first_node]);
  }

  DEVICE static uint64_t bit(int32_t i) { return uint64_t{1} << i % kWordBits; }

  // Sets a bit that is not set, where others set bits of the same word.
  DEVICE void set_bit(uint64_t* row, int32_t i) const {
    team.atomic_add(reinterpret_cast<int64_t*>(row + i / kWordBits), static_cast<int64_t>(bit(i)));
  }

  template <class F>
  DEVICE static void for_bits(const uint64_t* row, int32_t words, const F& f) {
    for (int32_t word = 0; word < words; ++word)
      for (uint64_t rest = row[word]; rest; rest &= rest - 1) f(word * kWordBits + lowest_bit(rest));
  }

  template <class Item>
  DEVICE static void append(Ends& list, int32_t item, int32_t Item::* next, Item* items) {
    items[item].*next = kNone;
    if (list.head == kNone)
      list.head = item;
    else
      items[list.tail].*next = item;
    list.tail = item;
  }

  const T& team;
  const SlottedBatch& batch;
  const int32_t world;
  State state;
  int64_t first_task, first_node, first_server;
  int32_t tasks, nodes, servers;
  int32_t rows;  // of the tables of a schedule: nodes, or none
  int32_t slots, groups, columns, words, group_words, column_words;
  int32_t room;  // Q
  int64_t slot_time, epoch_time, pace, window;
  int32_t epoch = 0;
  uint32_t key[2];

 private:
  DEVICE void begin_node(int32_t i) {
    state.node[i] = {0, 0, 0, 0, 0};
    state.place[i] = i % slots;
    state.group[i] = i / slots;
    state.node_at[column_of(i)] = i;
    if (!rows) return;
    clear(state.requested, i, words);
    clear(state.declined, i, words);
    clear(state.answered, i, column_words);
    clear(state.came, i, 2 * group_words);
    clear(state.has_granted, i, slots * group_words);
    clear(state.has_relayed, i, slots * group_words);
  }

  DEVICE static void clear(uint64_t* bits, int32_t node, int32_t words) {
    for (int32_t word = 0; word < words; ++word) bits[node * words + word] = 0;
  }

  DEVICE void begin_task(int32_t i) {
    const int64_t task = first_task + i;
    const int32_t cells = batch.cells[task];
    state.flow[i] = {cells, 0, kNone, kNone, kNone, kNone, kNone};
    const int64_t begin = batch.bit_offsets[task] - batch.bit_offsets[first_task];
    const int64_t end = batch.bit_offsets[task + 1] - batch.bit_offsets[first_task];
    state.receipt[i] = {begin, cells, batch.target[task], 0, 0, 0};
    if (cells) {
      state.flow[i].source = batch.server_node[first_server + batch.source[task]];
      state.flow[i].target = column_of(batch.server_node[first_server + batch.target[task]]);
    }
    for (int64_t word = begin; word < end; ++word) state.bits[word] = 0;
    state.pending[i] = batch.pending[task];
    state.ready[i] = batch.release[task];
    batch.start[task] = batch.pending[task] ? kNever : batch.release[task];
    batch.finish[task] = kNever;
    if (batch.through)
      for (int64_t cell = batch.cell_offsets[task]; cell < batch.cell_offsets[task + 1]; ++cell)
        batch.through[cell] = kNone, batch.sent[cell] = batch.sent_on[cell] = kNone;
  }

  // Tasks, by one thread

  DEVICE int32_t next_epoch() {
    Control& control = *state.control;
    for (int32_t i = 0; i < control.ended; ++i) end_task(state.ended[i]);
    control.ended = 0;
    control.quiet = control.open ? 0 : control.quiet + 1;
    if (control.left && control.quiet > 3) {  // no request and no grant is left: up to the next event nothing happens
      const int64_t next = next_time();
      if (next == kNever) return kDeadlock;
      const int64_t there = (next + epoch_time - 1) / epoch_time;
      if (there > 0x7ffffffe) return kTooLong;
      if (there > control.epoch) control.epoch = static_cast<int32_t>(there);
    }
    if (control.epoch >= 0x7ffffffe) return kTooLong;
    const int64_t now = control.epoch * epoch_time;
    if (now >= batch.until[world]) return control.left ? kPaused : kDone;
    while (next_time() <= now) happen(next_event(), now);
    return control.left ? kRunning : kDone;
  }

  DEVICE Event first_event() const {
    const int64_t at = batch.first_offsets[world] + state.control->initial;
    if (at == batch.first_offsets[world + 1]) return {kNever, 0};
    const int32_t task = batch.first[at];
    return {batch.release[first_task + task] + batch.delay[first_task + task], task};
  }

  DEVICE int64_t next_time() const {
    const int64_t first = first_event().time, other = state.control->events.time();
    return first < other ? first : other;
  }

  DEVICE Event next_event() {
    Control& control = *state.control;
    const Event first = first_event();
    if (control.events.size && control.events.event[0] < first) return control.events.pop();
    ++control.initial;
    return first;
  }

  DEVICE void happen(const Event& event, int64_t now) {
    const auto task = static_cast<int32_t>(event.what);
    if (!state.flow[task].unsent) {
      batch.finish[first_task + task] = event.time;
      end_task(task);
      return;
    }
    Server& server = state.server[batch.source[first_task + task]];
    if (server.queue.head == kNone) server.credit = now - event.time - epoch_time;  // it has sent since then
    append(server.queue, task, &Flow::next_server, state.flow);
    ++state.control->open;
  }

  DEVICE void end_task(int32_t task) {
    Control& control = *state.control;
    const int64_t time = batch.finish[first_task + task];
    --control.left;
    if (batch.cells[first_task + task]) --control.open;
    const int64_t* const row = batch.follower_offsets + first_task + task;
    for (int64_t at = row[0]; at < row[1]; ++at) {
      const int32_t other = batch.followers[at];
      if (state.ready[other] < time) state.ready[other] = time;
      if (--state.pending[other]) continue;
      batch.start[first_task + other] = state.ready[other];
      control.events.push({state.ready[other] + batch.delay[first_task + other], other});
    }
  }

  // Servers

  DEVICE void inject(Server& server) {
    server.credit += epoch_time;
    int64_t cells = server.credit / pace;
    server.credit -= cells * pace;
    while (cells > 0 && server.queue.head != kNone) {
      const int32_t task = server.queue.head;
      Flow& flow = state.flow[task];
      const auto number = static_cast<int32_t>(cells < flow.unsent ? cells : flow.unsent);
      server.queue.head = flow.next_server;
      flow.unsent -= number;
      cells -= number;
      put(task, flow, number);
      if (flow.unsent) append(server.queue, task, &Flow::next_server, state.flow);
    }
  }

  // Cells come to LOCAL, or to the server next to it.
  DEVICE void put(int32_t task, Flow& flow, int32_t number) {
    if (column_of(flow.source) == flow.target) {
      for (int32_t i = 0; i < number; ++i) deliver({task, flow.number++}, flow.source, epoch * epoch_time);
      return;
    }
    Active* const row = active_of(flow.source);
    if (flow.place == kNone) {
      flow.place = state.node[flow.source].active++;
      row[flow.place] = {task, flow.target, 0, 0, kNone};
      append(state.local[flow.source * columns + flow.target], task, &Flow::next_local, state.flow);
    }
    row[flow.place].local += number;
  }

  // Slots

  DEVICE void send_from(int32_t node, int32_t slot) {
    int32_t place = state.place[node] + slot;
    if (place >= slots) place -= slots;
    for (int32_t word = 0; word < group_words; ++word) {
      const int32_t at = (node * slots + place) * group_words + word;
      const uint64_t granted = state.has_granted[at], relayed = state.has_relayed[at] & ~granted;
      if (!(granted | relayed)) continue;
      send_granted(node, place, word, granted, slot);
      const uint64_t empty = send_relayed(node, place, word, relayed, slot);
      state.has_granted[at] = 0;
      state.has_relayed[at] &= ~empty;
      const int32_t count = bits(granted | relayed);
      state.node[node].held -= count;
      state.node[node].hops += count;
    }
  }

  // Cells of this node go to their intermediate nodes.
  DEVICE void send_granted(int32_t node, int32_t place, int32_t word, uint64_t which, int32_t slot) {
    const Sent* const row = state.granted + node * columns + place * groups;
    Sent* const inbox = state.inbox + place * groups + state.group[node];
    uint64_t* const came = state.came + 2 * place * group_words;
    const int32_t stride = slots * groups, bit_stride = 2 * slots * group_words, first = place * groups;
    const int32_t own = state.group[node], more = group_words;
    for (uint64_t rest = which; rest; rest &= rest - 1) {
      const int32_t group = word * kWordBits + lowest_bit(rest);
      const Sent sent = row[group];
      inbox[group * stride] = sent;
      set_bit(came + group * bit_stride + (sent.to == first + group ? more : 0), own);
      if (batch.through) record(sent, node, slot);
    }
  }

  // Cells of others are sent on. Returns for which of these groups no more wait.
  DEVICE uint64_t send_relayed(int32_t node, int32_t place, int32_t word, uint64_t which, int32_t slot) {
    const int32_t first = node * columns + place * groups, plane = nodes * columns, q = room;
    Sent* const inbox = state.inbox + place * groups + state.group[node];
    uint64_t* const came = state.came + (2 * place + 1) * group_words;
    const int32_t stride = slots * groups, bit_stride = 2 * slots * group_words, own = state.group[node];
    uint64_t empty = 0;
    for (uint64_t rest = which; rest; rest &= rest - 1) {
      const int32_t group = word * kWordBits + lowest_bit(rest), column = first + group;
      Queue queue = state.queue[column];
      const Sent sent{state.relayed[queue.first * plane + column], kLast};
      inbox[group * stride] = sent;
      set_bit(came + group * bit_stride, own);
      ++queue.first;
      --queue.reserved;
      const bool last = !--queue.count;
      if (last || queue.first == q) queue.first = 0;  // an empty queue begins anew, where memory is near
      if (last) empty |= rest & -rest;
      state.queue[column] = queue;
      if (batch.through) record(sent, node, slot);
    }
    return empty;
  }

  DEVICE void record(const Sent& sent, int32_t node, int32_t slot) {
    const int64_t at = batch.cell_offsets[first_task + sent.cell.task] + sent.cell.number;
    const int64_t now = int64_t{epoch} * slots + slot;
    const bool again = sent.to == kLast && node != state.flow[sent.cell.task].source;
    (again ? batch.sent_on : batch.sent)[at] = now;
    if (again) batch.through[at] = node;
  }

  DEVICE void receive_at(int32_t node, int32_t slot) {
    uint64_t* const came = state.came + 2 * node * group_words;
    const Sent* const inbox = state.inbox + node * groups;
    int32_t relayed = 0;
    for_bits(came, group_words, [&](int32_t group) {
      relay(node, inbox[group].to, inbox[group].cell);
      ++relayed;
    });
    const int32_t own = column_of(node);
    const int64_t now = (int64_t{epoch} * slots + slot + 1) * slot_time;
    for_bits(came + group_words, group_words, [&](int32_t group) {
      if (inbox[group].to == own) --state.queue[node * columns + own].reserved;
      deliver(inbox[group].cell, node, now);
    });
    for (int32_t word = 0; word < 2 * group_words; ++word) came[word] = 0;
    state.node[node].held += relayed;
    note_fullest(node);
  }

  DEVICE void arrive_early(Receipt& receipt, int32_t number) {
    uint32_t* const bits = state.bits + receipt.bits;
    bits[number / 32] |= 1u << number % 32;
    if (number == receipt.expected)
      while (receipt.expected < receipt.cells && bits[receipt.expected / 32] >> receipt.expected % 32 & 1)
        ++receipt.expected;
    const int32_t waiting = receipt.arrived - receipt.expected;
    if (waiting > receipt.latest) receipt.latest = waiting;
  }
};

}  // namespace topoflow::BACKEND::slotted

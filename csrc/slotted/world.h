// One world of slots: tasks, servers, LOCAL, and the slots of an epoch. What leaves LOCAL is the protocol's
// (protocols/); run.h puts them together.
//
// Between two barriers a node's thread writes what is the node's. What it hands to others it writes into tables with a
// place for each pair; bits of them are set by adding, each at most once.
//
// Source: tests/twins/slotted.py is the model, in the same order.
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
    columns = slots * groups;
    column_words = (columns + kWordBits - 1) / kWordBits + 1;  // the word after each word is read
    pairs = static_cast<int32_t>(State::pairs_of(nodes));
    room = batch.queue[world];
    slot_time = batch.slot[world];
    epoch_time = slots * slot_time;
    credits = batch.credits[world];
    takes_turns = batch.cable[world] == kTurns;
    pace = batch.pace[world];
    epoch_cells = epoch_time / pace;
    window = batch.window[world];
    const int64_t* const dark_offsets = batch.dark_offsets + world;
    dark = dark_offsets[0] < dark_offsets[1] ? batch.dark + dark_offsets[0] : nullptr;
    key[0] = static_cast<uint32_t>(batch.key[2 * world]);
    key[1] = static_cast<uint32_t>(batch.key[2 * world + 1]);
  }

  // Sets the state before the first epoch.
  DEVICE void begin() {
    team.for_each(nodes, [&](int32_t i) { begin_node(i); });
    team.for_each(servers, [&](int32_t i) { state.server[i] = {{kNone, kNone}, {kNone, kNone}, 0, 0, 0}; });
    team.for_each(rows * columns, [&](int32_t i) {
      state.local[i] = {kNone, kNone};
      state.queue[i] = {0, 0, 0};
    });
    team.for_each(columns, [&](int32_t i) { state.place_at[i] = i / groups; });
    team.for_each(tasks, [&](int32_t i) { begin_task(i); });
    team.for_each(1, [&](int32_t) {
      *state.control = {{state.heap, 0}, 0, 0, tasks, 0, 0, 0, 0, 0, 0, 1, 0};
      batch.stuck[2 * world] = batch.stuck[2 * world + 1] = kNone;
      if (!batch.resource) return;
      state.resources.begin();
      for (int32_t i = 0; i < tasks; ++i)
        if (resource(i) != kNone && state.pending[i] == 0)
          state.control->events.push({state.ready[i], int64_t{tasks} + i});
    });
  }

  // Processes all events that are due when an epoch begins, and chooses that epoch. Returns a Status.
  DEVICE int32_t begin_epoch() {
    team.for_each(1, [&](int32_t) { state.control->status = next_epoch(); });
    epoch = team.get(&state.control->epoch);
    return team.get(&state.control->status);
  }

  // Servers put cells into LOCAL: they have sent for an epoch. A flow takes turns to leave it with those of
  // list_of(task, flow).
  template <class ListOf>
  DEVICE void inject(const ListOf& list_of) {
    team.for_each(nodes, [&](int32_t node) {
      const int32_t first = first_server_of(node), count = first_server_of(node + 1) - first;
      uint64_t* const sending = bits_of(state.sending, node);
      for_bits(sending, (count + kWordBits - 1) / kWordBits, [&](int32_t i) {
        Server& server = state.server[first + i];
        inject(server, list_of);
        if (server.queue.head == kNone) sending[i >> kWordLog] ^= bit(i);
      });
    });
  }

  // The same where flows take turns with those for the same column.
  DEVICE void inject() {
    inject([&](int32_t, const Flow& flow) -> Ends& { return local_of(flow); });
  }

  // All slots of an epoch, node by node: what comes to an intermediate node was granted before.
  DEVICE void send() {
    team.for_each(nodes, [&](int32_t node) { forward(node); });
    team.for_each(nodes, [&](int32_t node) { receive(node); });
  }

  // An epoch has passed: grants that found no cell are known to the nodes that gave them.
  DEVICE void end_epoch() {
    team.for_each(rows, [&](int32_t node) {
      for_bits(state.declined + node * words, words,
               [&](int32_t source) { --state.queue[node * columns + state.unused[source * pairs + node]].reserved; });
      clear(state.declined, node, words);
    });
    team.for_each(1, [&](int32_t) {
      if (epoch % state.control->stride == 0) sample();
      ++state.control->epoch;
    });
  }

  // Returns whether cells wait at nodes and none was sent for kPatience epochs times the number of nodes, counted from
  // when received cells can be sent on. A node asks a random other one in each epoch, so the probability that all of
  // these requests fail is below e^-kPatience.
  DEVICE bool is_stuck() {
    const int32_t* const pause = batch.pause + 2 * world;
    const int64_t patience = int64_t{kPatience} * nodes + (pause[0] > pause[1] ? pause[0] : pause[1]);
    team.for_each(1, [&](int32_t) {
      Control& control = *state.control;
      int64_t sent = 0;
      int32_t first = kNone;
      for (int32_t i = nodes - 1; i >= 0; --i) {
        sent += state.node[i].hops;
        if (state.node[i].active || state.node[i].queued) first = i;
      }
      if (first == kNone || sent != control.sent) {
        control.sent = sent;
        control.since = control.epoch;
      } else if (control.epoch - control.since > patience) {
        control.status = kStarved;
        batch.stuck[2 * world] = first;
        batch.stuck[2 * world + 1] = destination_at(first);
      }
    });
    return team.get(&state.control->status) == kStarved;
  }

  // Writes the counts of nodes.
  DEVICE void end() {
    team.for_each(nodes, [&](int32_t i) { batch.fullest[first_node + i] = state.node[i].fullest; });
    team.for_each(tasks, [&](int32_t i) {
      batch.delivered[first_task + i] = state.receipt[i].arrived;
      batch.dropped[first_task + i] = batch.cells[first_task + i] - state.receipt[i].cells;
      batch.reorder[first_task + i] = state.receipt[i].latest;
    });
    team.for_each(1, [&](int32_t) {
      int64_t hops = 0, received = 0;
      for (int32_t i = 0; i < nodes; ++i) hops += state.node[i].hops, received += state.node[i].received;
      batch.hops[world] = hops;
      batch.received[world] = received;
      batch.epochs[world] = state.control->epoch;
      batch.samples[world] = state.control->samples;
    });
  }

  // For protocols: takes a cell for the column `target` from LOCAL of `source`, which has one.
  DEVICE Cell take(int32_t source, int32_t target) { return take(source, state.local[source * columns + target]); }

  // Takes a cell of the flow whose turn it is in this list.
  DEVICE Cell take(int32_t source, Ends& list) {
    const int32_t task = list.head;
    Flow& flow = state.flow[task];
    Active* const row = active_of(source);
    Node& node = state.node[source];
    if (--row[flow.place].local) {
      if (list.tail != task) {
        list.head = flow.next_local;
        append(list, task, &Flow::next_local, state.flow);
      }
    } else {
      list.head = flow.next_local;
      const Active last = row[--node.active];
      row[flow.place] = last;
      state.flow[last.task].place = flow.place;
      flow.place = kNone;
    }
    --state.server[flow.server].local;
    ++node.queued;
    return {task, flow.number++};
  }

  // For protocols: a cell that left LOCAL of `source` is sent to `column` in this epoch, and is for `target`.
  DEVICE void send_to(int32_t source, int32_t column, const Cell& cell, int32_t target) {
    int32_t slot = state.place_at[column] - state.place[source];
    if (slot < 0) slot += slots;
    const int32_t node = state.node_at[column], at = slot * groups + state.group[source];
    if (batch.through) batch.sent[log_of(cell)] = int64_t{epoch} * slots + slot;
    set_waiting(state.has_granted, source, column);
    if (target == column) {
      state.incoming[node * columns + at].cell = {cell.task, ~cell.number};
      set_bit(state.is_last + node * column_words, at);
    } else {
      state.incoming[node * columns + at] = {cell, target};
      set_bit(state.is_incoming + node * column_words, at);
    }
  }

  // A cell waits at `node` to be sent on to `column`, in a place that is reserved.
  DEVICE void relay(int32_t node, int32_t column, const Cell& cell) {
    Queue& queue = state.queue[node * columns + column];
    int32_t place = queue.first + queue.count++;
    if (place >= room) place -= room;
    state.relayed[(int64_t{place} * nodes + node) * columns + column] = cell;
    set_waiting(state.has_relayed, node, column);
  }

  // A cell goes from the node to its server.
  DEVICE void deliver(const Cell& cell, int32_t node, int64_t time) {
    Receipt& receipt = state.receipt[cell.task];
    Server& server = state.server[receipt.server];
    if (takes_turns & must_serve(server, cell.task, receipt, time)) serve(server, node, time);
    ++receipt.arrived;
    put_in_order(cell.task, receipt, cell.number);
    const bool waits = takes_turns & ((server.cable.head != kNone) | (server.free > time));
    if (!waits) {
      if (server.free < time) server.free = time;
      bring(cell.task, receipt, server, node);
    } else if (!receipt.waiting++) {
      append(server.cable, cell.task, &Receipt::next, state.receipt);
      const int32_t place = receipt.server - first_server_of(node);
      bits_of(state.waiting, node)[place >> kWordLog] |= bit(place);
    }
  }

  // A cell finds no room and is lost. Not called while cells are delivered.
  DEVICE void drop(const Cell& cell) {
    Receipt& receipt = state.receipt[cell.task];
    if (team.atomic_add(&receipt.cells, -1) - 1 == receipt.arrived) note_end(cell.task);
  }

  // The first cell that waits at `node` to be sent on to `column` leaves its queue.
  DEVICE Cell next_relayed(int32_t node, int32_t column) {
    Queue& queue = state.queue[node * columns + column];
    const Cell cell = state.relayed[(int64_t{queue.first} * nodes + node) * columns + column];
    --queue.reserved;
    const bool last = !--queue.count;
    const int32_t next = queue.first + 1, mask = static_cast<int32_t>(last | (next == room)) - 1;
    queue.first = next & mask;  // 0 where it is empty: memory is near
    state.has_relayed[node * column_words + (column >> kWordLog)] ^= uint64_t{last} << (column & (kWordBits - 1));
    return cell;
  }

  // Cables bring what waits for them at a node until the end of the epoch.
  DEVICE void serve_cables(int32_t node) {
    const int32_t first = first_server_of(node), count = first_server_of(node + 1) - first;
    uint64_t* const waiting = bits_of(state.waiting, node);
    for_bits(waiting, (count + kWordBits - 1) / kWordBits, [&](int32_t i) {
      Server& server = state.server[first + i];
      serve(server, node, int64_t{epoch + 1} * epoch_time);
      if (server.cable.head == kNone) waiting[i >> kWordLog] ^= bit(i);
    });
  }

  DEVICE void note_fullest(int32_t i) {
    Node& node = state.node[i];
    if (node.queued > node.fullest) node.fullest = node.queued;
  }

  // Notes that something waits at `node` for the slot of `column`.
  DEVICE void set_waiting(uint64_t* has, int32_t node, int32_t column) const {
    set_private_bit(has + node * column_words, column);
  }

  // Sets a bit of a word that nobody else writes.
  DEVICE static void set_private_bit(uint64_t* row, int32_t i) { row[i >> kWordLog] |= bit(i); }

  DEVICE int32_t column_of(int32_t node) const { return state.column[node]; }

  // Returns whether `node` has a slot for `other`, another node.
  DEVICE bool sends_to(int32_t node, int32_t other) const {
    return !dark || !(static_cast<uint64_t>(dark[node * words + (other >> kWordLog)]) & bit(other));
  }

  // Returns whether cells for the column `target` can take a detour by `node`, or end there.
  DEVICE bool forwards(int32_t node, int32_t target) const {
    return !dark || target == column_of(node) || sends_to(node, state.node_at[target]);
  }

  // Returns the flows with cells in LOCAL for the same column.
  DEVICE Ends& local_of(const Flow& flow) const { return state.local[flow.source * columns + flow.target]; }

  DEVICE Active* active_of(int32_t node) const { return state.active + state.node[node].first; }

  DEVICE int32_t first_server_of(int32_t node) const {
    return static_cast<int32_t>(batch.node_servers[first_node + node] - first_server);
  }

  // Returns the bits of the servers of a node.
  DEVICE uint64_t* bits_of(uint64_t* rows, int32_t node) const {
    return rows + first_server_of(node) / kWordBits + node;
  }

  DEVICE static uint64_t bit(int32_t i) { return uint64_t{1} << (i & (kWordBits - 1)); }

  // A cell is sent from the node in a slot of this epoch.
  DEVICE void record(const Cell& cell, int32_t node, int32_t slot) {
    const bool is_second_hop = node != state.flow[cell.task].source;
    (is_second_hop ? batch.sent_on : batch.sent)[log_of(cell)] = int64_t{epoch} * slots + slot;
    if (is_second_hop) batch.through[log_of(cell)] = node;
  }

  // Sets a bit that is not set, where others set bits of the same word.
  DEVICE void set_bit(uint64_t* row, int32_t i) const {
    team.atomic_add(reinterpret_cast<int64_t*>(row + (i >> kWordLog)), static_cast<int64_t>(bit(i)));
  }

  template <class F>
  DEVICE static void for_bits(const uint64_t* row, int32_t words, const F& f) {
    for (int32_t word = 0; word < words; ++word)
      for (uint64_t remaining = row[word]; remaining; remaining &= remaining - 1)
        f(word * kWordBits + lowest_bit(remaining));
  }

  // The same in a circle from the bit `first` on, until f(bit) is true.
  template <class F>
  DEVICE static void for_bits_from(const uint64_t* row, int32_t words, int32_t first, const F& f) {
    const uint64_t before = bit(first) - 1;  // in the word of `first`, which comes once more at the end
    int32_t word = first >> kWordLog;
    for (int32_t i = 0; i <= words; ++i) {
      const uint64_t all = row[word], part = !i ? all & ~before : i == words ? all & before : all;
      for (uint64_t remaining = part; remaining; remaining &= remaining - 1)
        if (f(word * kWordBits + lowest_bit(remaining))) return;
      if (++word == words) word = 0;
    }
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
  int32_t slots, groups, columns, words, column_words;
  int32_t pairs;  // of a row
  int32_t room;   // Q
  int32_t credits;
  bool takes_turns;  // on the cables to servers
  int64_t slot_time, epoch_time, pace, window;
  int64_t epoch_cells;  // that the cable of a server has time for in an epoch
  int32_t epoch = 0;
  uint32_t key[2];
  const int64_t* dark;  // bits of pairs of nodes without a slot; nullptr: all have one

 private:
  static constexpr int32_t kPatience = 64;

  DEVICE void begin_node(int32_t i) {
    state.node[i] = {};
    state.node[i].first = static_cast<int32_t>(batch.node_tasks[first_node + i] - batch.node_tasks[first_node]);
    state.place[i] = i % slots;
    state.group[i] = i / slots;
    state.column[i] = state.place[i] * groups + state.group[i];
    state.node_at[column_of(i)] = i;
    for (uint64_t* const rows : {state.sending, state.waiting})
      for (uint64_t* word = bits_of(rows, i); word < bits_of(rows, i + 1); ++word) *word = 0;
    if (!rows) return;
    uint16_t* const candidates = state.candidate + i * pairs;
    for (int32_t other = 0; other < nodes; ++other)
      if (other != i && sends_to(i, other)) candidates[state.node[i].destinations++] = static_cast<uint16_t>(other);
    clear(state.requested, i, words);
    clear(state.declined, i, words);
    clear(state.answered, i, column_words);
    clear(state.has_granted, i, column_words);
    clear(state.has_relayed, i, column_words);
    clear(state.is_incoming, i, column_words);
    clear(state.is_last, i, column_words);
  }

  // Samples the cells that wait at nodes. If there is no room for another sample, only those of multiples of twice the
  // stride stay.
  DEVICE void sample() {
    Control& control = *state.control;
    int32_t* const row = batch.sampled + 3 * kMaxSamples * world;
    while (control.samples == kMaxSamples) {
      control.stride *= 2;
      control.samples = 0;
      for (int32_t i = 0; i < kMaxSamples; ++i)
        if (row[3 * i] % control.stride == 0) copy_sample(row + 3 * i, row + 3 * control.samples++);
    }
    if (epoch % control.stride) return;
    int32_t total = 0, largest = 0;
    for (int32_t i = 0; i < nodes; ++i) {
      total += state.node[i].queued;
      largest = state.node[i].queued > largest ? state.node[i].queued : largest;
    }
    const int32_t values[3] = {epoch, total, largest};
    copy_sample(values, row + 3 * control.samples++);
  }

  DEVICE static void copy_sample(const int32_t* from, int32_t* to) {
    for (int32_t i = 0; i < 3; ++i) to[i] = from[i];
  }

  // Returns the destination of a cell that waits at a node; kNone if its queues are empty.
  DEVICE int32_t destination_at(int32_t node) const {
    if (state.node[node].active) return state.node_at[active_of(node)->target];
    int32_t destination = kNone;
    for_bits(state.has_relayed + node * column_words, rows ? column_words : 0,
             [&](int32_t column) { destination = state.node_at[column]; });
    return destination;
  }

  DEVICE static void clear(uint64_t* bits, int32_t node, int32_t words) {
    for (int32_t word = 0; word < words; ++word) bits[node * words + word] = 0;
  }

  DEVICE void begin_task(int32_t i) {
    const int64_t task = first_task + i;
    const int32_t cells = batch.cells[task];
    state.flow[i] = {cells, 0, kNone, kNone, kNone, kNone, kNone, kNone};
    const auto begin = static_cast<int32_t>(batch.bit_offsets[task] - batch.bit_offsets[first_task]);
    const auto end = static_cast<int32_t>(batch.bit_offsets[task + 1] - batch.bit_offsets[first_task]);
    state.receipt[i] = {0, begin, cells, batch.target[task], 0, 0, 0, 0, 0, kNone};
    if (cells) {
      state.flow[i].server = batch.source[task];
      state.flow[i].source = batch.server_node[first_server + batch.source[task]];
      state.flow[i].target = column_of(batch.server_node[first_server + batch.target[task]]);
    }
    for (int32_t word = begin; word < end; ++word) state.bits[word] = 0;
    state.pending[i] = batch.pending[task];
    state.ready[i] = batch.release[task];
    batch.start[task] = batch.pending[task] || resource(i) != kNone ? kNever : batch.release[task];
    if (batch.resource) state.resources.begin(i, 0);
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
      const int64_t target_epoch = (next + epoch_time - 1) / epoch_time;
      if (target_epoch > 0x7ffffffe) return kTooLong;
      if (target_epoch > control.epoch) control.epoch = static_cast<int32_t>(target_epoch);
    }
    if (control.epoch >= 0x7ffffffe) return kTooLong;
    const int64_t now = control.epoch * epoch_time;
    if (now >= batch.until[world]) return control.left ? kPaused : kDone;
    while (next_time() <= now) {
      const Event event = next_event();
      process_event(event, now);
      if (batch.resource && next_time() > event.time) serve(event.time);
    }
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

  // kNone: the task occupies none.
  DEVICE int32_t resource(int32_t task) const { return batch.resource ? batch.resource[first_task + task] : kNone; }

  // Nothing else happens at this time: tasks begin on resources.
  DEVICE void serve(int64_t time) const {
    state.resources.serve([&](int32_t task, int64_t) {
      batch.start[first_task + task] = time;
      state.control->events.push({time + batch.delay[first_task + task], task});
    });
  }

  DEVICE void process_event(const Event& event, int64_t now) {
    if (event.code >= tasks) {  // a task that occupies a resource is ready
      const auto ready = static_cast<int32_t>(event.code - tasks);
      return state.resources.wait(resource(ready), ready, event.time);
    }
    const auto task = static_cast<int32_t>(event.code);
    if (!state.flow[task].unsent) {
      batch.finish[first_task + task] = event.time;
      if (resource(task) != kNone) state.resources.release(resource(task), event.time);
      end_task(task);
      return;
    }
    Server& server = state.server[batch.source[first_task + task]];
    if (server.queue.head == kNone) server.surplus = now - event.time - epoch_time;  // it has sent since then
    append(server.queue, task, &Flow::next_server, state.flow);
    const int32_t node = state.flow[task].source, place = batch.source[first_task + task] - first_server_of(node);
    bits_of(state.sending, node)[place >> kWordLog] |= bit(place);
    ++state.control->open;
  }

  DEVICE void end_task(int32_t task) {
    Control& control = *state.control;
    const int64_t time = batch.finish[first_task + task];
    --control.left;
    if (batch.cells[first_task + task]) --control.open;
    if (state.receipt[task].cells < batch.cells[first_task + task]) {  // it lost some and never finishes
      batch.finish[first_task + task] = kNever;
      return;
    }
    const int64_t* const row = batch.follower_offsets + first_task + task;
    for (int64_t at = row[0]; at < row[1]; ++at) {
      const int32_t other = batch.followers[at];
      if (state.ready[other] < time) state.ready[other] = time;
      if (--state.pending[other]) continue;
      if (resource(other) != kNone) {
        control.events.push({state.ready[other], int64_t{tasks} + other});
        continue;
      }
      batch.start[first_task + other] = state.ready[other];
      control.events.push({state.ready[other] + batch.delay[first_task + other], other});
    }
  }

  // Servers

  template <class ListOf>
  DEVICE void inject(Server& server, const ListOf& list_of) {
    int64_t cells = 0;
    if (server.surplus < 0) {  // it has sent for a part of the epoch
      server.surplus += epoch_time;
      cells = server.surplus / pace;
      server.surplus -= cells * pace;
    } else {
      server.surplus += epoch_time - epoch_cells * pace;
      cells = epoch_cells + (server.surplus >= pace);
      server.surplus -= server.surplus >= pace ? pace : 0;
    }
    while (cells > 0 && server.queue.head != kNone) {
      const int32_t task = server.queue.head;
      Flow& flow = state.flow[task];
      int64_t sendable = cells < flow.unsent ? cells : flow.unsent;
      if (column_of(flow.source) != flow.target && sendable > credits - server.local) sendable = credits - server.local;
      if (!sendable) return;  // the cable waits: the flow whose turn it is has no credit
      const auto number = static_cast<int32_t>(sendable);
      server.queue.head = flow.next_server;
      flow.unsent -= number;
      cells -= number;
      put(task, flow, number, list_of);
      if (flow.unsent) append(server.queue, task, &Flow::next_server, state.flow);
    }
  }

  // Cells come to LOCAL, or to the server next to it.
  template <class ListOf>
  DEVICE void put(int32_t task, Flow& flow, int32_t number, const ListOf& list_of) {
    if (column_of(flow.source) == flow.target) {
      for (int32_t i = 0; i < number; ++i) deliver({task, flow.number++}, flow.source, epoch * epoch_time);
      return;
    }
    Active* const row = active_of(flow.source);
    if (flow.place == kNone) {
      flow.place = state.node[flow.source].active++;
      row[flow.place] = {task, 0, kNone, static_cast<uint16_t>(flow.target), 0};
      append(list_of(task, flow), task, &Flow::next_local, state.flow);
    }
    row[flow.place].local += number;
    state.server[flow.server].local += number;
  }

  // Slots

  // Runs the slots of an epoch at a node: cells that it sends in each, and cells that arrive to be sent on in a later
  // one.
  DEVICE void forward(int32_t node) {
    Node& this_node = state.node[node];
    int32_t queued = this_node.queued, fullest = queued > this_node.fullest ? queued : this_node.fullest;
    int32_t place = state.place[node], hops = 0;
    for (int32_t slot = 0; slot < slots; ++slot) {
      const int32_t sent = send_from(node, place * groups, slot);
      queued += accept(node, slot * groups) - sent;
      hops += sent;
      fullest = queued > fullest ? queued : fullest;
      if (++place == slots) place = 0;
    }
    this_node.queued = queued;
    this_node.fullest = fullest;
    this_node.hops += hops;
    clear(state.is_incoming, node, column_words);
    clear(state.has_granted, node, column_words);
  }

  // Sends the cells of one slot to the columns from `begin` on. Returns how many.
  DEVICE int32_t send_from(int32_t node, int32_t begin, int32_t slot) {
    const int32_t at = slot * groups + state.group[node];
    int32_t sent = 0;
    for (int32_t first = 0; first < groups; first += kWordBits) {
      const uint64_t granted = bits_from(state.has_granted, node, begin + first, groups - first);
      const uint64_t relayed = bits_from(state.has_relayed, node, begin + first, groups - first) & ~granted;
      for (uint64_t remaining = relayed; remaining; remaining &= remaining - 1) {
        const int32_t column = begin + first + lowest_bit(remaining), target = state.node_at[column];
        const Cell cell = next_relayed(node, column);
        state.incoming[target * columns + at].cell = cell;
        set_bit(state.is_last + target * column_words, at);
        if (batch.through) record(cell, node, slot);
      }
      sent += bits(granted | relayed);
    }
    return sent;
  }

  // Queues the cells that arrive in a slot and are sent on later. Returns how many.
  DEVICE int32_t accept(int32_t node, int32_t begin) {
    int32_t accepted = 0;
    for (int32_t first = 0; first < groups; first += kWordBits) {
      const uint64_t all = bits_from(state.is_incoming, node, begin + first, groups - first);
      for (uint64_t remaining = all; remaining; remaining &= remaining - 1, ++accepted) {
        const Sent& sent = state.incoming[node * columns + begin + first + lowest_bit(remaining)];
        relay(node, sent.to, sent.cell);
      }
    }
    return accepted;
  }

  // Returns `count` bits of a row, at most 64, from the bit `begin` on.
  DEVICE uint64_t bits_from(const uint64_t* rows, int32_t node, int32_t begin, int32_t count) const {
    const uint64_t* const row = rows + node * column_words + (begin >> kWordLog);
    const int32_t shift = begin & (kWordBits - 1);
    const uint64_t row_bits = row[0] >> shift | row[1] << 1 << (kWordBits - 1 - shift);
    return count < kWordBits ? row_bits & (bit(count) - 1) : row_bits;
  }

  DEVICE int64_t log_of(const Cell& cell) const { return batch.cell_offsets[first_task + cell.task] + cell.number; }

  // Delivers the cells that reach the node of their target in an epoch.
  DEVICE void receive(int32_t node) {
    const Sent* const incoming = state.incoming + node * columns;
    for_bits(state.is_last + node * column_words, column_words, [&](int32_t at) {
      Cell cell = incoming[at].cell;
      if (cell.number < 0) {
        --state.queue[node * columns + column_of(node)].reserved;
        cell.number = ~cell.number;
      }
      deliver(cell, node, (int64_t{epoch} * slots + state.place_at[at] + 1) * slot_time);
    });
    clear(state.is_last, node, column_words);
    serve_cables(node);
  }

  // Returns whether the cable of a server must be served before a cell of `task` comes: another task's cells wait, or
  // those of this one no longer do. One condition without branches, which would be hard to predict.
  DEVICE bool must_serve(const Server& server, int32_t task, const Receipt& receipt, int64_t time) const {
    const bool others_wait = (server.cable.head != task) | (server.cable.tail != task);
    return (server.cable.head != kNone) & (others_wait | (server.free + receipt.waiting * pace <= time));
  }

  // The cable of a server brings cells until a time, unless none waits.
  DEVICE void serve(Server& server, int32_t node, int64_t until) {
    while (server.cable.head != kNone && server.free <= until) {
      const int32_t task = server.cable.head;
      Receipt& receipt = state.receipt[task];
      if (server.cable.tail == task) {  // it has all turns
        do {
          --receipt.waiting;
          bring(task, receipt, server, node);
        } while (receipt.waiting && server.free <= until);
        if (!receipt.waiting) server.cable.head = kNone;
        return;
      }
      server.cable.head = receipt.next;
      --receipt.waiting;
      bring(task, receipt, server, node);
      if (receipt.waiting) append(server.cable, task, &Receipt::next, state.receipt);
    }
  }

  DEVICE void bring(int32_t task, const Receipt& receipt, Server& server, int32_t node) {
    server.free += pace;
    state.node[node].received += server.free <= window;
    if (receipt.arrived - receipt.waiting < receipt.cells) return;
    batch.finish[first_task + task] = server.free;
    note_end(task);
  }

  DEVICE void note_end(int32_t task) { state.ended[team.atomic_add(&state.control->ended, 1)] = task; }

  DEVICE void put_in_order(int32_t task, Receipt& receipt, int32_t number) {
    const int32_t ahead = number - receipt.expected;
    if (ahead < kWordBits) {
      receipt.window |= bit(ahead);
    } else {
      state.bits[receipt.bits + number / 32] |= 1u << number % 32;
      ++receipt.far;
    }
    int32_t advanced = pass(receipt);
    while ((advanced != 0) & (receipt.far != 0)) {
      look_farther(receipt, advanced, batch.cells[first_task + task]);
      advanced = pass(receipt);
    }
    const int32_t waiting = receipt.arrived - receipt.expected;
    receipt.latest = waiting > receipt.latest ? waiting : receipt.latest;
  }

  // Moves the window past the cells that have arrived in order. Returns how many they are.
  DEVICE static int32_t pass(Receipt& receipt) {
    const int32_t advanced = ~receipt.window ? lowest_bit(~receipt.window) : kWordBits;
    receipt.window = advanced < kWordBits ? receipt.window >> advanced : 0;
    receipt.expected += advanced;
    return advanced;
  }

  // The window has moved by `advanced` cells: sets the bits of its last cells that have arrived.
  DEVICE void look_farther(Receipt& receipt, int32_t advanced, int32_t cells) {
    for (int32_t ahead = kWordBits - advanced; ahead < kWordBits; ++ahead) {
      const int32_t number = receipt.expected + ahead;
      if (number >= cells) return;
      const bool has_arrived = state.bits[receipt.bits + number / 32] >> number % 32 & 1;
      receipt.window |= uint64_t{has_arrived} << ahead;
      receipt.far -= has_arrived;
    }
  }
};

// For protocols: begin(world) is called once, advance(world) in every epoch. Those of a schedule need nothing before
// the first.
struct Scheduled {
  template <Team T>
  DEVICE static void begin(World<T>&) {}
};

}  // namespace topoflow::BACKEND::slotted

"""The packet model in plain Python where ports lose or mark packets and messages are controlled.

    a packet comes   and waits, is marked if much waits already, or is lost if there is no room for it; what waits are
                     the flits of packets in the queues of the port, and of the one that it sends until that has gone
    a packet leaves  and is marked if much still waits, where marks are made then: the flits of packets in the queues
    a message        has a window of packets in flight; its sender learns of each, after the idle time of a flit back:
                     of one that has arrived, of one that was trimmed when the flit that is left of it has arrived, of
                     one that was dropped after the timeout. It gives up after 1,000 losses for each of its packets
    pulls            of each receiver, one in the time that all of its interfaces together take for a packet, in the
                     order in which they are due

All else is as ``reference`` says. Source: as ``transport``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from tests.twins.packet import ARRIVE, Message, Packet, Simulation
from tests.twins.packet_entropies import Flowlets, Recycled
from tests.twins.packet_hpcc import HpccWindow, Reading
from tests.twins.packet_nscc import TICK, NsccWindow
from tests.twins.packet_swift import SwiftWindow
from topoflow import _C
from topoflow.engine.base import World
from topoflow.engine.packet.draws import entropy, mark
from topoflow.engine.packet.layout import PortLayout
from topoflow.engine.packet.merge import NONE
from topoflow.engine.packet.settings import Numbers, PacketSettings, in_picoseconds
from topoflow.engine.packet.transport import MAX_PACKETS, WHOLE_RATE

WHOLE_ALPHA = 2**30
LONGEST_DELAY = 2**27 - 1  # ticks
Window = NsccWindow | SwiftWindow | HpccWindow


class Rate:
    """DCQCN's reaction point: how fast a message is sent, in 2^-20 of its first link's rate."""

    def __init__(self, settings: PacketSettings, step: int, leap: int) -> None:
        self.settings, self.step, self.leap = settings, step, leap
        self.rate = self.target = WHOLE_RATE
        self.alpha = WHOLE_ALPHA
        self.limited = False
        self.timer = self.alpha_timer = self.bytes = self.by_timer = self.by_bytes = 0
        self.gain = round(settings.dcqcn_gain * 2**16)

    def cut(self, now: int) -> None:
        self.catch_up(now)
        self.target = self.rate
        self.rate = max(self.step, self.rate - (self.rate * self.alpha >> 31))
        self.alpha += (WHOLE_ALPHA - self.alpha) * self.gain >> 16
        self.timer = now + in_picoseconds(self.settings.dcqcn_timer)
        self.alpha_timer = now + in_picoseconds(self.settings.dcqcn_alpha_timer)
        self.bytes = self.by_timer = self.by_bytes = 0
        self.limited = True

    def catch_up(self, now: int) -> None:
        if not self.limited:
            return
        while self.alpha_timer <= now:
            self.alpha -= self.alpha * self.gain >> 16
            self.alpha_timer += in_picoseconds(self.settings.dcqcn_alpha_timer)
        while self.timer <= now:
            self.by_timer += 1
            self.rise()
            self.timer += in_picoseconds(self.settings.dcqcn_timer)

    def sent(self, size: int) -> None:
        if not self.limited:
            return
        self.bytes += size
        while self.bytes >= self.settings.dcqcn_bytes:
            self.bytes -= self.settings.dcqcn_bytes
            self.by_bytes += 1
            self.rise()

    def rise(self) -> None:
        """Fast recovery to the target, additive increase, hyper increase."""
        if max(self.by_timer, self.by_bytes) >= self.settings.dcqcn_recoveries:
            fast = min(self.by_timer, self.by_bytes) > self.settings.dcqcn_recoveries
            self.target = min(WHOLE_RATE, self.target + (self.leap if fast else self.step))
        self.rate = (self.rate + self.target + 1) // 2

    def gap(self, taken: int) -> int:
        return taken * WHOLE_RATE // self.rate if self.rate < WHOLE_RATE else 0


@dataclass
class Flow:
    """A message on its way."""

    message: Message
    rate: Rate
    window: Window | None
    allowed: int  # packets that it may still send
    packets: int
    earliest: int = 0  # ps
    last_sent: int = 0  # ps
    again: int = 0  # packets to be sent again that are of the full size
    last: int = 0  # and that are not
    resent: int = 0
    pulled: int = 0
    quiet: int = 0  # ps, until when the receiver says nothing of marks
    waits: bool = False  # for its turn
    chosen: Recycled | Flowlets | None = None  # entropies


class Counts:
    """Packets and their bytes, by task."""

    def __init__(self, tasks: int) -> None:
        self.packets, self.bytes = [0] * tasks, [0] * tasks

    def add(self, packet: Packet) -> None:
        self.packets[packet.task] += 1
        self.bytes[packet.task] += packet.bytes


@dataclass
class News:
    """The news of one packet that reaches its message."""

    lost: bool
    is_short: bool
    marked: bool
    delay: int = 0  # ticks from when it left its NIC until it arrived
    entropy: int = 0


class TransportSimulation(Simulation):
    """One world; ``run`` once."""

    def __init__(self, world: World, layout: PortLayout, numbers: Numbers, settings: PacketSettings) -> None:
        super().__init__(world, layout, numbers, settings)
        self.flows: dict[int, Flow] = {}
        self.sending = [0] * layout.ports  # flits
        self.pulls = [0] * layout.ports  # ps, when the receiver with this first port lets the next packet be sent
        # (packets, B) of each task that left its NIC, and that arrived, and that were lost
        self.sent, self.delivered, self.dropped = (Counts(len(self.path)) for _ in range(3))
        recycles = settings.draws == "reps"
        self.longest = (LONGEST_DELAY + 1) // (settings.numbers_drawn if recycles else 1) - 1  # ticks
        self.has_mark: set[tuple[int, int]] = set()  # task and number of packets

    def columns(self) -> range:
        return range(self.layout.ports) if self.settings.loses else super().columns()

    # NICs

    def inject(self, task: int, time: int) -> None:
        root = int(self.layout.path_roots[self.path[task]])
        control, port = self.numbers.control, int(self.layout.root_port[root])
        packets = -(-int(self.numbers.bytes[task]) // self.settings.size)
        self.underway[task] = int(self.numbers.bytes[task])
        message = Message(task, root, list(reversed(range(packets))))
        rate = Rate(self.settings, int(control.step[port]), int(control.leap[port]))
        chosen = {"reps": Recycled, "flowlet": partial(Flowlets, in_picoseconds(self.settings.flowlet_gap))}
        self.flows[task] = Flow(message, rate, self.window_of(task), int(control.allowed[task]), packets, waits=True)
        if self.settings.draws in chosen:
            self.flows[task].chosen = chosen[self.settings.draws]()
        self.at(time, partial(self.offer, message), task)

    def window_of(self, task: int) -> Window | None:
        control, size, loss = self.numbers.control, self.settings.size, self.settings.loss
        idle, target, unit = (int(array[task]) for array in (control.idle, control.target, control.unit))
        if self.settings.control == "nscc":
            return NsccWindow(idle, target, size, int(control.largest[task]), unit, loss == "trim")
        if self.settings.control == "swift":
            scaling = int(self.settings.transport["scaling"])
            return SwiftWindow(idle, target, scaling, size, int(control.largest[task]), loss == "drop")
        if self.settings.control == "hpcc":
            transport = self.settings.transport
            aims = (int(transport[name]) for name in ("utilization", "increase", "stages"))
            return HpccWindow(idle, size, int(control.largest[task]), *aims)
        return None

    def next_packet(self, port: int, now: int) -> Packet | None:
        if not self.ports[port].messages:
            return None
        message = self.ports[port].messages[0]
        flow, full = self.flows[message.task], self.settings.size
        total = int(self.numbers.bytes[message.task])
        if flow.again or flow.last:
            number, size = flow.packets + flow.resent, full if flow.again else total % full
        else:
            number = message.unsent[-1]
            size = min(total - number * full, full)
        step = int(self.layout.root_channel[message.root]), int(self.layout.root_next[message.root])
        return Packet(message.task, number, -(-size // self.settings.flit), size, now, port, *step)

    def leave_nic(self, port: int, packet: Packet, now: int) -> None:
        message = self.ports[port].messages.popleft()
        flow = self.flows[packet.task]
        packet.number = self.with_entropy(packet, flow, now)
        if flow.again or flow.last:
            flow.again, flow.last = (flow.again - 1, flow.last) if flow.again else (0, flow.last - 1)
            flow.resent += 1
            if flow.resent > _C.MOST_LOSSES * flow.packets:
                raise RuntimeError(f"task {packet.task}: its packets are lost for ever")
        else:
            message.unsent.pop()
        flow.allowed -= 1
        self.sent.add(packet)
        gap = 0
        if self.settings.control == "dcqcn":
            size = packet.flits * self.settings.flit
            flow.rate.catch_up(now)
            flow.rate.sent(size)
            gap = flow.rate.gap(self.numbers.time(port, size))
        if flow.window is not None:
            gap = flow.window.sent(packet.flits * self.settings.flit)
        flow.last_sent = now
        flow.earliest = now + max(gap, int(self.numbers.pace[packet.task]))
        flow.waits = self.may_send(flow)
        if not flow.waits:
            return
        if flow.earliest > now:
            self.at(flow.earliest, partial(self.offer, message), message.task)
            return
        self.wait(port, message, now)

    def with_entropy(self, packet: Packet, flow: Flow, now: int) -> int:
        """Return the number of a packet; it ends with the entropy that its sender chooses."""
        if flow.chosen is None:
            return packet.number
        if isinstance(flow.chosen, Flowlets):
            chosen = flow.chosen.next(now)
        else:
            chosen = flow.chosen.next(entropy(self.seed, packet.task, packet.number) % self.settings.numbers_drawn)
        entropies = self.settings.numbers_drawn
        return (packet.number * entropies + chosen % entropies) % MAX_PACKETS

    def may_send(self, flow: Flow) -> bool:
        return flow.allowed > 0 and bool(flow.again or flow.last or flow.message.unsent)

    # Ports

    def has_room(self, packet: Packet) -> bool:
        return self.settings.loses or super().has_room(packet)

    def take(self, channel: int, flits: int, now: int) -> None:
        if not self.settings.loses:
            super().take(channel, flits, now)

    def give_back(self, channel: int, flits: int, time: int) -> None:
        if not self.settings.loses:
            super().give_back(channel, flits, time)

    def try_to_send(self, port: int, now: int) -> None:
        super().try_to_send(port, now)
        if self.settings.loses:
            self.depths[port][now] = self.depth(port, now)

    def depth(self, port: int, now: int) -> int:
        """Flits that wait for a port, and those of the packet that it sends, until that has gone."""
        waits = sum(queued.flits for queue in self.sent_from[port] for queued in self.queues[queue])
        return waits + (self.sending[port] if now < self.ports[port].free else 0)

    def send(self, port: int, turn: int, packet: Packet, now: int) -> None:
        if turn and self.settings.ecn_at == "departure":
            waits = sum(queued.flits for queue in self.sent_from[port] for queued in self.queues[queue])
            self.mark(packet, waits - packet.flits)
        if turn and self.settings.control == "hpcc":
            self.measure(port, packet, now)
        self.sending[port] = packet.flits if turn else 0
        super().send(port, turn, packet, now)

    def measure(self, port: int, packet: Packet, now: int) -> None:
        """Add what a port says of itself to a packet that leaves it."""
        waits = sum(queued.flits for queue in self.sent_from[port] for queued in self.queues[queue]) - packet.flits
        wait = self.numbers.time(port, waits * self.settings.flit)
        window = self.flows[packet.task].window
        assert isinstance(window, HpccWindow)
        window.readings[packet.number - window.acked].append(Reading(now, self.ports[port].active, wait))

    def pass_on(self, packet: Packet, port: int, now: int, taken: int) -> None:
        """Pass a packet on as without a transport; packets of the same time arrive in the order of the queues."""
        queue = self.route(packet)
        arrival = now + int(self.numbers.latency[port]) + in_picoseconds(self.settings.switch_latency)
        arrival += self.head_time(packet, port, taken)
        self.at(arrival, lambda time: self.arrive(packet, queue, time), queue, ARRIVE)

    def arrive(self, packet: Packet, queue: int, time: int) -> None:
        port = packet.port
        waits = self.depth(port, time)
        if self.settings.loses and waits + packet.flits > self.numbers.control.depth[port]:
            self.lost[port] += 1
            self.dropped.add(packet)
            self.lose(packet, time)
            return
        if self.settings.ecn_at == "arrival":
            self.mark(packet, waits)
        self.most[port] = max(self.most[port], waits + packet.flits)
        super().arrive(packet, queue, time)
        if self.settings.loses:
            self.depths[port][time] = waits + packet.flits

    def mark(self, packet: Packet, waits: int) -> None:
        """``waits``: flits, besides the packet."""
        if self.is_marked(packet, waits * self.settings.flit):
            self.has_mark.add((packet.task, packet.number))
            self.marked[packet.port] += 1

    def is_marked(self, packet: Packet, waits: int) -> bool:
        low, high = self.settings.ecn_from, self.settings.ecn_to
        if low is None or (packet.task, packet.number) in self.has_mark or waits <= low:
            return False
        if waits >= high:
            return True
        limit = round(self.settings.ecn_most * 2**32) * (waits - low) // (high - low)
        port = int(self.layout.first_seen[packet.port])
        return mark(self.seed, packet.task, packet.number, port) < limit

    def lose(self, packet: Packet, now: int) -> None:
        news = News(True, self.is_last(packet), False)
        if self.settings.loss == "trim":
            self.tell(packet.task, news, now + self.rest(packet))
            return
        known = packet.born + in_picoseconds(self.settings.timeout)
        least = now + self.numbers.time(packet.port, self.settings.flit) + int(self.numbers.latency[packet.port])
        self.at(max(known, least), partial(self.hear_at_sender, packet.task, news), self.rank(packet.task, news))

    def is_last(self, packet: Packet) -> bool:
        return packet.bytes < self.settings.size

    def rest(self, packet: Packet) -> int:
        """ps until a flit that leaves the port at once is with the receiver."""
        port, channel, step, total = packet.port, packet.channel, packet.next, 0
        while True:
            total += self.numbers.time(port, self.settings.flit) + int(self.numbers.latency[port])
            if channel == NONE:
                return total
            ahead = Packet(packet.task, packet.number, 1, 1, 0, port, channel, step)
            self.route(ahead)
            port, channel, step = ahead.port, ahead.channel, ahead.next
            total += in_picoseconds(self.settings.switch_latency)

    # What messages hear

    def deliver(self, packet: Packet, time: int) -> None:
        super().deliver(packet, time)
        self.delivered.add(packet)
        delay = min((time - packet.born) // TICK, self.longest)
        marked = (packet.task, packet.number) in self.has_mark
        chosen = packet.number % self.settings.numbers_drawn if self.settings.draws == "reps" else 0
        self.tell(packet.task, News(False, self.is_last(packet), marked, delay, chosen), time)

    def tell(self, task: int, news: News, time: int) -> None:
        """At one time by task, then by what it is; all else of that time may come before or after it."""
        self.at(time, partial(self.hear, task, news), self.rank(task, news))

    def rank(self, task: int, news: News) -> float:
        """Return the order among all that happens to tasks at one time: by task, then by what it hears."""
        what = 2 * news.lost + 4 * news.is_short + 8 * news.marked
        return task + (what * (LONGEST_DELAY + 1) + news.entropy * (self.longest + 1) + news.delay) / 2**31

    def hear(self, task: int, news: News, now: int) -> None:
        """At the receiver."""
        flow, control, sent = self.flows[task], self.numbers.control, now
        marked = news.marked and now >= flow.quiet
        if marked and self.settings.control == "dcqcn":
            flow.quiet = now + in_picoseconds(self.settings.dcqcn_notice)
        if self.settings.control == "pulls":
            if not news.lost:
                if flow.pulled == flow.packets - int(control.allowed[task]):
                    return
                flow.pulled += 1
            port = int(control.puller[task])
            sent = max(now, self.pulls[port])
            self.pulls[port] = sent + int(control.pull[task])
        news = replace(news, marked=marked)
        self.at(sent + int(control.back[task]), partial(self.hear_at_sender, task, news), self.rank(task, news))

    def hear_at_sender(self, task: int, news: News, now: int) -> None:
        flow = self.flows[task]
        flow.allowed += 1
        if news.lost and news.is_short:
            flow.last += 1
        elif news.lost:
            flow.again += 1
        if isinstance(flow.chosen, Recycled) and not news.lost:
            flow.chosen.on_ack(news.entropy, news.marked, now)
        elif isinstance(flow.chosen, Recycled) and self.settings.loss == "drop":
            flow.chosen.on_timeout(now)
        if news.marked and self.settings.control == "dcqcn":
            flow.rate.cut(now)
        if flow.window is not None:
            total = int(self.numbers.bytes[task])
            size = total % self.settings.size if news.is_short else self.settings.size
            if news.lost:
                flow.window.on_loss(size, now)
            else:
                round_trip = news.delay * TICK + int(self.numbers.control.back[task])
                flow.window.on_ack(size, round_trip, news.marked, now)
            flow.allowed = flow.window.packets - flow.window.under_way
        if isinstance(flow.window, SwiftWindow) and not flow.window.is_paced:
            flow.earliest = min(flow.earliest, flow.last_sent + int(self.numbers.pace[task]))
        if not flow.waits and self.may_send(flow):
            flow.waits = True
            self.at(max(now, flow.earliest), partial(self.offer, flow.message), task)

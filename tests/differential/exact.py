"""The classical coflow policies in exact arithmetic: slow, short, and nothing of netsim in it.

Written from the specification of the policies alone. Times, bytes and rates are fractions, so that
nothing depends on rounding, and ties are ties.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby

INF = float("inf")


@dataclass(eq=False)
class Flow:
    """A flow; it crosses `links`."""

    size: Fraction
    links: tuple
    left: Fraction = Fraction(0)
    rate: Fraction = Fraction(0)


@dataclass(eq=False)
class Coflow:
    """A coflow of a job, the `place`-th of its chain; `parent` must have finished before it."""

    id: int
    job: int
    place: int
    arrival: Fraction
    flows: list
    parent: Coflow | None = None
    released: Fraction | None = None
    finish: Fraction | None = None
    queue: int = 0
    entry: tuple = field(default=(0, 0))

    @property
    def open(self):
        return [flow for flow in self.flows if flow.left > 0]

    @property
    def total(self):
        return sum(flow.size for flow in self.flows)

    @property
    def sent(self):
        return self.total - sum(flow.left for flow in self.flows)

    @property
    def speed(self):
        return sum(flow.rate for flow in self.open)


def loads(flows, value):
    """Sum a value per flow over the links that the flows cross."""
    found = {}
    for flow in flows:
        for link in flow.links:
            found[link] = found.get(link, 0) + value(flow)
    return found


def gamma(flows, capacity, value=lambda flow: flow.left):
    return max(load / capacity[link] for link, load in loads(flows, value).items())


# --- allocation primitives; `left` is the residual of each link --------------------------------


def take(flow, rate, left):
    flow.rate += rate
    for link in flow.links:
        left[link] -= rate


def maxmin(flows, left):
    """Progressive filling of `flows` on what is left, on top of the rates that they have."""
    growing = [flow for flow in flows if all(left[link] > 0 for link in flow.links)]
    while growing:
        count = loads(growing, lambda flow: 1)
        step = min(left[link] / n for link, n in count.items())
        for flow in growing:
            take(flow, step, left)
        growing = [flow for flow in growing if all(left[link] > 0 for link in flow.links)]


def greedy(flows, left):
    for flow in flows:
        take(flow, min(left[link] for link in flow.links), left)


def split(flows, left):
    """CoflowSim's: each link with room splits it equally, once, among the flows that can move."""
    flows = [flow for flow in flows if all(left[link] > 0 for link in flow.links)]
    count = loads(flows, lambda flow: 1)
    parts = [min(left[link] / count[link] for link in flow.links) for flow in flows]
    for flow, part in zip(flows, parts, strict=True):
        take(flow, part, left)


def madd(coflow, left):
    load = loads(coflow.open, lambda flow: flow.left)
    if any(left[link] == 0 for link in load):
        return
    longest = max(nbytes / left[link] for link, nbytes in load.items())
    for flow in coflow.open:
        take(flow, flow.left / longest, left)


# --- policies ----------------------------------------------------------------------------------


class Policy:
    """Rates by an order; `decisions` is "flow" or "coflow"."""

    def __init__(self, decisions="flow", rest="maxmin", key=None):
        self.decisions, self.rest, self.key = decisions, rest, key
        self.order = []

    def keys(self, coflow, capacity):
        raise NotImplementedError

    def reorder(self, active, capacity, now):
        """Order coflows, which stand by (release, job, place), at a coflow event."""
        self.order = sorted(active, key=lambda coflow: self.keys(coflow, capacity))

    def give(self, active, capacity, now):
        left = dict(capacity)
        for coflow in self.order:
            madd(coflow, left)
        for coflow in self.order:
            if self.rest == "maxmin":
                maxmin(coflow.open, left)
            elif self.rest == "greedy":
                greedy(coflow.open, left)
        if self.rest == "coflowsim":
            split([flow for coflow in active if not coflow.speed for flow in coflow.open], left)
            greedy([flow for coflow in active for flow in coflow.open], left)

    def wake(self, active, now):
        return INF

    def due(self, active, now):
        """Whether rates are decided now, though no flow and no coflow has come or ended."""
        return False


class FIFO(Policy):
    def keys(self, coflow, capacity):
        return 0


class SCF(Policy):
    def keys(self, coflow, capacity):
        return max(flow.left if self.key == "remaining" else flow.size for flow in coflow.flows)


class LCF(Policy):
    def keys(self, coflow, capacity):
        return coflow.total - coflow.sent if self.key == "remaining" else coflow.total


class NCF(Policy):
    def keys(self, coflow, capacity):
        return len(coflow.open if self.key == "remaining" else coflow.flows)


class SEBF(Policy):
    def keys(self, coflow, capacity):
        if self.key == "original":
            return gamma(coflow.flows, capacity, lambda flow: flow.size)
        return gamma(coflow.flows, capacity)


class Fair(Policy):
    def reorder(self, active, capacity, now):
        pass

    def give(self, active, capacity, now):
        maxmin([flow for coflow in active for flow in coflow.open], dict(capacity))


class SRTF(Fair):
    def give(self, active, capacity, now):
        flows = [flow for coflow in active for flow in coflow.open]
        greedy(sorted(flows, key=lambda flow: flow.left), dict(capacity))


class Sincronia(Policy):
    """BSSI; links by index, egress before ingress; equals: the latest goes last."""

    def reorder(self, active, capacity, now):
        weight = {coflow: Fraction(1) for coflow in active}
        load = {coflow: {link: nbytes / capacity[link] for link, nbytes in
                         loads(coflow.open, lambda flow: flow.left).items()} for coflow in active}
        rest, order = list(active), []
        while rest:
            sums = {link: sum(load[coflow].get(link, 0) for coflow in rest) for link in capacity}
            b = min(capacity, key=lambda link: (-sums[link], link))
            on = [coflow for coflow in rest if load[coflow].get(b, 0) > 0]
            last = min(reversed(on), key=lambda coflow: weight[coflow] / load[coflow][b])
            theta = weight[last] / load[last][b]
            for coflow in rest:
                weight[coflow] -= theta * load[coflow].get(b, 0)
            rest.remove(last)
            order.insert(0, last)
        self.order = order

    def give(self, active, capacity, now):
        left = dict(capacity)
        for coflow in self.order:
            greedy(coflow.open, left)


class DCLAS(Policy):
    """Aalo; `observe` is 0, an interval or "coflow"; `weights` "linear" or "strict"."""

    def __init__(self, decisions="flow", thresholds=(), weights="linear", fifo="id", observe=0):
        super().__init__(decisions)
        self.thresholds, self.weights, self.fifo = thresholds, weights, fifo
        self.observe = observe
        self.moves = 0

    def passed(self, coflow):
        return sum(coflow.sent >= threshold for threshold in self.thresholds)

    def on_grid(self, now):
        return self.observe == 0 or (now / self.observe).denominator == 1

    def reorder(self, active, capacity, now):
        """Move coflows at a coflow event; other moves are in `due`."""
        if self.observe == "coflow" or self.on_grid(now):
            self.move(active)

    def move(self, active):
        """Move coflows down; those that enter at once do so by (old queue, old position)."""
        moved = False
        for coflow in sorted(active, key=lambda each: (each.queue, each.entry)):
            if (queue := self.passed(coflow)) > coflow.queue:
                self.moves += 1
                coflow.queue, coflow.entry, moved = queue, (1, self.moves), True
        return moved

    def enter(self, coflow):
        self.moves += 1
        coflow.entry = (1, self.moves)

    def due(self, active, now):
        return self.observe != "coflow" and self.on_grid(now) and self.move(active)

    def give(self, active, capacity, now):
        def place(coflow):
            return coflow.entry if self.fifo == "entry" else (coflow.job, coflow.place)
        line = sorted(active, key=lambda coflow: (coflow.queue, place(coflow)))
        queues = [list(each) for _, each in groupby(line, key=lambda coflow: coflow.queue)]
        pool = {link: 0 for link in capacity}
        if self.weights == "strict":
            pool = dict(capacity)
        else:
            weight = [len(self.thresholds) + 1 - queue[0].queue for queue in queues]
            for queue, own in zip(queues, weight, strict=True):
                part = {link: c * own / sum(weight) for link, c in capacity.items()}
                for coflow in queue:
                    maxmin(coflow.open, part)
                for link in pool:
                    pool[link] += part[link]
        for coflow in line:
            maxmin(coflow.open, pool)

    def wake(self, active, now):
        """The next instant at which a coflow crosses a threshold, or at which that is seen."""
        if self.observe == "coflow":
            return INF
        soonest = INF
        for coflow in active:
            if self.passed(coflow) > coflow.queue:
                soonest = min(soonest, now)
            ahead = [threshold - coflow.sent for threshold in self.thresholds
                     if threshold > coflow.sent]
            if ahead and coflow.speed > 0:
                soonest = min(soonest, now + ahead[0] / coflow.speed)
        if self.observe and soonest < INF:
            steps = soonest / self.observe
            soonest = -(-steps.numerator // steps.denominator) * self.observe
            if soonest == now:  # seen now already
                soonest += self.observe
        return soonest


# --- the clock ---------------------------------------------------------------------------------


def simulate(coflows, capacity, policy):
    """Run until all is done; sets the `finish` of each coflow."""
    now = Fraction(0)
    for coflow in coflows:
        for flow in coflow.flows:
            flow.left = flow.size
    active = []
    while any(coflow.finish is None for coflow in coflows):
        ended = event = False
        while True:
            done = [coflow for coflow in active if not coflow.open]
            for coflow in done:
                coflow.finish = now
                active.remove(coflow)
            come = [coflow for coflow in coflows if coflow.released is None
                    and coflow.arrival <= now
                    and (coflow.parent is None or coflow.parent.finish is not None)]
            for coflow in come:
                coflow.released = now
                active.append(coflow)
            event |= bool(done or come)
            if not done and not come:
                break
        active.sort(key=lambda coflow: (coflow.released, coflow.job, coflow.place))
        ended = any(flow.rate > 0 and flow.left == 0 for coflow in active for flow in coflow.flows)
        for coflow in active:
            if coflow.released == now and isinstance(policy, DCLAS) and coflow.entry == (0, 0):
                policy.enter(coflow)
        if event:
            policy.reorder(active, capacity, now)
        due = policy.due(active, now)
        if event or due or (ended and policy.decisions == "flow"):
            for coflow in active:
                for flow in coflow.flows:
                    flow.rate = Fraction(0)
            policy.give(active, capacity, now)
        ends = [now + flow.left / flow.rate for coflow in active for flow in coflow.open
                if flow.rate > 0]
        arrivals = [coflow.arrival for coflow in coflows if coflow.released is None
                    and coflow.arrival > now]
        then = min([*ends, *arrivals, policy.wake(active, now)])
        for coflow in active:
            for flow in coflow.open:
                flow.left -= flow.rate * (then - now)
        now = then

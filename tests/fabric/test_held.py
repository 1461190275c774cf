"""Runs that are held, looked at, followed or copied have the same bytes as one that is not."""

import copy
import itertools

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.allocators import make_allocator
from netsim.allocators.registry import ALLOCATORS
from netsim.fabric.fabric_process import FabricProcess
from netsim.fabric.routed_coflow import RoutedCoflow
from tests.examples import examples

HOSTS = 5
NET = netsim.big_switch(HOSTS, 1e6)
POLICIES = sorted({*ALLOCATORS.names, *ALLOCATORS.presets} - {"reserved"})
INTERVALS = st.sampled_from([0.0, 0.0, 0.3])


def demand(rng, network=NET):
    count = int(rng.integers(1, 6))
    src, dst = rng.integers(0, HOSTS, count), rng.integers(0, HOSTS - 1, count)
    return RoutedCoflow.of(netsim.Flows(src, dst + (dst >= src), rng.uniform(1e5, 1e6, count)),
                           network)


class Sender:
    """A job of coflows one after the other, without closures and generators."""

    def __init__(self, env, fabric, job, demands, pauses, log):
        self.env, self.fabric, self.job, self.log = env, fabric, job, log
        self.demands, self.pauses, self.sent = demands, pauses, 0
        env.timeout(pauses[0]).callbacks.append(self.send)

    def send(self, _):
        self.fabric.submit(self.job, self.demands[self.sent], self.sent, self.done)
        self.sent += 1

    def done(self, coflow):
        self.log.append((self.job, coflow.valid_s, coflow.start_s, coflow.finish_s))
        if self.sent < len(self.demands):
            self.env.timeout(self.pauses[self.sent]).callbacks.append(self.send)


class Run:
    """Senders and chains on a fabric; a link fails and is repaired."""

    def __init__(self, allocator, seed, interval):
        rng = np.random.default_rng(seed)
        self.env = simpy.Environment()
        self.log, self.chains, self.notified = [], [], []
        arrivals = np.sort(rng.uniform(0, 2, 6))
        self.fabric = FabricProcess(self.env, NET, make_allocator(allocator), arrivals,
                                    observe_interval=interval, completed=self.completed)
        self.fabric.notify = self.notify
        for job, at in enumerate(arrivals.tolist()):
            demands = [demand(rng) for _ in range(3)]
            pauses = rng.choice([0.0, 0.15, 0.4], 3)
            pauses[0] = at
            if job % 2 and not self.fabric.allocator.sees_running:
                self.fabric.run_graph(job, demands, pauses, 1)
            else:
                Sender(self.env, self.fabric, job, demands, pauses, self.log)
        for at, capacity in ((1.3, 2e5), (2.1, 1e6)):
            self.env.timeout(at, capacity).callbacks.append(self.change)

    def change(self, event):
        self.fabric.set_capacities({2: event.value})

    def completed(self, rows, _):
        self.chains += [tuple(row) for row in rows[["job", "valid", "start", "last"]].tolist()]

    def notify(self):
        self.notified.append((self.env.now, self.fabric.ahead))

    def times(self):
        return sorted(self.log), sorted(self.chains)

    def fork(self):
        # Counts cannot be copied by every Python.
        eid = next(self.env._eid)
        self.env._eid = itertools.count(eid)
        memo = {id(self.env._eid): itertools.count(eid), id(NET): NET,
                id(simpy.events.PENDING): simpy.events.PENDING}
        return copy.deepcopy(self, memo)


SEEDS = st.integers(0, 1000)
INSTANTS = st.lists(st.floats(0.01, 8), min_size=1, max_size=12)
each_policy = pytest.mark.parametrize("allocator", POLICIES)
some = settings(deadline=None, max_examples=examples(7, fewest=2), derandomize=True)


@each_policy
@some
@given(SEEDS, INTERVALS, INSTANTS)
def test_events_of_others_change_nothing(allocator, seed, interval, instants):
    alone, other = Run(allocator, seed, interval), Run(allocator, seed, interval)
    for at in instants:
        other.env.timeout(at)
    alone.env.run()
    other.env.run()
    assert alone.times() == other.times()
    assert alone.fabric.decisions == other.fabric.decisions


@each_policy
@some
@given(SEEDS, INTERVALS, INSTANTS)
def test_to_look_changes_nothing(allocator, seed, interval, instants):
    alone, other = Run(allocator, seed, interval), Run(allocator, seed, interval)
    alone.env.run()
    for at in sorted(set(instants)):
        other.env.run(until=at)
        table, _ = other.fabric.look()
        assert np.all(table.bytes_left() >= -1e-3)
    other.env.run()
    assert alone.times() == other.times()


@each_policy
@some
@given(SEEDS, INTERVALS, st.floats(0.01, 8))
def test_a_copy_has_the_same_future(allocator, seed, interval, at):
    alone, held = Run(allocator, seed, interval), Run(allocator, seed, interval)
    alone.env.run()
    held.env.run(until=at)
    fork = held.fork()
    fork.env.run()
    assert fork.times() == alone.times()
    held.env.run()
    assert held.times() == alone.times()


@each_policy
@some
@given(SEEDS, INTERVALS, st.floats(0, 4))
def test_step_by_step(allocator, seed, interval, switched_at):
    alone, other = Run(allocator, seed, interval), Run(allocator, seed, interval)
    alone.env.run()
    if switched_at > 1:
        other.env.run(until=switched_at)
    other.fabric.stepwise = True
    other.env.run()
    assert alone.times() == other.times()
    assert alone.fabric.decisions == other.fabric.decisions
    # No event is reported before its time, and each later end of a coflow when it is noticed.
    assert all(now == ahead for now, ahead in other.notified)
    notified = {now for now, _ in other.notified}
    if not interval and switched_at <= 1:
        ends = [each[3] for each in other.log + other.chains]
        assert all(any(abs(end - now) < 1e-6 for now in notified) for end in ends)

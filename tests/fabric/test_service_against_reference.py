"""Whole runs of compiled service in order against the readable one on the slow simulator.

Jobs are chains with pauses. Links fail and degrade, and coflows go behind others as they send.
"""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim.fabric.allocation import PriorityService
from netsim.testing import networks, workloads
from tests.examples import examples
from tests.fabric.test_against_reference import HOSTS, LINE, chains, changes
from tests.twins import kernels as reference
from tests.twins.fabric import finish_times
from tests.twins.service import serve


class Rule:
    """Coflows that have sent less than a limit go before others, then those of some jobs.

    Parameters
    ----------
    limits : sequence of float
        In bytes. There is a queue for what is below each, and one for the rest.
    turn : sequence of int
        By which jobs go, from coflow to coflow another number; equals by job.
    by_size : bool
        See `PriorityService`; there are no limits then.
    """

    def __init__(self, primary, backfill, limits=(), turn=(0,), by_size=False):
        self.primary, self.backfill, self.by_size = primary, backfill, by_size
        self.limits, self.turn = np.array([*limits, np.inf]), np.array(turn)

    def queue(self, sent):
        return np.searchsorted(self.limits * (1 - 1e-9), sent, side="right")

    def service(self, sent, job, completed):
        """The options of the service that is asked for; ``order`` has positions in the arrays."""
        queue = self.queue(sent)
        by = self.turn[(job + 2 * completed) % len(self.turn)]
        options = {"order": np.lexsort((job, by, queue)), "primary": self.primary,
                   "backfill": self.backfill, "by_size": self.by_size}
        if self.primary == "queues":
            parts = np.arange(len(self.limits), 0.0, -1.0)
            options |= {"queue": queue, "queue_shares": parts / parts.sum()}
        return options


class Served(netsim.Allocator):
    """Leaves the service to the fabric."""

    wakes_on = netsim.Event.COFLOW

    def __init__(self, rule):
        self.rule = rule

    def allocate(self, view):
        options = self.rule.service(view.sent, view.job, view.job_completed)
        if not self.rule.by_size:
            options["limit"] = self.rule.limits[self.rule.queue(view.sent)]
        return netsim.Allocation(service=PriorityService(**options))


class ServedSlowly:
    """The policy of the slow simulator, which asks it at each end of a flow."""

    def __init__(self, rule, jobs):
        self.rule, self.number = rule, {job: number for number, job in enumerate(jobs)}

    def sent(self, active):
        return np.array([sum(size for _, size in job.flows) - sum(job.left) for job in active])

    def rates(self, active, problem):
        return serve(problem, **self.rule.service(
            self.sent(active), np.array([self.number[job] for job in active]),
            np.array([job.completed for job in active])))

    def crossing_in(self, active, problem, rates):
        sent = self.sent(active)
        limit = self.rule.limits[self.rule.queue(sent)]
        return reference.crossing_in(problem, rates, limit - sent, 1e-9 * limit).min()


SERVICES = [("madd", "none"), ("madd", "maxmin"), ("madd", "greedy"), ("queues", "none"),
            ("queues", "maxmin"), ("queues", "greedy"), ("none", "maxmin"), ("none", "greedy"),
            ("none", "by size")]


@pytest.mark.parametrize("service", SERVICES, ids="-".join)
@settings(deadline=None, max_examples=examples(80), derandomize=True)
@given(data=st.data(), workload=workloads(HOSTS, chains=True),
       network=st.one_of(networks(min_hosts=HOSTS, max_hosts=HOSTS), st.just(LINE)),
       limits=st.lists(st.integers(1, 30), max_size=3, unique=True),
       turn=st.lists(st.integers(0, 3), min_size=1, max_size=4),
       interval=st.sampled_from([0.0, 0.0, 0.3]))
def test_finish_times(service, data, network, workload, limits, turn, interval):
    primary, backfill = service
    by_size = backfill == "by size"
    rule = Rule(primary, "greedy" if by_size else backfill,
                [] if by_size else sorted(50_000.0 * limit for limit in limits), turn, by_size)
    ahead = data.draw(changes(network))
    found = netsim.simulate(
        network, workload, allocator=Served(rule), observe_interval=interval,
        events=[dict(zip(("at", "link", "capacity"), each, strict=True)) for each in ahead])
    jobs = list(chains(workload, network))
    slow = ServedSlowly(rule, jobs)
    expected = finish_times(jobs, network.capacity, slow.rates, interval, True,
                            again=slow.crossing_in, changes=ahead)
    np.testing.assert_allclose(found.jobs["finish_s"], expected, rtol=1e-9, atol=1e-12)

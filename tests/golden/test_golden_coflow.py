"""Every worked case of the classical coflow policies: times, first orders and rates, moves."""

import json

import numpy as np
import pytest

import netsim
from netsim.allocators import make_allocator
from netsim.allocators.ordered import Ordered
from netsim.ties import rank

RTOL = 1e-9


def options_of(result):
    """The allocator that a result names; D-CLAS options have names of their own there."""
    named = {"name": result["policy"]}
    for key in ("work_conservation", "decisions", "key", "reorder", "fifo", "weights", "queues",
                "factor"):
        if key in result:
            named[key] = result[key]
    if "first_threshold_bytes" in result:
        named["first_threshold"] = result["first_threshold_bytes"]
    if "observe_interval_s" in result:
        named["observe"] = result["observe_interval_s"]
    return named


class Spy(netsim.Allocator):
    """Asks another allocator, and keeps what it said first and which queues it used when."""

    def __init__(self, options):
        self.inner = make_allocator(options)
        self.information, self.wakes_on = self.inner.information, self.inner.wakes_on
        self.first = None
        self.queues, self.moves = {}, []

    def __deepcopy__(self, memo):
        return self

    def order(self, view, allocation):
        """The coflows in the order in which they are served, if there is one."""
        if allocation.service is not None:
            return allocation.service.order
        if isinstance(self.inner, Ordered):  # what decides at coflow events only gives rates
            return rank(self.inner.keys(view))
        return None

    def allocate(self, view):
        allocation = self.inner.allocate(view)
        if self.first is None:
            self.first = (view.coflow.copy(), view.rates(allocation), self.order(view, allocation))
        for coflow, queue in getattr(self.inner, "queue_of", {}).items():
            if queue != self.queues.get(coflow, 0):
                self.moves.append((view.now, int(view.job[view.id == coflow][0]), queue + 1))
            self.queues[coflow] = queue
        return allocation


def released_first(case):
    """The ids of the coflows that have bytes and are released first, in (arrival, id) order.

    Coflows that start after others are not; a coflow without bytes never is in a view.
    """
    def has_bytes(coflow):
        return any(flow["bytes"] > 0 and (case["loopback_uses_ports"] or
                                          flow["src"] != flow["dst"])
                   for flow in coflow["flows"])

    ready = [coflow for coflow in case["coflows"]
             if has_bytes(coflow) and not coflow.get("starts_after")]
    start = min(coflow["arrival_s"] for coflow in ready)
    return [coflow["id"] for coflow in ready if coflow["arrival_s"] == start]


def test_against_the_case(coflow_case):
    case = json.loads(coflow_case.read_text())
    net, jobs = netsim.read_network(coflow_case), netsim.read_workload(coflow_case)
    for expected in case["results"]:
        spy = Spy(options_of(expected))
        coflows = netsim.simulate(net, jobs, allocator=spy).coflows.set_index("coflow")
        for coflow, finish in expected["finish_s"].items():
            assert coflows["finish_s"][int(coflow)] == pytest.approx(finish, rel=RTOL), expected
            assert coflows["cct_s"][int(coflow)] == pytest.approx(
                expected["cct_s"][coflow], rel=RTOL)
        ids = released_first(case)
        of_flow, rates, order = spy.first
        if "first_order" in expected:
            assert [ids[c] for c in order] == expected["first_order"]
        for c, coflow in enumerate(ids):
            given = [rate for rate in expected["first_rates_bytes_per_s"][str(coflow)]]
            sent = rates[of_flow == c]
            wanted = open_rates(case, coflow, given)
            np.testing.assert_allclose(sent, wanted, rtol=RTOL, atol=1e-3, err_msg=str(expected))
        if "queue_moves" in expected:
            number = {index: stage.coflow_id for index, job in enumerate(jobs)
                      for stage in job.stages}
            moves = [(at, number[job], queue) for at, job, queue in spy.moves]
            wanted = [(move["t_s"], move["coflow"], move["queue"])
                      for move in expected["queue_moves"]]
            assert moves == [(pytest.approx(at, rel=RTOL), coflow, queue)
                             for at, coflow, queue in wanted]


def open_rates(case, coflow, given):
    """The rates of the flows that have bytes to send over links."""
    flows = next(each["flows"] for each in case["coflows"] if each["id"] == coflow)
    return [rate for rate, flow in zip(given, flows, strict=True)
            if flow["bytes"] > 0 and (case["loopback_uses_ports"] or flow["src"] != flow["dst"])]

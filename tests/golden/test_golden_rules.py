"""Compiled rules give the same bytes as their policies in Python, on all worked cases."""

import json

import netsim
from netsim.allocators import make_allocator
from tests.golden.test_golden_coflow import options_of
from tests.golden.test_golden_parrot import policy


class InPython(netsim.Allocator):
    """The same policy, asked each time."""

    def __init__(self, options):
        self.inner = make_allocator(options)
        self.information, self.wakes_on = self.inner.information, self.inner.wakes_on

    def allocate(self, view):
        return self.inner.allocate(view)


def assert_same(path, allocator, **options):
    network, workload = netsim.read_network(path), netsim.read_workload(path)
    fast, slow = (netsim.simulate(network, workload, allocator=each, **options)
                  for each in (allocator, InPython(allocator)))
    assert fast.jobs.equals(slow.jobs)
    assert fast.coflows.equals(slow.coflows)


def test_coflow_policies(coflow_case):
    for expected in json.loads(coflow_case.read_text())["results"]:
        if make_allocator(options_of(expected)).compiled_rule is not None:
            assert_same(coflow_case, options_of(expected))


def test_parrot_and_its_baselines(parrot_case):
    case = json.loads(parrot_case.read_text())
    for expected in case["results"]:
        if make_allocator(policy(case, expected)).compiled_rule is not None:
            assert_same(parrot_case, policy(case, expected),
                        observe_interval=expected["observe_interval_s"])

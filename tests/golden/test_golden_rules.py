"""Compiled rules give the same bytes as their policies in Python, on all worked cases."""

import json

import netsim
from netsim.allocators import make_allocator
from tests.fabric.test_rules import assert_same_in_python
from tests.golden.test_golden_coflow import options_of
from tests.golden.test_golden_parrot import policy


def test_coflow_policies(coflow_case):
    for expected in json.loads(coflow_case.read_text())["results"]:
        if make_allocator(options_of(expected)).compiled_rule is not None:
            assert_same_in_python(options_of(expected), netsim.read_network(coflow_case),
                                  netsim.read_workload(coflow_case))


def test_parrot_and_its_baselines(parrot_case):
    case = json.loads(parrot_case.read_text())
    for expected in case["results"]:
        if make_allocator(policy(case, expected)).compiled_rule is not None:
            assert_same_in_python(policy(case, expected), netsim.read_network(parrot_case),
                                  netsim.read_workload(parrot_case),
                                  observe_interval=expected["observe_interval_s"])

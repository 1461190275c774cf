"""Lower bounds of the worked cases of the classical coflow policies."""

import json

import pytest

import netsim
from netsim.testing import make_view

RTOL, LP_RTOL = 1e-9, 1e-6


def bounds_of(path):
    case = json.loads(path.read_text())
    return case, case["bounds"], netsim.read_network(path), netsim.read_workload(path)


def test_bounds(bounded_case):
    _, expected, net, jobs = bounds_of(bounded_case)
    found = netsim.lower_bounds(net, jobs)
    gamma = found.coflows.set_index("coflow")["gamma_s"].to_dict()
    assert gamma == {int(coflow): pytest.approx(value, rel=RTOL)
                     for coflow, value in expected["isolation_gamma_s"].items()}
    totals = found.totals
    assert totals["finish_s"]["single-link"] == pytest.approx(
        expected["single_link_srpt_bound_sum_finish_s"], rel=RTOL)
    assert totals["weighted_finish_s"]["bssi"] == pytest.approx(
        expected["bssi_dual_bound_sum_weighted_finish_s"], rel=RTOL)


def test_lp_bound(bounded_case):
    pytest.importorskip("scipy")
    _, expected, net, jobs = bounds_of(bounded_case)
    totals = netsim.lower_bounds(net, jobs, which=["lp"]).totals
    assert totals["weighted_finish_s"]["lp"] == pytest.approx(
        expected["lp_bound_sum_weighted_finish_s"], rel=LP_RTOL)


def test_bssi_order(bounded_case):
    case, expected, net, _ = bounds_of(bounded_case)
    view = make_view(net, [[(flow["src"], flow["dst"], flow["bytes"]) for flow in each["flows"]]
                           for each in case["coflows"]],
                     weight=[each["weight"] for each in case["coflows"]])
    ids = [each["id"] for each in case["coflows"]]
    assert [ids[place] for place in view.bssi()[0]] == expected["bssi_order"]

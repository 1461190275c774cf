"""The LP bound of an edge-cloud system, against worked cases."""

import json

import pytest

from netsim.edge import EdgeCloud, EdgeJob
from netsim.edge.bound import lp_bound


def system_of(inputs):
    return EdgeCloud([each["worker_types"] for each in inputs["servers"]],
                     cloud=inputs["cloud_available"])


def job_of(given):
    """A job of a case, a slot being a second."""
    return EdgeJob(id=given["job"], arrival_s=given["arrival_slots"], chunks=given["chunks"],
                   minibatches=given["minibatches_per_chunk"], epochs=given["epochs"],
                   compute_s=given["compute_and_update_time_per_minibatch_slots"],
                   gradient_bytes=given["exchange_time_per_minibatch_slots"] / 2, bandwidth=1,
                   worker_type=given["worker_type"],
                   upload_s=given["upload_delay_to_server_slots"],
                   cloud_upload_s=given["upload_delay_to_cloud_slots"])


def test_lp_bound(aonline_lp_case):
    pytest.importorskip("scipy")
    given = json.loads(aonline_lp_case.read_text())
    for case in given["cases"]:
        inputs, expected = case["inputs"], case["expected"]
        bound = lp_bound(system_of(inputs), map(job_of, inputs["jobs"]),
                         slot=inputs["slot_length_slots"], horizon=inputs["horizon_slots"])
        within = {"abs": given["absolute_tolerance_slots"], "rel": 0}
        assert bound.lp_s == pytest.approx(expected["lp_objective_slots"], **within)
        assert bound.jct_s == pytest.approx(expected["jct_lower_bound_slots"], **within)
        total = expected["A_online_total_jct_slots"]
        assert bound.ratio_paper(total) == pytest.approx(expected["empirical_ratio"])
        assert bound.ratio(total) == pytest.approx(
            expected["empirical_ratio_against_jct_lower_bound"])

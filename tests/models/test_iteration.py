"""What an iteration takes with what Section VI adds; placements and kinds of servers refused."""

import pytest

from netsim import Cluster, ModelStage, ParallelModel
from netsim.cluster.cluster import server_kind
from netsim.errors import InputError, UnitError
from netsim.models.iteration_time import (
    alpha_max,
    alpha_min_bound,
    iteration_parts,
    per_iteration,
)
from netsim.models.servers import ServerKind
from netsim.schedulers.competitive import competitive_ratio

#: A GPU has 250 MB/s of the NIC, and 1 GB/s inside.
FOUR = ServerKind(4, "8Gbps", "1GB/s")

PIPELINE = [ModelStage(2, "10ms", "20ms", out_bytes="1MB", param_bytes="5MB"),
            ModelStage(2, "15ms", "30ms", in_bytes="1MB", param_bytes="2MB")]
APART = [[2, 0], [0, 2]]


def test_a_synchronous_pipeline():
    """Of 4 micro-batches, each stage on a server: 2 * 1 MB at 250 MB/s are 8 ms.

    q is (30 + 8)/4 = 9.5 ms and (45 + 8)/4 = 13.25 ms. D is 5 MB and 2 MB, inside: 5 and 2 ms.
    alpha = 9.5 + 13.25 + 3 * 13.25 + 5 = 67.5 ms. Asynchronous: max(38 + 5, 53 + 2) = 55 ms.
    """
    assert per_iteration(ParallelModel(PIPELINE), APART, FOUR) == pytest.approx(0.055)
    model = ParallelModel(PIPELINE, micro_batches=4)
    assert per_iteration(model, APART, FOUR) == pytest.approx(0.0675)


def test_one_micro_batch_is_stage_after_stage():
    """38 + 53 + 5 ms."""
    model = ParallelModel(PIPELINE, micro_batches=1)
    assert per_iteration(model, APART, FOUR) == pytest.approx(0.096)


def test_the_extremes_of_a_synchronous_pipeline():
    """Each replica alone, of 2 micro-batches: q as above, 19 and 26.5 ms; D of 5 MB takes 20 ms.

    All on one server: 2 MB take 2 ms, so q is 16 and 23.5 ms, and D takes 5 ms.
    """
    model = ParallelModel(PIPELINE, micro_batches=2)
    assert alpha_max(model, FOUR) == pytest.approx(0.019 + 2 * 0.0265 + 0.020)
    assert alpha_min_bound(model, FOUR) == pytest.approx(0.016 + 2 * 0.0235 + 0.005)
    assert per_iteration(model, [[2, 2]], FOUR) == pytest.approx(alpha_min_bound(model, FOUR))


def test_overlap_counts_a_part():
    """15 + 1.1 * 30 + 8 ms, and half of 2 ms."""
    model = ParallelModel(PIPELINE, backward_factor=1.1, allreduce_factor=0.5)
    assert per_iteration(model, APART, FOUR) == pytest.approx(0.057)


def test_slices():
    """Two replicas of 2 slices, a server each.

    A slice sends half of a replica's 1 MB: 2 * 0.5 MB at 250 MB/s, 4 ms. It all-reduces 6 MB with
    the other one, 2 * 1/2 * 6 MB at 1 GB/s, 6 ms. D = 8 MB leave a server over 2 GPUs' share of its
    NIC, 16 ms. On one server each slice all-reduces half of them, 4 ms, and sends 0.5 MB in 1 ms.
    """
    model = ParallelModel([ModelStage(2, "5ms", "5ms", out_bytes="1MB", param_bytes="8MB",
                                      slices=2, slice_bytes="6MB"),
                           ModelStage(4, "1ms", in_bytes="0.5MB")])
    placement = [[2, 0], [2, 0], [0, 4]]
    parts = iteration_parts(model, placement, FOUR)
    assert parts.communication_s[0, 0] == pytest.approx(0.010)
    assert parts.allreduce_s[0, 0] == pytest.approx(0.016)
    assert per_iteration(model, placement, FOUR) == pytest.approx(0.036) == alpha_max(model, FOUR)
    eight = ServerKind(8, "16Gbps", "1GB/s")  # a GPU's share is the same
    assert per_iteration(model, [[4, 4]], eight) == pytest.approx(0.010 + 0.001 + 0.006 + 0.004)


def test_groups_of_experts():
    """Three groups send 3 MB each to the other two; two of them share a server.

    These have one of two others near: 2 * 3 MB, half at 250 MB/s, half at 1 GB/s, 12 + 3 ms. The
    third one has both elsewhere: 24 ms. Together on a server: 6 ms.
    """
    model = ParallelModel([ModelStage(3, "1ms", expert_bytes="3MB")])
    parts = iteration_parts(model, [[2], [1]], FOUR)
    assert parts.communication_s[:, 0] == pytest.approx([0.015, 0.024])
    assert per_iteration(model, [[3]], FOUR) == pytest.approx(0.007)
    assert alpha_min_bound(model, FOUR) == pytest.approx(0.007)
    assert alpha_max(model, FOUR) == pytest.approx(0.025)


def test_the_bound_is_safe_where_the_nic_is_faster_than_the_inside():
    """B_inter/g = 250 MB/s is below B_intra = 400 MB/s, but four GPUs of eight have 1 GB/s.

    D = 2 * 7 * 8 MB / 8 = 14 MB take 14 ms between two servers; within one of them, of four GPUs,
    they never are, so that the 35 ms of D/B_intra are no lower bound.
    """
    kind = ServerKind(4, "8Gbps", "400MB/s")
    model = ParallelModel([ModelStage(8, param_bytes="8MB")])
    assert per_iteration(model, [[4], [4]], kind) == pytest.approx(0.014)
    assert alpha_min_bound(model, kind) == pytest.approx(0.014)


@pytest.mark.parametrize(("placement", "message"), [
    ([[2, 1], [0, 2]], "must have 2 GPUs for stage 1, not 3"),
    ([[2], [2]], r"of shape \(servers, 2\), not of int64 of shape \(2, 1\)"),
    ([[2.0, 2.0]], r"not of float64 of shape \(1, 2\)"),
    ([[3, 2], [-1, 0]], "must have 0 to 4 GPUs on each server"),
    ([[3, 2]], "must have 0 to 4 GPUs on each server"),
])
def test_placements_that_are_refused(placement, message):
    with pytest.raises(InputError, match=message):
        per_iteration(ParallelModel(PIPELINE), placement, FOUR)


def test_slices_on_two_servers_are_refused():
    with pytest.raises(InputError, match=r"2 slices, all on one server, .* \[1, 1\] GPUs"):
        per_iteration(ParallelModel([ModelStage(slices=2)]), [[1], [1]], FOUR)


def test_kinds_of_servers():
    assert server_kind(Cluster(2, 4, "8Gbps", "1GB/s")) == FOUR
    with pytest.raises(InputError, match=r"equally many GPUs each, not \[2, 4\]"):
        server_kind(Cluster(gpus=[4, 2]))
    with pytest.raises(InputError, match=r"server: gpus .* not 0"):
        ServerKind(0)
    with pytest.raises(UnitError, match="server: nic must be greater than 0"):
        ServerKind(4, nic=0)


@pytest.mark.parametrize(("change", "message"), [
    ({"gpus": 8}, "gpus, as a job has 8, must be a whole number of at least 9, not 8"),
    ({"rho": 0.5}, "rho must be a finite number of at least 1, not 0.5"),
    ({"tau": -1}, "tau must be .* not -1"),
    ({"alpha_max": 0.05}, "alpha_max must be .* at least 0.1, not 0.05"),
    ({"alpha_min": 0}, "alpha_min must be .* greater than 0, not 0"),
    ({"error": float("inf")}, "error must be .* not inf"),
])
def test_what_theorem_1_does_not_say(change, message):
    case = {"rho": 1.5, "tau": 0, "gpus": 32, "most_gpus": 8, "alpha_max": 0.2, "alpha_min": 0.1,
            "error": 0}
    with pytest.raises(InputError, match=message):
        competitive_ratio(**case | change)

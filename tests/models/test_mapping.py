"""Mappings: what is true of all of them, on random jobs, and what they refuse."""

import itertools
import sys
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netsim import ModelStage, ParallelModel, make_model
from netsim.errors import InputError, MissingExtraError, NetsimWarning
from netsim.models import ALLREDUCES
from netsim.models.iteration_time import (
    alpha_max,
    alpha_min_bound,
    check_placement,
    iteration_parts,
    per_iteration,
)
from netsim.models.mapping import (
    MAPPINGS,
    Mapper,
    can_hold,
    consolidated_counts,
    exhaustive_mapping,
    heavy_edge,
    heavy_edge_ranks,
    heavy_edge_servers,
    job_graph,
    optimal_mapping,
    random_mapping,
    round_robin_mapping,
)
from netsim.models.mapping.heavy_edge import block_weights
from netsim.models.servers import ServerKind
from tests.examples import examples
from tests.twins.mapping import heavy_edge_reference, packs

FOUR = ServerKind(4, "8Gbps", "100GB/s")

#: Few different values, so that there are ties.
BYTES = st.sampled_from([0.0, 1e6, 1e6, 3e6, 1e8])


@st.composite
def models(draw, most_stages=4, most_replicas=4, slices=(1, 1, 1, 2, 4)):
    count = draw(st.integers(1, most_stages))
    replicas = [draw(st.integers(1, most_replicas)) for _ in range(count)]
    between = [draw(BYTES) for _ in range(count - 1)]
    stages = []
    for s, k in enumerate(replicas):
        t = draw(st.sampled_from(slices))
        stages.append(ModelStage(
            k, draw(st.sampled_from([0.01, 0.02])), draw(st.sampled_from([0.0, 0.04])),
            between[s - 1] / k if s else 0.0, between[s] / k if s < count - 1 else 0.0,
            draw(BYTES), slices=t, slice_bytes=draw(BYTES) if t > 1 else 0.0,
            expert_bytes=draw(BYTES) if t == 1 and k > 1 else 0.0))
    return ParallelModel(stages, draw(st.sampled_from(ALLREDUCES)),
                         micro_batches=draw(st.sampled_from([0, 0, 1, 4])),
                         backward_factor=draw(st.sampled_from([1.0, 1.2])),
                         allreduce_factor=draw(st.sampled_from([1.0, 0.5])))


@st.composite
def jobs(draw, **limits):
    """A model, and counts that can hold it, of servers with four GPUs."""
    model = draw(models(**limits))
    counts, left = [], model.gpus
    while left:
        counts.append(draw(st.integers(1, min(4, left))))
        left -= counts[-1]
    assume(can_hold(model, counts))
    return model, tuple(counts)


@settings(deadline=None)
@given(jobs())
def test_heavy_edge_is_its_reference(job):
    model, counts = job
    servers = heavy_edge_servers(model, counts, FOUR)
    assert servers.tolist() == heavy_edge_reference(model, counts)
    stage = [stage for _, stage in job_graph(model).nodes.data("stage")]
    placement = np.zeros((len(counts), len(model.stages)), dtype=int)
    np.add.at(placement, (servers, stage), 1)
    assert heavy_edge(model, counts, FOUR).placement.tolist() == placement.tolist()


@settings(deadline=None)
@given(jobs(slices=(1,)))
def test_ranks_are_mapped_as_replicas_without_slices_are(job):
    model, counts = job
    weight, _ = block_weights(model)
    assert heavy_edge_ranks(weight, counts).tolist() == heavy_edge_reference(model, counts)


@settings(deadline=None)
@given(models(most_stages=3, most_replicas=3), st.lists(st.integers(1, 6), max_size=5))
def test_servers_can_hold_what_can_be_packed(model, counts):
    sizes = sorted(stage.slices for stage in model.stages for _ in range(stage.replicas))
    assert can_hold(model, counts) == packs(tuple(sizes), (0, *counts))


@settings(deadline=None)
@given(models(most_stages=3, most_replicas=9, slices=(1,)))
def test_weights_are_those_of_the_graph(model):
    weight, size = block_weights(model)
    graph = job_graph(model)
    assert set(size) == {1}
    assert len(size) == len(graph) == model.gpus
    for u, v in itertools.combinations(range(len(size)), 2):
        expected = graph.edges[u, v]["weight"] if graph.has_edge(u, v) else 0.0
        assert weight[u, v] == weight[v, u] == pytest.approx(expected, rel=1e-12)


@settings(deadline=None)
@given(jobs(), st.integers(0, 3))
def test_any_mapping_is_a_placement_between_the_bounds(job, seed):
    """alpha_max bounds all from above, as B_inter/g <= B_intra, and the safe bound from below.

    alpha~_min does neither: see `test_consolidation_may_be_slower`.
    """
    model, counts = job
    for mapping in (heavy_edge, random_mapping, round_robin_mapping):
        found = mapping(model, counts, FOUR, seed)
        placement = check_placement(model, found.placement, FOUR)
        assert placement.sum(axis=1).tolist() == list(counts)
        assert found.alpha_s == pytest.approx(per_iteration(model, placement, FOUR), rel=1e-12)
        assert found.bound_s <= found.alpha_s * (1 + 1e-9)
        assert alpha_min_bound(model, FOUR) <= found.alpha_s * (1 + 1e-9)
        assert found.alpha_s <= alpha_max(model, FOUR) * (1 + 1e-9)


@settings(deadline=None)
@given(jobs())
def test_the_time_of_an_iteration_is_that_of_its_parts(job):
    model, counts = job
    placement = random_mapping(model, counts, FOUR, 1).placement
    compute, communication, allreduce = iteration_parts(model, placement, FOUR)
    mu, q = model.micro_batches, (compute + communication).max(axis=0)
    expected = (compute + communication + allreduce).max()
    if mu:
        expected = q.sum() / mu + (mu - 1) * q.max() / mu + allreduce.max()
    assert per_iteration(model, placement, FOUR) == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=examples(60))
@given(jobs(most_stages=3, most_replicas=3), st.sampled_from(["8Gbps", "100Tbps"]))
def test_the_optimum_is_that_of_trying_all(job, nic):
    """With a NIC above 8 times B_intra, too: other servers are then nearer than one's own."""
    pytest.importorskip("scipy")
    model, counts = job
    kind = ServerKind(4, nic, "100GB/s")
    found, best = optimal_mapping(model, counts, kind), exhaustive_mapping(model, counts, kind)
    assert (found.status, found.gap) == ("optimal", 0)
    assert found.alpha_s == pytest.approx(best.alpha_s, rel=1e-6)
    assert alpha_min_bound(model, kind) <= best.alpha_s * (1 + 1e-9)
    assert heavy_edge(model, counts, kind).alpha_s >= best.alpha_s * (1 - 1e-9)
    assert check_placement(model, found.placement, kind).sum(axis=1).tolist() == list(counts)


def test_consolidation_may_be_slower():
    """Five replicas on [4, 1] have the one alone send all; on [3, 2] two share that.

    D = 2 * 4 * 100 MB / 5 = 160 MB at x/4 of 1 GB/s: 640 ms, and 320 ms.
    """
    model = ParallelModel([ModelStage(5, "30ms", param_bytes="100MB")])
    assert consolidated_counts(model, FOUR) == (4, 1)
    assert Mapper(FOUR).extremes(model)[1] == pytest.approx(0.67)
    assert heavy_edge(model, [3, 2], FOUR).alpha_s == pytest.approx(0.35)


@pytest.mark.parametrize(("stages", "counts", "wanted"), [
    # The heavy pair in the middle goes to the larger server; then the first, tied with the last.
    (["1MB", "9MB", "1MB"], [1, 3], [1, 1, 1, 0]),
    # All tied: the first two, and of the others the lower one to the first of the small servers.
    (["5MB", "5MB", "5MB"], [1, 2, 1], [1, 1, 0, 2]),
    # Of the three that are left the last one has no edges, so that it goes where one GPU is.
    (["9MB", 0, "1MB", 0], [2, 1, 2], [0, 0, 2, 2, 1]),
])
def test_chains(stages, counts, wanted):
    """Stages of a replica each, which pass on so many bytes."""
    passed = [0, *stages, 0]
    model = ParallelModel([ModelStage(1, "1ms", in_bytes=one, out_bytes=other)
                           for one, other in itertools.pairwise(passed)])
    assert heavy_edge_servers(model, counts, FOUR).tolist() == wanted


def test_slices_stay_together():
    """Three layers of 2 slices, 9 MB between the last two: they fill the server of 4."""
    model = ParallelModel([ModelStage(1, out_bytes="1MB", slices=2, slice_bytes="1GB"),
                           ModelStage(1, in_bytes="1MB", out_bytes="9MB", slices=2),
                           ModelStage(1, in_bytes="9MB", slices=2)])
    assert heavy_edge(model, [2, 4], FOUR).placement.tolist() == [[2, 0, 0], [0, 2, 2]]
    assert job_graph(model).edges[0, 1]["weight"] == 1e9
    assert job_graph(model).edges[0, 2]["weight"] == pytest.approx(2e6 / 4)
    for name in MAPPINGS:
        with pytest.raises(InputError, match=r"counts \[3, 3\] cannot hold .* of 2 slices"):
            MAPPINGS.resolve(name)(model, [3, 3], FOUR)
    with pytest.raises(InputError, match=r"stage of 4 slices, .* but servers have 2 GPUs"):
        alpha_max(ParallelModel([ModelStage(slices=4)]), ServerKind(2))


def test_consolidated_counts_leave_room_for_slices():
    """Two of 4 slices and 5 alone on servers of 6: 4 + 2 and 4 + 2, and then one more."""
    model = ParallelModel([ModelStage(5), ModelStage(2, slices=4)])
    counts = consolidated_counts(model, ServerKind(6))
    assert (sum(counts), can_hold(model, counts)) == (13, True)
    assert consolidated_counts(ParallelModel([ModelStage(2, slices=4)]), ServerKind(6)) == (4, 4)


def test_what_is_remembered_is_in_the_order_of_the_counts():
    mapper, model = Mapper(FOUR), make_model("gpt-6.7b", 7)
    one, other = mapper(model, [4, 2, 1]), mapper(model, [1, 4, 2])
    assert one.placement[[2, 0, 1]].tolist() == other.placement.tolist()
    assert mapper(model, (4, 2, 1)) is one
    assert mapper(make_model("gpt-6.7b", 7), [4, 2, 1]) is one
    with pytest.raises(ValueError, match="read-only"):
        other.placement[0, 0] = 3


def test_without_edges_replicas_are_picked_by_the_seed():
    model = ParallelModel([ModelStage(4), ModelStage(4)])
    assert heavy_edge(model, [4, 4], FOUR).placement.tolist() == [[4, 0], [0, 4]]
    found = {str(heavy_edge(model, [4, 4], FOUR, seed).placement.tolist()) for seed in range(9)}
    assert len(found) > 1
    assert found == {str(heavy_edge(model, [4, 4], FOUR, seed).placement.tolist())
                     for seed in range(9)}


def test_round_robin_deals_in_turn():
    model = ParallelModel([ModelStage(3), ModelStage(3)])
    found = round_robin_mapping(model, [1, 3, 2], FOUR)
    assert found.placement.tolist() == [[1, 0], [1, 2], [1, 1]]


@pytest.mark.parametrize(("counts", "message"), [
    ([4, 1], r"counts \[4, 1\] add up to 5 GPUs, but model 'gpt-6.7b' has 6"),
    ([5, 1], "counts: GPUs of a server must be a whole number from 1 to 4, not 5"),
    ([4, 2, 0], "whole number from 1 to 4, not 0"),
    ([4, 2.0], "counts must be a list of whole numbers, but holds 2.0"),
    ("42", "counts must be a list of whole numbers, not '42'"),
])
def test_counts_that_are_refused(counts, message):
    for mapping in (heavy_edge, random_mapping, round_robin_mapping, exhaustive_mapping):
        with pytest.raises(InputError, match=message):
            mapping(make_model("gpt-6.7b", 6), counts, FOUR)


def large():
    """Return a job, and counts, with which HiGHS is busy for some seconds."""
    stages = [ModelStage(7, 0.01, in_bytes=1e6 * s / 7 * (s > 0), out_bytes=1e6 * (s + 1) / 7,
                         param_bytes=1e8 / (s + 1)) for s in range(9)]
    return ParallelModel(stages), [4] * 9 + [3] * 6 + [1] * 9


def test_a_solver_that_runs_out_of_time_says_so():
    pytest.importorskip("scipy")
    model, counts = large()
    with pytest.warns(NetsimWarning, match="not known to be optimal after 10 ms: .* a gap of"):
        found = optimal_mapping(model, counts, FOUR, time_limit="10ms")
    assert found.status == "time limit"
    assert 0 < found.gap < 1
    assert found.alpha_s <= heavy_edge(model, counts, FOUR).alpha_s
    with pytest.raises(InputError, match="time_limit must be greater than 0"):
        optimal_mapping(model, counts, FOUR, time_limit=0)


def test_the_optimum_needs_an_extra(monkeypatch):
    monkeypatch.setattr("netsim.models.mapping.optimal.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"coflow-netsim\[ilp\]"):
        optimal_mapping(make_model("vgg19", 2), [1, 1], FOUR)


def test_no_warning_where_the_optimum_is_known():
    pytest.importorskip("scipy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = MAPPINGS.resolve("optimal")(make_model("gpt-13b", 12), [4, 4, 3, 1], FOUR)
    assert found.gap == 0
    assert "scipy" in sys.modules


def test_edges_that_rounding_makes_differ_tie():
    """Replicas 2 and 3 exchange 0.1 + 0.2 bytes, a rounding more than 0 and 1, which are first."""
    weight = np.zeros((4, 4))
    for (one, other), nbytes in {(0, 1): 0.3, (2, 3): 0.1 + 0.2}.items():
        weight[one, other] = weight[other, one] = nbytes
    assert heavy_edge_ranks(weight, [2, 2]).tolist() == [0, 0, 1, 1]

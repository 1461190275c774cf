"""Slices of a replica stay together: of GPUs that are offered, under every placement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim import Cluster, JobSpec, ModelStage, ParallelModel
from netsim.cluster.ring import is_sliced, keep_together, split_replica_error
from netsim.models.mapping import can_hold
from netsim.placements.placement import first_of
from netsim.placements.registry import PLACEMENTS, make_placement

models = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4])), min_size=1,
                  max_size=3).map(lambda stages: ParallelModel(
                      [ModelStage(replicas, slices=slices) for replicas, slices in stages]))


@given(models, st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_a_model_finds_its_place_wherever_there_is_one(model, servers):
    """`can_hold` says of the counts whether; the places then are distinct, and nothing is torn."""
    counts = np.bincount(servers).tolist()
    places = keep_together(model, servers)
    assert (places is not None) == can_hold(model, counts)
    if places is not None:
        assert len(set(places.tolist())) == len(places) == model.gpus
        taken = np.array(servers)[places]
        first = 0
        for stage in model.stages:  # replica by replica, not only in number
            own = taken[first:first + stage.gpus].reshape(stage.replicas, stage.slices)
            assert (own == own[:, :1]).all()
            first += stage.gpus
        assert split_replica_error(model, taken) is None


@given(models, st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_without_slices_the_first_ones_will_do(model, servers):
    whole = ParallelModel([ModelStage(stage.gpus) for stage in model.stages])
    places = keep_together(whole, servers)
    if places is not None:
        assert places.tolist() == list(range(whole.gpus))
        assert split_replica_error(whole, np.array(servers)[places]) is None


def test_the_first_group_that_is_complete_is_taken():
    """Server 2 has offered a second GPU before server 0 has."""
    model = ParallelModel([ModelStage(slices=2)])
    assert keep_together(model, [0, 2, 1, 2, 0]).tolist() == [1, 3]
    assert keep_together(model, [0, 1, 2]) is None


def test_what_is_torn_is_said():
    model = ParallelModel([ModelStage(), ModelStage(2, slices=2)], name="mine")
    assert split_replica_error(model, [0, 1, 2, 2, 1]) is None
    assert split_replica_error(model, [0, 1, 1, 1, 2]) == (
        "replicas of stage 1 of model 'mine' have 2 slices each, which must be on one server, but "
        "its GPUs are on the servers [1, 1, 1, 2]")
    assert split_replica_error(None, [0]) is None
    assert not is_sliced(None)


@pytest.mark.parametrize("execution", ["asrpt", "fabric"])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_placement_keeps_slices_together(placement, execution):
    """On servers of 3, pairs leave a GPU each; all jobs end, one or two at a time."""
    model = ParallelModel([ModelStage(2, 0.01, 0.01, param_bytes=1e5, slices=2, slice_bytes=1e5),
                           ModelStage(1, 0.01, 0.01)])
    jobs = [JobSpec(k, model=model, arrival_s=0.001 * k) for k in range(4)]
    result = netsim.simulate(Cluster(servers=3, gpus=3), jobs, placement=placement,
                             execution=execution, seed=1)
    assert result.jobs["finish_s"].notna().all()


def test_few_servers_are_more_where_slices_need_them():
    """Two servers of 3 have enough GPUs for a replica of 4 slices, and cannot hold it."""
    cluster = Cluster(gpus=[3, 3, 4])
    job = JobSpec(0, model=ParallelModel([ModelStage(slices=4)]))
    scope = make_placement("least-busy-servers").scope(cluster, job, np.zeros(10))
    assert sorted(scope.tolist()) == list(range(10))
    assert first_of(cluster, job, scope).tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize(("gpus", "ranks"), [([2, 3], 4), ([3, 3, 3], 6)])
def test_consolidated_counts_servers_on_which_slices_fit(gpus, ranks):
    """Replicas of two slices: a server of three GPUs holds one; jobs waited forever for more."""
    model = ParallelModel([ModelStage(ranks // 2, slices=2)])
    job = JobSpec(0, model=model, compute_s=1.0)
    result = netsim.simulate(netsim.Cluster(gpus=gpus), [job], placement="consolidated")
    assert result.jobs["finish_s"].notna().all()

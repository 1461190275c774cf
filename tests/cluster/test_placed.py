"""Stages as they run on servers; the part of NICs that GPUs have; what counts as a ring."""

from __future__ import annotations

import numpy as np
import pytest

from netsim import JobSpec, ModelStage, ParallelModel, Stage
from netsim.cluster.placed import (
    nic_share,
    placed_model,
    placed_stages,
    ring_of,
    servers_of_model,
)
from netsim.errors import InputError, UnitError
from netsim.workload.columns import Flows

ALL = Stage("all", [(0, 1, 6), (1, 0, 9), (0, 2, 4), (2, 2, 99)], compute_s=1, weight=2,
            release_s=3, deadline_s=7)


def test_a_stage_between_servers_stays_as_it_is():
    placed, = placed_stages([ALL], [0, 1, 2], 3)
    assert [tuple(each) for each in placed.flows] == [(0, 1, 6), (1, 0, 9), (0, 2, 4)]
    assert (placed.compute_s, placed.finishes_before, placed.weight, placed.deadline_s) == (
        1, (), 2, 7)


def test_a_stage_inside_a_server_takes_as_long_as_its_slowest_flow():
    """9 bytes at 3 bytes/s; a rank sends to itself in no time."""
    placed, = placed_stages([ALL], [4, 4, 4], 3)
    assert (placed.flows, placed.compute_s, placed.name) == (None, 4, "all")


def test_a_stage_that_does_both_waits_for_both():
    first, behind, inside = placed_stages([ALL, Stage("b", after=("all",))], [4, 4, 5], 3)
    assert [tuple(each) for each in first.flows] == [(0, 2, 4)]
    assert (first.compute_s, first.finishes_before, behind.after) == (1, ("all inside",), ("all",))
    assert inside.intra_server
    assert (inside.name, inside.flows, inside.compute_s, inside.release_s) == (
        "all inside", None, 4, 3)


def test_names_stay_unique():
    stages = [ALL, Stage("all inside")]
    assert [each.name for each in placed_stages(stages, [4, 4, 5], 3)] == [
        "all", "all inside", "all inside'"]


def test_stages_without_flows_or_bytes():
    stages = [Stage("a", compute_s=2), Stage("b", []), Stage("c", [(0, 1, 0)])]
    placed = placed_stages(stages, [4, 4], 3)
    assert [each.compute_s for each in placed] == [2, 0, 0]
    assert [None if each.flows is None else len(each.flows) for each in placed] == [None, 0, 0]


@pytest.mark.parametrize(("servers", "intra", "message"), [
    ([0, 1], 3, "stages have 3 ranks, but servers has 2"),
    ([0.5, 1, 2], 3, "servers must be a list of whole numbers"),
    ([[0, 1, 2]], 3, "servers must be a list of whole numbers"),
    ([0, 1, 2], 0, "intra"),
    ([0, 1, 2], "fast", "intra"),
])
def test_bad_input(servers, intra, message):
    with pytest.raises((InputError, UnitError), match=message):
        placed_stages([ALL], servers, intra)


def test_a_share_is_that_of_the_scarcest_part():
    """Servers of 4 and 8 GPUs. Two of the 4 send 6 bytes in all, one of the 8 receives them.

    At half and an eighth of a NIC they take 12 and 48 NIC seconds, so that 6 take 48.
    """
    flows = Flows.of([(0, 2, 3), (1, 2, 3)])
    assert nic_share(flows, [0, 0, 1], [4, 8]) == 1 / 8
    assert nic_share(flows, [0, 0, 1], [4, 8], 0.5) == 1 / 16
    # What is inside a server costs nothing, but who sends it has its part all the same.
    inside = Flows.of([(0, 1, 100), (1, 2, 3), (2, 0, 3)])
    assert nic_share(inside, [0, 0, 1], [4, 4]) == 1 / 4
    assert nic_share(Flows.of([(0, 1, 5)]), [0, 0], [4]) == 1
    # Server 1 has three times the part of server 0, and a ninth of its bytes.
    uneven = Flows.of([(0, 4, 9), (1, 4, 1), (2, 4, 0), (3, 4, 0)])
    assert nic_share(uneven, [0, 1, 1, 1, 2], [4, 4, 1]) == 10 / 36


def test_a_placed_model():
    """Two replicas and their neighbour on server 0, one on server 1; 4 GPUs a server.

    Of 4 bytes to it, those on server 0 send 4 inside it, at 2 * 4/8 s, forward; it sends 4 to each
    of the three back, so 8 inside, at 2 * 8/8 s. The all-reduce goes from server to server.
    """
    model = ParallelModel([ModelStage(3, 1, 1, out_bytes=4, param_bytes=3),
                           ModelStage(1, 5, 5, in_bytes=12)])
    stages = {each.name: each for each in placed_model(model, [0, 0, 1, 0], 8)}
    assert {name: each.compute_s for name, each in stages.items()} == pytest.approx({
        "activations-0": 1 + 1, "all-reduce-0": 1, "gradients-1": 10 + 2,
        "all-reduce-0 inside": 1 + 4 / 8})
    assert [tuple(each) for each in stages["activations-0"].flows] == [(2, 3, 4)]
    assert [tuple(each) for each in stages["all-reduce-0"].flows] == [(1, 2, 4), (2, 0, 4)]
    assert {each.weight for each in stages.values()} == {1}
    # Where shares are reserved, the stages exchange first, and compute behind that, with what is
    # exchanged inside the server; the coflows are the same, in the same order.
    reserved = placed_model(model, [0, 0, 1, 0], 8, [4, 4])
    assert [each.name for each in reserved] == [*stages, "backward-0", "backward-1"]
    assert [each.intra_server for each in reserved] == [False] * 3 + [True] * 3
    for one, other in zip(stages.values(), reserved[:3], strict=False):
        assert [tuple(each) for each in one.flows] == [tuple(each) for each in other.flows]
    assert {each.name: each.compute_s for each in reserved} == pytest.approx({
        "activations-0": 0, "all-reduce-0": 0, "gradients-1": 0, "all-reduce-0 inside": 4 / 8,
        "backward-0": 2 + 1, "backward-1": 10 + 2})
    # Halves of a quarter: of the lone sender, and of whom it sends to; all of them; as the first.
    assert [each.weight for each in reserved[:3]] == [1 / 8, 1 / 4, 1 / 8]


def test_slices_share_a_server():
    model = ParallelModel([ModelStage(2, slices=2, slice_bytes=6, param_bytes=4)], name="mine")
    assert servers_of_model(model, [1, 0, 1, 0]).tolist() == [0, 0, 1, 1]
    assert [each.name for each in placed_model(model, [0, 0, 1, 1], 3)] == [
        "slices-forward-0", "slices-backward-0", "all-reduce-0"]
    assert placed_model(model, [0, 0, 1, 1], 3)[0].compute_s == 1
    with pytest.raises(InputError, match=r"stage 0 of model 'mine' has replicas of 2 slices, "
                                         r"which must be on one server, .* replica 1 are on the "
                                         r"servers \[0, 1]"):
        placed_model(model, [0, 0, 0, 1], 3)


def test_rings():
    ring = JobSpec(0, pattern={"name": "ring-all-reduce"}, ranks=3, nbytes=5)
    assert ring_of(ring) is ring
    stage = ModelStage(3, 1, 2, param_bytes=5)
    found = ring_of(JobSpec(4, 7, 9, model=ParallelModel([stage], backward_factor=2), compute_s=1))
    assert (found.id, found.arrival_s, found.iterations, found.ranks, found.nbytes,
            found.compute_s, found.pattern) == (4, 7, 9, 3, 5, 6, "ring-all-reduce")
    others = [JobSpec(0, pattern="all-to-all", ranks=3, nbytes=0), JobSpec(0, stages=[ALL]), *(
        JobSpec(0, model=model) for model in (
            ParallelModel([stage], "tree"), ParallelModel([stage, ModelStage()]),
            ParallelModel([stage], allreduce_factor=0.5), ParallelModel([ModelStage(slices=2)]),
            ParallelModel([ModelStage(2, expert_bytes=3)])))]
    assert [ring_of(job) for job in others] == [None] * len(others)
    assert np.array_equal(ring_of(JobSpec(0, model=ParallelModel([stage]))).ranks, 3)

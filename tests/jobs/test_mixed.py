"""Models as coflows, in rank space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import netsim
from netsim import JobSpec, ModelStage, ParallelModel, Workload
from netsim.errors import InputError
from netsim.jobs.graph import Dag
from netsim.jobs.patterns import exchanging_in_turn, model_coflows, model_stages
from netsim.studies.convert import explicit
from tests.examples import examples

#: 2 replicas, 4, 1.
THREE = [ModelStage(2, 0.1, 0.2, out_bytes=8, param_bytes=6),
         ModelStage(4, 0.3, 0.4, in_bytes=4, out_bytes=2, param_bytes=8),
         ModelStage(1, 0.5, 0.6, in_bytes=8, param_bytes=9)]


def flows(stage):
    return [tuple(each) for each in stage.flows]


def test_an_asynchronous_pipeline():
    """Each stage by itself: activations on, gradients back, then a ring of its replicas."""
    stages = {stage.name: stage for stage in model_stages(ParallelModel(THREE))}
    assert {name: (stage.compute_s, stage.after) for name, stage in stages.items()} == {
        "activations-0": (0.1, ()), "all-reduce-0": (0.2, ("activations-0",)),
        "activations-1": (0.3, ()), "gradients-1": (0.4, ("activations-1",)),
        "all-reduce-1": (0, ("gradients-1",)), "gradients-2": (1.1, ())}
    assert flows(stages["activations-0"]) == [(src, dst, 2) for src in (0, 1)
                                              for dst in (2, 3, 4, 5)]
    assert flows(stages["gradients-1"]) == [(src, dst, 2) for src in (2, 3, 4, 5)
                                            for dst in (0, 1)]
    assert flows(stages["gradients-2"]) == [(6, dst, 2) for dst in (2, 3, 4, 5)]
    assert flows(stages["all-reduce-0"]) == [(0, 1, 6), (1, 0, 6)]
    assert flows(stages["all-reduce-1"]) == [(2, 3, 12), (3, 4, 12), (4, 5, 12), (5, 2, 12)]
    kinds = {each.stage.name: each.exchange for each in model_coflows(ParallelModel(THREE))}
    assert [name for name, exchange in kinds.items() if not exchange] == [
        "all-reduce-0", "all-reduce-1"]


def test_a_pipeline_that_exchanges_in_turn():
    """0 and 1 exchange first, then both compute and reduce; 1 and 2 when both have.

    The last one computes at once. The coflows are those of `model_coflows`, in their order.
    """
    model = ParallelModel(THREE)
    made = exchanging_in_turn(model)
    assert {stage.name: (stage.compute_s, stage.after) for stage, *_ in made} == {
        "activations-0": (0, ()), "all-reduce-0": (0, ("backward-0",)),
        "activations-1": (0, ("all-reduce-1", "backward-2")),
        "gradients-1": (0, ()), "all-reduce-1": (0, ("backward-1",)),
        "gradients-2": (0, ("all-reduce-1", "backward-2")),
        "backward-0": (pytest.approx(0.3), ("activations-0", "gradients-1")),
        "backward-1": (pytest.approx(0.7), ("activations-0", "gradients-1")),
        "backward-2": (pytest.approx(1.1), ())}
    usual = model_coflows(model)
    for one, other in zip(usual, made, strict=False):
        assert (one.stage.name, one.exchange) == (other.stage.name, other.exchange)
        assert flows(one.stage) == flows(other.stage)
    assert all(stage.flows is None for stage, *_ in made[len(usual):])


def test_what_only_computes_exchanges_nothing_in_turn():
    """Stages without bytes between them do not wait for each other."""
    model = ParallelModel([ModelStage(1, 0.1, 0.2), ModelStage(2, 0.3, 0.4, param_bytes=4)])
    assert [(stage.name, stage.compute_s, stage.after) for stage, *_ in exchanging_in_turn(model)
            ] == [("backward-0", pytest.approx(0.3), ()), ("all-reduce-1", 0, ("backward-1",)),
                  ("backward-1", pytest.approx(0.7), ())]


def test_one_gpu_only_computes():
    stage, = model_stages(ParallelModel([ModelStage(1, 0.1, 0.2, param_bytes=5)]))
    assert (stage.name, stage.flows, stage.compute_s) == ("backward-0", None, pytest.approx(0.3))


def test_a_double_binary_tree():
    """Of 4: trees 0-2, 2-1, 2-3 and its mirror image 3-1, 1-2, 1-0; 3/8 h each way on each edge."""
    model = ParallelModel([ModelStage(4, param_bytes=8)], "tree")
    sent = np.zeros((4, 4))
    for src, dst, nbytes in flows(model_stages(model)[-1]):
        sent[src, dst] += nbytes
    expected = np.zeros((4, 4))
    for one, other in ((0, 2), (2, 1), (2, 3), (3, 1), (1, 2), (1, 0)):
        expected[one, other] += 3
        expected[other, one] += 3
    assert sent.tolist() == expected.tolist()


def test_a_synchronous_pipeline():
    """Two micro-batches: 0/0, then 1/0 beside 0/1, then 1/1; then all-reduces."""
    model = ParallelModel([*THREE[:1], ModelStage(4, 0.3, 0.4, in_bytes=4, param_bytes=8)],
                          micro_batches=2)
    after = {stage.name: (stage.after, stage.compute_s) for stage in model_stages(model)}
    assert after == {
        "activations-0/0": ((), 0.05), "backward-0/0": (("activations-0/0",), 0.1),
        "gradients-1/0": (("backward-0/0",), pytest.approx(0.35)),
        "activations-0/1": (("backward-0/0",), 0.05), "backward-0/1": (("activations-0/1",), 0.1),
        "gradients-1/1": (("gradients-1/0", "backward-0/1"), pytest.approx(0.35)),
        "all-reduce-0": (("gradients-1/1",), 0), "all-reduce-1": (("gradients-1/1",), 0)}
    assert sum(stage.flows.nbytes.sum() for stage in model_stages(model)
               if stage.name.startswith("activations")) == pytest.approx(16)


def test_slices_and_experts():
    """A replica's slices all-reduce 2/2 of half their bytes each way; replicas slice by slice."""
    model = ParallelModel([ModelStage(2, param_bytes=8, slices=2, slice_bytes=6, out_bytes=4),
                           ModelStage(4, in_bytes=2, expert_bytes=6)])
    stages = {stage.name: stage for stage in model_stages(model)}
    assert list(stages) == ["slices-forward-0", "activations-0", "slices-backward-0",
                            "all-reduce-0", "experts-forward-1", "experts-backward-1",
                            "gradients-1"]
    assert flows(stages["slices-forward-0"]) == [(0, 1, 3), (1, 0, 3), (2, 3, 3), (3, 2, 3)]
    assert flows(stages["all-reduce-0"]) == [(0, 2, 4), (2, 0, 4), (1, 3, 4), (3, 1, 4)]
    assert flows(stages["activations-0"])[0] == (0, 4, 0.5)
    assert flows(stages["experts-forward-1"])[:3] == [(4, 5, 1), (4, 6, 1), (4, 7, 1)]


def test_overlap_of_an_all_reduce_is_refused():
    model = ParallelModel(THREE, name="mine", allreduce_factor=0.5)
    with pytest.raises(InputError, match=r"'mine' has the allreduce_factor 0\.5, .* must be 1"):
        model_stages(model)
    with pytest.raises(InputError, match=r"allreduce_factor 0\.5"):
        netsim.simulate(netsim.big_switch(7, 1e6), [JobSpec(0, model=model)])
    twice = ParallelModel([*THREE[:1], ModelStage(4, 0.3, 0.4, in_bytes=4)], backward_factor=2)
    assert model_stages(twice)[1].compute_s == 0.4


@st.composite
def models(draw):
    """Any model that coflows can be made of."""
    sizes = st.sampled_from([0.0, 1e3, 5e5, 3e6])
    stages, sent = [], 0.0
    for number in range(count := draw(st.integers(1, 4))):
        k = draw(st.integers(1, 4))
        total = draw(sizes) if number + 1 < count else 0.0
        stages.append(ModelStage(
            k, draw(st.sampled_from([0.0, 0.01, 0.1])), draw(st.sampled_from([0.0, 0.02])),
            in_bytes=sent / k, out_bytes=total / k, param_bytes=draw(sizes),
            expert_bytes=draw(sizes) if k > 1 else 0.0))
        sent = total
    return ParallelModel(stages, draw(st.sampled_from(["ring", "tree"])),
                         micro_batches=draw(st.integers(0, 3)))


@settings(deadline=None, max_examples=examples(80))
@given(models())
def test_all_bytes_and_all_computation_are_there(model):
    """Bytes are those that stages say, of any number of micro-batches; the graph has no cycle."""
    stages = model_stages(model)
    Dag.of(stages)
    assert max(stage.flows.ranks for stage in stages if stage.flows is not None) <= model.gpus \
        if any(stage.flows is not None for stage in stages) else True
    sent = dict.fromkeys(("activations", "gradients", "experts", "all-reduce"), 0.0)
    for stage in stages:
        if stage.flows is not None:
            what = next(what for what in sent if stage.name.startswith(what))
            sent[what] += stage.flows.nbytes.sum()
    between = sum(stage.replicas * stage.in_bytes for stage in model.stages)
    edges = {"ring": lambda k: k * 2 * (k - 1) / k, "tree": lambda k: 2 * (k - 1) ** 2 / k}
    assert sent == pytest.approx({
        "activations": between, "gradients": between,
        "experts": sum(stage.replicas * stage.expert_bytes for stage in model.stages),
        "all-reduce": sum(edges[model.allreduce](stage.replicas) * stage.param_bytes
                          for stage in model.stages)})
    assert sum(stage.compute_s for stage in stages) == pytest.approx(
        sum(stage.forward_s + stage.backward_s for stage in model.stages))


def test_on_a_plain_network():
    """A model runs on hosts as its stages do, written out or not, and can be written to a file."""
    net = netsim.big_switch(7, 100.0)
    jobs = Workload([JobSpec(0, model=ParallelModel(THREE), iterations=2),
                     JobSpec(3, 0.5, model=ParallelModel(THREE, micro_batches=2))])
    found = netsim.simulate(net, jobs, seed=4)
    written = explicit(jobs, net, seed=4)
    assert [(job.model, len(job.stages)) for job in written] == [(None, 6), (None, 12)]
    again = netsim.simulate(net, written)
    assert again.jobs["finish_s"].tolist() == found.jobs["finish_s"].tolist()
    assert found.jobs["coflows"].tolist() == [12, 10]
    assert sorted(found.coflows["coflow"]) == sorted(set(found.coflows["coflow"]))


def test_a_model_has_to_be_drawn_before_it_is_written(tmp_path):
    jobs = Workload([JobSpec(0, model=ParallelModel(THREE), hosts=range(7))])
    with pytest.raises(InputError, match="job 0 has a model; draw its stages first"):
        netsim.traces.write_instance(jobs, tmp_path / "a.json")

"""Jobs of all kinds on the fabric of a cluster; held against the analytic model of A-SRPT."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import netsim
from netsim import (
    Cluster,
    JobSpec,
    ModelStage,
    ParallelModel,
    Stage,
    Workload,
    make_model,
    parallel_models,
)
from netsim.engine.view import Decision
from netsim.errors import AllocationError, InputError
from netsim.models.iteration_time import per_iteration
from netsim.models.servers import ServerKind
from tests.examples import ALL, examples
from tests.pairs import in_turn, pairs

RESERVED = {"name": "reserved", "shares": "gpus"}


class Given:
    """A placement that gives each job the GPUs that are written down for it."""

    def __init__(self, gpus):
        self.gpus = gpus

    def scope(self, cluster, job, load):
        return np.arange(cluster.total)

    def choose(self, cluster, job, candidates, load):
        return np.array(self.gpus[job.id])


def gpus_of(cluster, *placements):
    """Give jobs their GPUs, stage by stage, counts being servers by stages."""
    used, found = cluster.first[:-1].copy(), []
    for placement in placements:
        mine = []
        for counts in np.transpose(placement):
            for server, count in enumerate(counts):
                mine += range(used[server], used[server] + count)
                used[server] += count
        found.append(mine)
    return found


def seconds(cluster, jobs, gpus, allocator=RESERVED, **others):
    result = netsim.simulate(cluster, Workload(jobs), execution="fabric", placement=Given(gpus),
                             allocator=allocator, **others)
    return result.jobs["jct_s"].tolist()


# --- where the analytic model is exact ------------------------------------------------------

SECONDS = st.floats(0, 0.1)
BYTES = st.one_of(st.just(0.0), st.floats(1e3, 1e8))


@st.composite
def stages(draw, replicas, slices=1):
    """Stages of so many replicas."""
    made, sent = [], 0.0
    for number, k in enumerate(replicas):
        total = draw(BYTES) if number + 1 < len(replicas) else 0.0
        made.append(ModelStage(
            k, draw(SECONDS), draw(SECONDS), in_bytes=sent / k, out_bytes=total / k,
            param_bytes=draw(BYTES), slices=slices,
            slice_bytes=draw(BYTES) if slices > 1 else 0.0))
        sent = total
    return made


@st.composite
def spread(draw, replicas, servers):
    """How many replicas servers have of a stage: each at least one."""
    cuts = draw(st.sets(st.integers(1, replicas - 1), min_size=servers - 1, max_size=servers - 1)
                if servers > 1 else st.just(set()))
    return np.diff([0, *sorted(cuts), replicas]).tolist()


@st.composite
def apart(draw):
    """Stages of equally many replicas; no server has any of two stages that are neighbours.

    Stages that are not may share servers.
    """
    k, count, slices = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 2))
    rows = np.zeros((8, count), int)
    for number in range(count):
        first = 4 * (number % 2)
        held = draw(spread(k, draw(st.integers(1, k))))
        rows[first:first + len(held), number] = slices * np.array(held)
    return draw(stages([k] * count, slices)), rows


@st.composite
def together(draw):
    """All on one server, any numbers of replicas."""
    replicas = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    return draw(stages(replicas)), np.array([replicas])


@st.composite
def one_stage(draw):
    """Data parallelism, on any servers."""
    k = draw(st.integers(1, 12))
    held = draw(spread(k, draw(st.integers(1, min(k, 6)))))
    return draw(stages([k])), np.array(held)[:, None]


@st.composite
def alike(draw):
    """Stages of equally many replicas, equally many of each on every server."""
    servers, each, count = (draw(st.integers(1, 3)) for _ in range(3))
    return draw(stages([servers * each] * count)), np.full((servers, count), each)


def on(placements, g):
    """Return a cluster that holds them, and what all its servers are like."""
    servers = max(len(each) for each in placements)
    cluster = Cluster(servers=servers, gpus=g, nic=1.25e9, intra=50e9)
    padded = [np.vstack([each, np.zeros((servers - len(each), each.shape[1]), int)])
              for each in placements]
    return cluster, ServerKind(g, 1.25e9, 50e9), padded


@settings(deadline=None, max_examples=examples(150))
@given(st.lists(st.one_of(apart(), together(), one_stage(), alike()), min_size=1, max_size=2),
       st.integers(1, 2), st.integers(0, 3))
def test_reserved_agrees_with_the_analytic_model(drawn, iterations, micro_batches):
    """Each iteration takes alpha, whoever else runs; in synchronous pipelines, too."""
    models = [ParallelModel(made, micro_batches=micro_batches) for made, _ in drawn]
    cluster, kind, placements = on([rows for _, rows in drawn], 32)
    jobs = [JobSpec(k, model=model, iterations=iterations) for k, model in enumerate(models)]
    expected = [iterations * per_iteration(model, placement, kind)
                for model, placement in zip(models, placements, strict=True)]
    found = seconds(cluster, jobs, gpus_of(cluster, *placements))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-15)


def full(model, servers, each):
    """Return where the docs promise alpha: rows of counts on servers all of whose GPUs are taken.

    Stages on servers of their own, `each` replicas a server; or `each` of each stage on a server.
    """
    k, count = model.stages[0].replicas, len(model.stages)
    if servers == "apart":
        rows = np.zeros((count * k // each, count), int)
        for number in range(count):
            rows[number * k // each:(number + 1) * k // each, number] = each
        return rows, each
    return np.full((k // each, count), each), each * count


@pytest.mark.parametrize(("name", "micro_batches"), in_turn(parallel_models(), [0, 3]))
def test_models_of_the_catalogue_take_alpha_on_full_servers(name, micro_batches):
    """Equally many replicas a stage, few stages and more; no GPU of a server is left without work.

    So the shares of GPUs are all that there is, and what a stage sends, receives and reduces must
    share them in turn.
    """
    least, tried = parallel_models()[name], 0
    counts = [least, least + 1] + [least + 2, 2, 3, 4] * ALL
    for count, k in itertools.product(dict.fromkeys(counts), [1, 2, 4]):
        if not least <= count <= 64 // k:
            continue
        model = make_model(name, count * k, stages=count, micro_batches=micro_batches)
        for servers, each, nic in pairs(["apart", "alike"], [1, 2], [1e8, 1.25e9]):
            if k % each:
                continue
            rows, g = full(model, servers, each)
            cluster = Cluster(servers=len(rows), gpus=g, nic=nic, intra=50e9)
            found = seconds(cluster, [JobSpec(0, model=model, iterations=2)],
                            gpus_of(cluster, rows))
            expected = 2 * per_iteration(model, rows, ServerKind(g, nic, 50e9))
            assert found == pytest.approx([expected], rel=1e-9), (count, k, servers, each)
            tried += 1
    assert tried >= (12 if ALL else 4)


def test_gradients_that_come_in_while_their_stage_reduces():
    """Two stages of 2 replicas on 4 servers of 1 GPU; 10 MB take 16 ms at half of 1.25 GB/s.

    The first stage needs 10 + 16 + 80 ms, as its ring sends 100 MB; the second 100 + 16 ms. They
    exchange first, in 16 ms, and both are done 100 ms later at the latest.
    """
    model = ParallelModel([ModelStage(2, 0, 0.01, out_bytes=10e6, param_bytes=100e6),
                           ModelStage(2, 0, 0.1, in_bytes=10e6)])
    cluster = Cluster(servers=4, gpus=1, nic="10Gbps", intra="300GB/s")
    assert seconds(cluster, [JobSpec(0, model=model, iterations=3)],
                   [[0, 1, 2, 3]]) == pytest.approx([3 * 0.116])


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.one_of(apart(), alike()), min_size=1, max_size=2), st.integers(0, 2))
@example([([ModelStage(2, 0, 0.01, out_bytes=10e6, param_bytes=100e6),
            ModelStage(2, 0, 0.1, in_bytes=10e6)], np.repeat(np.eye(2, dtype=int), 2, axis=0))], 0)
def test_reserved_agrees_on_full_servers(drawn, micro_batches):
    """As above, but each job has whole servers of its own, of as many GPUs as its fullest has.

    Of `apart` some GPUs are left; of `alike` none.
    """
    for made, rows in drawn:
        model = ParallelModel(made, micro_batches=micro_batches)
        cluster, kind, (placement,) = on([rows], int(rows.sum(axis=1).max()))
        found = seconds(cluster, [JobSpec(0, model=model)], gpus_of(cluster, placement))
        assert found == pytest.approx([per_iteration(model, placement, kind)], rel=1e-9, abs=1e-15)


def test_jobs_that_share_full_servers_take_alpha_each():
    """Two pipelines of 3 stages, a replica of either on each of 3 servers of 2 GPUs."""
    kind, cluster = ServerKind(2, 1.25e9, 50e9), Cluster(3, 2, nic=1.25e9, intra=50e9)
    models = [make_model("bert-large", 3, stages=3), make_model("vgg19", 3, stages=3)]
    jobs = [JobSpec(k, model=model, iterations=5) for k, model in enumerate(models)]
    found = seconds(cluster, jobs, [[0, 2, 4], [5, 3, 1]])
    assert found == pytest.approx([5 * per_iteration(model, np.eye(3, dtype=int), kind)
                                   for model in models], rel=1e-9)


@st.composite
def anything(draw):
    """Any stages, each on any servers."""
    replicas = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    rows = np.zeros((4, len(replicas)), int)
    for number, k in enumerate(replicas):
        for server in draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)):
            rows[server, number] += 1
    return draw(stages(replicas)), rows


@settings(deadline=None, max_examples=examples(100))
@given(anything(), st.integers(0, 3), st.booleans())
def test_nothing_is_faster_than_the_analytic_model(drawn, micro_batches, full):
    """On shares x/g the fabric takes alpha or longer: a transfer is as slow as its slower end.

    Shares are enough, also where a server has no GPU left.
    """
    model = ParallelModel(drawn[0], micro_batches=micro_batches)
    cluster, kind, (placement,) = on([drawn[1]], int(drawn[1].sum(axis=1).max()) if full else 16)
    found, = seconds(cluster, [JobSpec(0, model=model)], gpus_of(cluster, placement))
    assert found >= per_iteration(model, placement, kind) * (1 - 1e-9)


def test_replicas_are_taken_server_by_server():
    """GPUs in any order: a ring enters each server once. D = 2 * 3/4 * 100 MB at half of 1 GB/s."""
    cluster = Cluster(servers=2, gpus=4, nic=1e9, intra=50e9)
    model = ParallelModel([ModelStage(4, param_bytes=1e8), ModelStage(1)])
    jobs = [JobSpec(0, model=model)]
    assert seconds(cluster, jobs, [[0, 4, 1, 5, 6]]) == pytest.approx([0.3])
    assert seconds(cluster, jobs, [[4, 0, 5, 1, 2]]) == pytest.approx([0.3])


def test_experts_and_slices_agree():
    """Groups of experts on servers of their own; replicas of two slices, two on one server."""
    kind, cluster = ServerKind(4, 1e9, 50e9), Cluster(servers=4, gpus=4, nic=1e9, intra=50e9)
    for stage, placement in (
            (ModelStage(4, 0.1, 0.1, param_bytes=1e8, expert_bytes=3e7), [[1], [1], [1], [1]]),
            (ModelStage(3, 0.1, 0.1, param_bytes=1e8, slices=2, slice_bytes=3e7), [[4], [2]])):
        model = ParallelModel([stage])
        assert seconds(cluster, [JobSpec(0, model=model, compute_s=1)],
                       gpus_of(cluster, placement)) == pytest.approx(
            [1 + per_iteration(model, placement, kind)], rel=1e-9)


def test_experts_of_a_pipeline_agree():
    """Four groups on servers of their own beside their neighbours' activations and gradients.

    Each GPU is a server; groups send 30 MB, and what comes in of either neighbour is 10 MB.
    """
    experts = ModelStage(4, 0.1, 0.1, in_bytes=1e7, out_bytes=1e7, param_bytes=1e8,
                         expert_bytes=3e7)
    model = ParallelModel([ModelStage(4, 0.2, 0.1, out_bytes=1e7, param_bytes=2e8), experts,
                           experts, ModelStage(4, 0.1, 0.3, in_bytes=1e7)])
    placement, cluster = np.repeat(np.eye(4, dtype=int), 4, axis=0), Cluster(16, 1, nic=1e9,
                                                                             intra=50e9)
    expected = 1 + per_iteration(model, placement, ServerKind(1, 1e9, 50e9))
    assert seconds(cluster, [JobSpec(0, model=model, compute_s=1)],
                   gpus_of(cluster, placement)) == pytest.approx([expected], rel=1e-9)


# --- where it is not ------------------------------------------------------------------------


def uneven():
    """Four replicas, 100 MB each to one replica; a GPU has 250 MB/s of a NIC each way."""
    model = ParallelModel([ModelStage(4, 0.1, 0.1, out_bytes=1e8, param_bytes=1e8),
                           ModelStage(1, 0.1, 0.1, in_bytes=4e8)])
    return Cluster(servers=2, gpus=4, nic=1e9, intra=50e9), model, [[4, 0], [0, 1]]


def test_a_transfer_is_as_slow_as_its_slower_end():
    """Eq. 5 gives the four 2 * 100/250 s, and the one 2 * 400/250 s, for the same bytes.

    So the four are done after 0.2 + 0.8 + D/B_intra, D = 150 MB, to Eq. 7; and the one after
    0.2 + 3.2. On the fabric the four wait for the one: 0.2 + 3.2 + 0.003.
    """
    cluster, model, placement = uneven()
    assert per_iteration(model, placement, ServerKind(4, 1e9, 50e9)) == pytest.approx(3.4)
    job, gpus = [JobSpec(0, model=model)], gpus_of(cluster, placement)
    assert seconds(cluster, job, gpus) == pytest.approx([3.403])
    # All of the NIC, both ways at once: 400 MB at 1 GB/s either way.
    for allocator in ("maxmin", "parrot", "sebf"):
        assert seconds(cluster, job, gpus, allocator) == pytest.approx([0.2 + 0.4 + 0.003])


# --- others ---------------------------------------------------------------------------------


def test_any_job_runs_on_the_fabric():
    """Two servers of 2 GPUs; 1 MB/s between them, 10 MB/s inside."""
    cluster = Cluster(gpus=[2, 2], nic=1e6, intra=1e7)
    jobs = [JobSpec(0, pattern={"name": "all-to-all"}, ranks=4, nbytes=4e6, iterations=2),
            JobSpec(1, stages=[Stage("a", [(0, 1, 1e6)], 1), Stage("b", after=("a",))], ranks=3),
            JobSpec(2, pattern={"name": "parameter-server", "servers": 2}, ranks=4, nbytes=1e6,
                    redraw=True, iterations=3),
            JobSpec(3, pattern={"name": "ring-all-reduce", "stepwise": True}, ranks=4, nbytes=4e6)]
    result = netsim.simulate(cluster, jobs, execution="fabric")
    # 2 * 2 MB leave a server, 0.1 s inside beside it; 1 s and 1 MB inside; ...; 6 steps of 1 MB.
    took = (result.jobs["finish_s"] - result.jobs["start_s"]).tolist()
    assert took[:2] == pytest.approx([8, 1.1])
    assert took[3] == pytest.approx(6)
    assert result.jobs["coflows"].tolist() == [2, 0, 6, 6]
    assert len(set(result.coflows["coflow"])) == 14
    np.testing.assert_array_less(result.jobs["lower_bound_s"] * (1 - 1e-9), took)


def test_a_coflow_that_waits_for_what_is_inside():
    """1 MB in 1 s from server to server, and 40 MB in 4 s inside one."""
    cluster = Cluster(gpus=[2, 1], nic=1e6, intra=1e7)
    job = JobSpec(0, stages=[Stage("a", [(0, 1, 40e6), (0, 2, 1e6)], 1),
                             Stage("b", [(2, 0, 1e6)], after=("a",))], iterations=2)
    result = netsim.simulate(cluster, [job], execution="fabric")
    assert result.jobs["finish_s"].tolist() == pytest.approx([2 * (1 + 4 + 1)])
    ends = result.coflows.sort_values("coflow")["finish_s"].tolist()
    assert ends == pytest.approx([5, 6, 11, 12])


def test_rings_and_patterns_under_reserved():
    """Rings of 4 GPUs on 2 servers of 4: 2/4 of a NIC; all-to-all likewise; 2 jobs fill it."""
    cluster = Cluster(servers=2, gpus=4, nic=1e6, intra=1e12)
    gpus = [[0, 1, 4, 5], [2, 3, 6, 7]]
    jobs = [JobSpec(0, pattern="ring-all-reduce", ranks=4, nbytes=4e6),
            JobSpec(1, pattern="all-to-all", ranks=4, nbytes=4e6)]
    assert seconds(cluster, jobs, gpus) == pytest.approx([6 / 0.5, 4 / 0.5])


def test_a_network_that_cannot_carry_what_gpus_have():
    """Leaves with a quarter of what their servers could send."""
    topology = netsim.leaf_spine(leaves=2, spines=1, hosts_per_leaf=4, capacity=1e6,
                                 oversubscription=4)
    cluster = Cluster(gpus=[1] * 8, nic=1e6, intra=1e9, topology=topology)
    jobs = [JobSpec(k, pattern="ring-all-reduce", ranks=2, nbytes=1e6) for k in range(4)]
    with pytest.raises(AllocationError, match=r"reserved at t = 0 s: the parts of link .* "
                                              r"add up to 4, by"):
        seconds(cluster, jobs, [[k, 4 + k] for k in range(4)])


def test_slices_that_a_placement_tears_apart():
    cluster = Cluster(servers=2, gpus=3)
    model = ParallelModel([ModelStage(2, slices=2, slice_bytes=5)], name="mine")
    with pytest.raises(AllocationError, match="placement Given, for job 0: replicas of stage 0 of "
                                              r"model 'mine' .* on the servers \[0, 0, 0, 1\]"):
        seconds(cluster, [JobSpec(0, model=model)], [[0, 1, 2, 3]])
    # Replicas are alike, so that any two GPUs of a server will do.
    assert seconds(cluster, [JobSpec(0, model=model)], [[0, 3, 4, 1]]) == pytest.approx(
        [5 / cluster.intra])

    class Decides:
        def decide(self, view):
            return [(job, [0, 1, 2, 3]) for job in view.waiting]

    with pytest.raises(AllocationError, match=r"scheduler .*Decides, for job 0: replicas of stage"):
        netsim.simulate(cluster, [JobSpec(0, model=model)], scheduler=Decides(),
                        execution="asrpt")

    class Careless(Given):
        keeps_slices = False

    with pytest.raises(InputError, match=r"placement .*Careless' needs no slices: it does not keep "
                                         "the slices of a replica on one server; job 0 has some"):
        netsim.simulate(cluster, [JobSpec(0, model=model)], execution="fabric",
                        placement=Careless([[0, 1, 3, 4]]))


def test_only_rings_by_the_contention_model_and_its_plans():
    cluster = Cluster(servers=2, gpus=2)
    ring = JobSpec(0, model=ParallelModel([ModelStage(4, 0.1, 0.2, param_bytes=1e6)]))
    same = JobSpec(0, pattern="ring-all-reduce", ranks=4, nbytes=1e6, compute_s=0.1 + 0.2)
    for execution in ("rar-contention:time=continuous", "fabric"):
        for scheduler in ("fifo", "ff"):
            one, other = (netsim.simulate(cluster, [job], execution=execution, scheduler=scheduler)
                          for job in (ring, same))
            assert one.jobs["finish_s"].tolist() == pytest.approx(other.jobs["finish_s"].tolist())
    pair = JobSpec(1, model=ParallelModel([ModelStage(), ModelStage()], name="mine"))
    with pytest.raises(InputError, match=r"execution 'rar-contention' needs rings: job 1 is no "
                                         r"ring: it has the model 'mine'\. .* 'fifo'"):
        netsim.simulate(cluster, [ring, pair], execution="rar-contention")
    with pytest.raises(InputError, match="scheduler 'ff' needs rings: job 1 is no ring"):
        netsim.simulate(cluster, [ring, pair], execution="fabric", scheduler="ff")
    with pytest.raises(InputError, match="it has explicit stages"):
        netsim.sweep(cluster, [JobSpec(0, stages=[Stage("a", [(0, 1, 1)])])], scheduler=["fifo"],
                     execution="rar-contention")
    for execution in ("fabric", None):
        done = netsim.simulate(cluster, [ring, pair], execution=execution)
        assert done.jobs["finish_s"].notna().all()


def test_schedules_by_the_time_of_an_iteration_are_those_of_the_fabric():
    """Stages of equally many replicas, a server each, and data parallelism: alpha is exact."""
    cluster = Cluster(servers=4, gpus=2, nic=1e9, intra=50e9)
    pair = ParallelModel([ModelStage(2, 0.1, 0.2, out_bytes=1e7, param_bytes=3e7),
                          ModelStage(2, 0.2, 0.2, in_bytes=1e7, param_bytes=5e7)])
    whole = ParallelModel([ModelStage(3, 0.3, 0.3, param_bytes=1e8)])
    jobs = [JobSpec(k, 0.5 * k, 3 + k % 4, model=(pair, whole)[k % 2]) for k in range(8)]
    for scheduler in ("a-srpt-perfect", "wcs-subtime"):
        by_model, on_fabric = (
            netsim.simulate(cluster, jobs, scheduler=scheduler, **execution).jobs
            for execution in ({"execution": "asrpt"},
                              {"execution": "fabric", "allocator": RESERVED}))
        for column in ("start_s", "finish_s"):
            np.testing.assert_allclose(on_fabric[column], by_model[column], rtol=1e-9)
        assert on_fabric["placement"].tolist() == by_model["placement"].tolist()


def test_what_coflows_cannot_say_runs_by_the_time_of_an_iteration():
    model = ParallelModel([ModelStage(2, 0.1, 0.2, param_bytes=3e7)], allreduce_factor=0.5)
    jobs, cluster = [JobSpec(0, model=model)], Cluster(servers=2, gpus=2)
    assert netsim.simulate(cluster, jobs, execution="asrpt").jobs["finish_s"].notna().all()
    with pytest.raises(InputError, match="allreduce_factor"):
        netsim.simulate(cluster, jobs, execution="fabric")


# --- what a job goes on with that is preempted within an iteration ---------------------------


class Moves:
    """Starts the only job on some GPUs, and moves it to others at an instant."""

    def __init__(self, first, at_s, then):
        self.first, self.at_s, self.then = np.array(first), at_s, np.array(then)

    def decide(self, view):
        if view.pending:
            return Decision([(0, self.first)], wake_at=self.at_s)
        if view.now == self.at_s:
            return Decision([(0, self.then)], [0])
        return Decision()


@pytest.mark.parametrize(("first", "then", "end"), [
    ([0, 2], [0, 1], 3.5), ([0, 2], [1, 3], 5.0), ([0, 1], [0, 2], 7.0)])
@pytest.mark.parametrize("allocator", ["maxmin", "parrot"])
def test_a_ring_goes_on_on_more_or_fewer_servers(first, then, end, allocator):
    """Of 1 s of computation and 4 MB for 4 s on two servers, or for 2 s inside one.

    At 2 s a quarter is sent. The rest takes 3/4 of 2 s, or another 3 s. Inside a server the
    exchange is computation, of which 1 s is left; on two servers all is sent after it.
    """
    cluster = Cluster(servers=2, gpus=2, nic=1e6, intra=2e6)
    job = JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=4e6, compute_s=1.0)
    result = netsim.simulate(cluster, Workload([job]), scheduler=Moves(first, 2.0, then),
                             execution="fabric:xi2=0", allocator=allocator,
                             preemption={"keep": "fraction"})
    assert result.jobs["finish_s"].tolist() == pytest.approx([end])
    assert result.jobs["preemptions"].tolist() == [1]

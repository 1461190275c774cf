"""Plans of pipelines are the best of all contiguous partitions, by costs of Eq. 4 to 7."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.errors import InputError
from netsim.models.catalogue import MODELS
from netsim.models.gpus import Gpu
from netsim.models.iteration_time import alpha_max, per_iteration
from netsim.models.planner import Layers, plan_layers, plan_model
from netsim.models.servers import ServerKind
from tests.examples import examples
from tests.offenders import check_each


def by_hand(layers, ends, replicas, samples, gpu, server, apart):
    """Return the time of the slowest stage of a plan, written out layer by layer."""
    share, slowest = server.nic / server.gpus, 0.0
    fits = sum(replicas) <= server.gpus and not apart
    for begin, end, k in zip((0, *ends), ends, replicas, strict=False):
        mine = samples / k
        flops = sum(layers.flops[begin:end])
        parameters = sum(layers.parameters[begin:end])
        if 16 * parameters > gpu.memory or k > samples:
            return math.inf
        crossing = ((layers.out_bytes[begin - 1] if begin else 0)
                    + (layers.out_bytes[end - 1] if end < len(layers.flops) else 0))
        ring = 2 * (k - 1) / k * layers.bytes_per_number * parameters
        if apart:
            reduce = share
        elif k <= server.gpus:
            reduce = server.intra
        else:
            reduce = share * (k % server.gpus or server.gpus)
        slowest = max(slowest, 3 * flops * mine / gpu.speed + ring / reduce
                      + 2 * crossing * mine / (server.intra if fits else share))
    return slowest


def enumerated(layers, samples, gpus, *given):
    """Return the best of all plans for each number of stages: all partitions, all replicas."""
    count, found = len(layers.flops), {}
    for stages in range(1, min(count, gpus) + 1):
        cuts = itertools.combinations(range(1, count), stages - 1)
        shares = [np.diff((0, *each, gpus)).tolist()
                  for each in itertools.combinations(range(1, gpus), stages - 1)]
        found[stages] = min(by_hand(layers, (*cut, count), replicas, samples, *given)
                            for cut, replicas in itertools.product(cuts, shares))
    return {stages: seconds for stages, seconds in found.items() if seconds < math.inf}


numbers = st.floats(0.01, 100)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=1, max_size=5), st.integers(1, 6),
       st.integers(1, 8), st.floats(1, 200), st.integers(1, 4), st.booleans())
def test_plans_are_the_best_of_all_partitions(rows, gpus, samples, memory, per_server, apart):
    """In GB, tera-operations and MB; memory is short at times, so that some numbers are not."""
    parameters, flops, sent = np.array(rows).T
    layers = Layers(parameters * 1e9 / 16, flops * 1e12, sent * 1e6)
    gpu, server = Gpu(100e12, memory * 1e9), ServerKind(per_server, "8Gbps", "10GB/s")
    plans = plan_layers(layers, samples, gpus, gpu, server, apart=apart)
    best = enumerated(layers, samples, gpus, gpu, server, apart)
    assert {len(plan.ends): pytest.approx(plan.iteration_s, rel=1e-6) for plan in plans} == best
    for plan in plans:
        replicas = [stage.replicas for stage in plan.model.stages]
        assert sum(replicas) == gpus
        assert (0, *plan.ends) == tuple(sorted({0, *plan.ends}))
        assert plan.ends[-1] == len(rows)
        assert plan.iteration_s == pytest.approx(
            by_hand(layers, plan.ends, replicas, samples, gpu, server, apart), rel=1e-9)


@pytest.mark.parametrize("gpus", [1, 2, 5, 8])
def test_on_one_server_a_plan_takes_alpha(gpus):
    """There, each exchange has the rate inside, so that Eq. 7 is the planner's cost."""
    server = ServerKind(8, "1Gbps", "300GB/s")

    def takes_alpha(name):
        for plan in plan_model(name, gpus, server=server):
            replicas = [stage.replicas for stage in plan.model.stages]
            assert per_iteration(plan.model, [replicas], server) == pytest.approx(plan.iteration_s)

    check_each(takes_alpha, MODELS)


@pytest.mark.parametrize("gpus", [1, 2, 5, 8, 64])
def test_plans_of_gpus_apart_have_the_least_alpha_max(gpus):
    """The planner's cost is Eq. 7 with each replica alone on a server; elsewhere it is less."""
    server = ServerKind(8, "1Gbps", "300GB/s")

    def has_the_least(name):
        plans = plan_model(name, gpus, server=server, within=1e9)
        together = {len(plan.ends): plan.model for plan in plans}
        for plan in plan_model(name, gpus, server=server, apart=True):
            assert alpha_max(plan.model, server) == pytest.approx(plan.iteration_s)
            other = together[len(plan.ends)]
            assert alpha_max(other, server) >= plan.iteration_s * (1 - 1e-6)

    check_each(has_the_least, MODELS)


@pytest.mark.parametrize("gpus", [2, 3, 4])
def test_of_replicas_on_several_servers_the_last_server_decides(gpus):
    """One stage of k replicas on servers of 2: D g/(x B), x those of the last; k = 2 fits inside.

    h = 4 GB, so that D = 2 (k-1)/k 4 GB; at a GPU's share of 0.5 GB/s, or 10 GB/s inside.
    """
    layers = Layers(np.array([1e9]), np.array([0.0]), np.array([0.0]))
    server = ServerKind(2, "8Gbps", "10GB/s")
    (plan,) = plan_layers(layers, 8, gpus, Gpu(1e12, "80GB"), server)
    sent = 2 * (gpus - 1) / gpus * 4e9
    assert plan.iteration_s == pytest.approx({2: sent / 10e9, 3: sent / 0.5e9, 4: sent / 1e9}[gpus])


def test_two_layers_by_hand():
    """4 samples on 3 GPUs: the layer that computes has two replicas, that of parameters one.

    Alone, the first takes 3 * 1 * 4/2 = 6 s on two GPUs, and 2 * 0.5 * 4/2 = 2 s to send, at 1 GB/s
    each; the second 3 * 0.1 * 4 = 1.2 s, and 4 s to receive. All three on both layers would take
    3 * 1.1 * 4/3 = 4.4 s and 2 * 2/3 * 8 = 10.7 s to reduce 8 GB.
    """
    layers = Layers(np.array([0.0, 2e9]), np.array([1e12, 0.1e12]), np.array([0.5e9, 0.0]))
    server = ServerKind(8, "64Gbps", "300GB/s")
    one, two = plan_layers(layers, 4, 3, Gpu(2.5e12, "80GB"), server, apart=True)
    assert (one.ends, one.model.stages[0].replicas) == ((2,), 3)
    assert one.iteration_s == pytest.approx(4.4 + 8 * 4 / 3)
    assert (two.ends, [stage.replicas for stage in two.model.stages]) == ((1, 2), [2, 1])
    assert two.iteration_s == pytest.approx(8.0)


def test_a_mini_batch_is_divided_among_replicas_and_each_has_a_sample():
    """4 samples of BERT: no stage has more than 4 replicas, and each has its part of them."""
    for plan in plan_model("bert-large", 16, within=1e6):
        for stage in plan.model.stages:
            assert stage.replicas <= 4
            assert stage.in_bytes in (0, pytest.approx(4 * 512 * 1024 * 4 / stage.replicas))
    assert {len(plan.ends) for plan in plan_model("bert-large", 16, within=1e6)} == {*range(4, 17)}
    assert plan_model("bert-large", 200) == ()  # 24 layers, 4 replicas each: 96 at most


def test_blocks_have_all_of_a_model():
    check_each(has_all_of_it, MODELS)


def has_all_of_it(name):
    """A plan of any number of stages computes as much as one with one, and has its parameters."""
    facts = MODELS.resolve(name).facts
    gpu = Gpu(100e12, "10000GB")
    for plan in plan_model(name, 8, gpu=gpu, within=1e6):
        work = sum(stage.replicas * stage.forward_s for stage in plan.model.stages)
        flops = facts.get("forward_flops") or 2 * facts["parameters"] * 512
        assert work * gpu.speed == pytest.approx(flops * facts["batch"])
        assert sum(stage.param_bytes for stage in plan.model.stages) == pytest.approx(
            facts["parameters"] * facts["bytes_per_number"])


#: Multiply-adds and parameters, in units of 1e6, as published with the networks' weights.
PUBLISHED = {"vgg19": (19_632, 143.667), "resnet152": (11_514, 60.193),
             "inception-v3": (5_713, 23.835)}


@pytest.mark.parametrize("name", PUBLISHED)
def test_blocks_are_those_of_the_published_networks(name):
    rows = np.array(MODELS.resolve(name).facts["blocks"], np.float64)
    sums = (rows[:, :1] * rows[:, 1:3]).sum(axis=0)
    assert sums.tolist() == pytest.approx([PUBLISHED[name][1] * 1e6, PUBLISHED[name][0] * 1e6],
                                          rel=1e-4)


def test_memory_asks_for_stages():
    """GPT-13B on V100: 5.2 GB of state a layer, at most 6 of 40 layers in 32 GB."""
    plans = plan_model("gpt-13b", 16, gpu="v100", within=1e6)
    assert len(plans[0].ends) == 7
    for plan in plans:
        assert max(np.diff((0, *plan.ends))) <= 6
    assert plan_model("gpt-13b", 6, gpu="v100") == ()
    assert plan_model("gpt-175b", 8, gpu="h100-nvl-1g.12gb") == ()


def test_only_plans_that_are_not_much_slower():
    for within in (1, 1.2, 2):
        plans = plan_model("vgg19", 16, gpu="v100", within=within)
        best = min(plan.iteration_s for plan in plans)
        assert all(plan.iteration_s <= within * best for plan in plans)
    assert len(plan_model("vgg19", 16, gpu="v100", within=1e9)) == 16


@pytest.mark.parametrize(("options", "message"), [
    ({"name": "vgg16"}, "unknown model 'vgg16'"),
    ({"gpus": 0}, "gpus must be a whole number of at least 1, not 0"),
    ({"gpu": "v1"}, "unknown GPU 'v1'"),
    ({"apart": 1}, "apart must be true or false, not 1"),
    ({"within": 0.5}, "within must be a finite number of at least 1, not 0.5"),
])
def test_plans_that_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        plan_model(**{"name": "vgg19", "gpus": 2} | options)

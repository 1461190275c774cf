"""Planning pipelines: stages of contiguous layers, and the replicas of each.

A stage takes as long as its replicas compute, exchange activations with their neighbours and
all-reduce; an asynchronous pipeline, as long as its slowest stage (Eq. 7 of A-SRPT). For each
number of stages, dynamic programming over layers and GPUs finds the plan whose slowest stage takes
least, as the planners of pipelines do that A-SRPT refers to: PipeDream, DAPPLE, and Luo et al.,
"Efficient Pipeline Planning for Expedited Distributed DNN Training", INFOCOM 2022.

Which servers a job will get is not known when it is planned. By default, its GPUs are taken to be
on as few as possible. If they are taken to be *apart*, each on a server of its own, plans have the
least alpha_max.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats
from netsim.base.values import about, as_choice, as_flag, as_number, as_whole, known_names
from netsim.models import ModelStage, ParallelModel
from netsim.models.catalogue import (
    BACKWARD,
    GPU,
    MODELS,
    forward_flops,
    numbers_between,
    state_bytes,
)
from netsim.models.gpus import Gpu, gpu_of
from netsim.models.kernels import fill_plans
from netsim.models.servers import ServerKind


class Layers(NamedTuple):
    """The layers of a model in order; arrays of shape (layers,).

    Attributes
    ----------
    parameters : ndarray
        Number of parameters.
    flops : ndarray
        Forward operations for a sample; backward takes twice as many.
    out_bytes : ndarray
        Activations of a sample that the next layer receives; gradients come back in the same size.
    bytes_per_number : float
        Bytes of a parameter.
    """

    parameters: Floats
    flops: Floats
    out_bytes: Floats
    bytes_per_number: float = 4.0


class Plan(NamedTuple):
    """A way to train a model on a number of GPUs.

    Attributes
    ----------
    model : ParallelModel
        The stages, with what they compute and send.
    ends : tuple of int
        The layer that follows each stage, counted from 0.
    iteration_s : float
        What the slowest stage takes by the planner's costs, in seconds. It is alpha on a single
        server, and with `apart` alpha_max.
    """

    model: ParallelModel
    ends: tuple[int, ...]
    iteration_s: float


@known_names
def plan_model(name: str, gpus: int, *, gpu: str | Mapping[str, Any] | Gpu = GPU,
               server: ServerKind | None = None, apart: bool = False, within: float = 2.0
               ) -> tuple[Plan, ...]:
    """Plan the training of a model of the catalogue on a number of GPUs; see `plan_layers`.

    Each iteration trains the model's mini-batch, whose samples the replicas of a stage divide
    among themselves (A-SRPT, Section III-A).

    Parameters
    ----------
    name : str
        A name of the catalogue.
    gpus : int
        Number of GPUs.
    gpu : str, mapping or Gpu
        The kind of GPU, as for `netsim.parallel_models`.
    server : ServerKind, optional
        The servers; by default of 8 GPUs, with NICs of 10 Gbps and 300 GB/s inside.
    apart : bool
        Whether to plan for GPUs on servers of their own, instead of as few as possible.
    within : float
        Largest time of an iteration over that of the best plan, at least 1; slower numbers of
        stages are left out.

    Returns
    -------
    tuple of Plan
        The best plan for each number of stages, the fewest stages first; empty if no number is
        possible.

    Raises
    ------
    UnknownNameError
        If the catalogue has no such model or GPU.
    InputError
        If `gpus` is not a whole number of at least 1, or `within` is less than 1.

    Examples
    --------
    In two stages, one has the first layers of VGG19, which compute, in seven replicas, and the
    other its last layers, which have most of its parameters, in one.

    >>> [(plan.ends, [stage.replicas for stage in plan.model.stages])
    ...  for plan in plan_model("vgg19", 8, gpu="v100")[:2]]
    [((19,), [8]), ((12, 19), [7, 1])]
    """
    gpus, apart = as_whole(gpus, "gpus", 1), as_flag(apart, "apart")
    factor = as_number(within, "within", least=1)
    with about("name"):
        name = as_choice(name, "model", MODELS)
    found = _planned(name, gpus, gpu_of(gpu), server or ServerKind(), apart)
    most = factor * min((plan.iteration_s for plan in found), default=0.0)
    return tuple(plan for plan in found if plan.iteration_s <= most)


@lru_cache(maxsize=4096)
def _planned(name: str, gpus: int, gpu: Gpu, server: ServerKind, apart: bool) -> tuple[Plan, ...]:
    facts = MODELS.resolve(name).facts
    return plan_layers(_layers_of(facts), facts["batch"], gpus, gpu, server, apart=apart,
                       name=name)


def plan_layers(layers: Layers, samples: float, gpus: int, gpu: Gpu, server: ServerKind, *,
                apart: bool = False, name: str = "model") -> tuple[Plan, ...]:
    """Plan the training of layers on a number of GPUs, all of which are used.

    A stage of k replicas of the layers from a to b takes, by Eq. 4 to 6 of A-SRPT with N samples::

        computation    3 F N/(k R)            F their forward operations, R the GPU's speed
        communication  2 (A_a + A_b) N/(k B)  A the activations of a sample before and behind it
        all-reduce     2(k-1)/k h/B'          h the bytes of their parameters

    If the job fits into a server, B is the rate inside, else a GPU's share of the NIC: the planner
    does not know which stages will share a server. If k replicas fit into a server, B' is the rate
    inside, else x shares of the NIC, where x is the number of replicas on the last of the servers
    that they fill. With `apart`, both are a GPU's share of the NIC. A stage's state must fit into
    the memory of a GPU, and each of its replicas needs a sample.

    Parameters
    ----------
    layers : Layers
    samples : float
        N, the size of a mini-batch.
    gpus : int
    gpu : Gpu
    server : ServerKind
    apart : bool
        As for `plan_model`.
    name : str
        Name of the models that are made.

    Returns
    -------
    tuple of Plan
        For each number of stages that is possible, in ascending order, a plan whose slowest stage
        takes least. Of plans that tie within 1e-9, the last stage begins at the first layer, and
        has the fewest replicas; and so on towards the first stage.
    """
    count, most = len(layers.flops), min(gpus, len(layers.flops))
    costs = stage_costs(layers, samples, gpus, gpu, server, apart)
    best = np.full((most + 1, count + 1, gpus + 1), np.inf)
    begin, replicas = (np.zeros(best.shape, np.int32) for _ in range(2))
    fill_plans(costs, best, begin, replicas)
    found = []
    for stages in range(1, most + 1):
        if best[stages, count, gpus] < np.inf:
            ends, numbers = _traced(stages, begin, replicas)
            model = ParallelModel(_stages(layers, samples, ends, numbers, gpu), name=name)
            found.append(Plan(model, ends, float(best[stages, count, gpus])))
    return tuple(found)


def stage_costs(layers: Layers, samples: float, gpus: int, gpu: Gpu, server: ServerKind,
                apart: bool) -> Floats:
    """Compute the seconds of each possible stage; inf if it is not possible. See `plan_layers`.

    The shape is (layers + 1, layers + 1, replicas), for layers from a up to b, exclusive, on k + 1
    GPUs.
    """
    k = np.arange(1, max(1, min(gpus, int(samples))) + 1)
    parameters, flops = _from_to(layers.parameters), _from_to(layers.flops)
    sent = np.concatenate(([0.0], layers.out_bytes[:-1], [0.0]))
    share = server.nic / server.gpus
    rate = server.intra if gpus <= server.gpus and not apart else share
    last = np.where(k % server.gpus, k % server.gpus, server.gpus)  # replicas on the last server
    reduce = np.where(k <= server.gpus, server.intra, last * share) if not apart else share
    each = (1 + BACKWARD) * flops / gpu.speed + 2 * (sent[:, None] + sent) / rate
    costs = (each[:, :, None] * samples / k
             + 2 * (k - 1) / k * layers.bytes_per_number * parameters[:, :, None] / reduce)
    possible = np.triu(state_bytes(1.0) * parameters <= gpu.memory, 1)
    return np.where(possible[:, :, None], costs, np.inf)


def _from_to(values: Floats) -> Floats:
    """Sum values from a up to b, exclusive, for all a and b."""
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return sums - sums[:, None]


def _traced(stages: int, begin: NDArray[np.int32], replicas: NDArray[np.int32]
            ) -> tuple[tuple[int, ...], list[int]]:
    """Trace the ends and the replicas of the stages of a plan from the choices for each."""
    _, layer, left = (size - 1 for size in begin.shape)
    ends, numbers = [], []
    for stage in range(stages, 0, -1):
        ends.append(layer)
        numbers.append(int(replicas[stage, layer, left]))
        layer, left = int(begin[stage, layer, left]), left - numbers[-1]
    return tuple(ends[::-1]), numbers[::-1]


def _stages(layers: Layers, samples: float, ends: tuple[int, ...], replicas: list[int], gpu: Gpu
            ) -> list[ModelStage]:
    """Make the stages of a plan."""
    sent = np.concatenate(([0.0], layers.out_bytes[:-1], [0.0]))
    found = []
    for begin, end, k in zip((0, *ends), ends, replicas, strict=False):
        forward_s = float(layers.flops[begin:end].sum() * samples / k / gpu.speed)
        found.append(ModelStage(
            k, forward_s, BACKWARD * forward_s, float(sent[begin] * samples / k),
            float(sent[end] * samples / k),
            float(layers.bytes_per_number * layers.parameters[begin:end].sum())))
    return found


def _layers_of(facts: Mapping[str, Any]) -> Layers:
    """Return the layers of a model of the catalogue: its blocks, or equal ones."""
    each, total = facts["bytes_per_number"], facts["parameters"]
    rows = facts.get("blocks", [[facts["layers"], 1, 1, numbers_between(facts)]])
    times, parameters, flops, numbers = np.array(rows, np.float64).T
    parameters, flops, numbers = (np.repeat(values, times.astype(int))
                                  for values in (parameters, flops, numbers))
    return Layers(total * parameters / parameters.sum(),
                  forward_flops(facts) * flops / flops.sum(), each * numbers, each)

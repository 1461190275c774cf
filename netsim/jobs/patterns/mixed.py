"""Mixed parallelism: the coflows of a model's iteration (A-SRPT, Sections III and VI).

The coflows represent "asynchronous pipelining" such that an iteration takes the time of Eq. 4 to 7:

- Model stages do not wait for each other. In the steady state, each works on another batch, so that
  an iteration ends when the slowest stage has finished its batch: the maximum in Eq. 7.
- A model stage computes forward, sends activations to the next stage, computes backward, sends
  gradients to the previous stage, and all-reduces, one after the other: the sum in Eq. 7.
- Each byte is sent once, by its sender. Eq. 5 charges a stage for the bytes that it sends *and*
  receives, 2 d^in + 2 d^out at its share of the NIC, although NICs send and receive at the same
  time. At half of this share, the bytes that it sends take the same time. Allocators with
  `netsim.Allocator.reserves_gpus` reserve this half; others share the NICs in their own way.
- Incoming bytes use part of a stage's share as well, but Eq. 4 to 7 leave no time for them while
  the stage all-reduces. If shares are reserved, neighbours therefore exchange activations and
  gradients at the same time, each at half of the share in either direction, and both wait for the
  exchange. First stages 0 and 1, 2 and 3, ... exchange; then each stage computes and all-reduces;
  then stages 1 and 2, 3 and 4, ... exchange, each pair when both are ready. Each model stage then
  takes its sum in Eq. 7, or a stage that does so waits for it. See `exchanging_in_turn`.

In a synchronous pipeline of micro-batches, everything but the all-reduce is a model stage's *pass*
of a micro-batch. It begins after the pass of this micro-batch by the previous stage, and after this
stage's pass of the previous micro-batch. After all passes, all stages all-reduce. This takes the
time of Section VI, which also has a single pass. Pipelines that go forward with all micro-batches
and then back take the same time if the same stage is slowest in both directions, and longer
otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel, allreduce_edges
from netsim.workload import Flows, Stage

#: Coflows between neighbours: to the next stage, and to the previous one.
_BETWEEN = ("activations", "gradients")


class ModelCoflow(NamedTuple):
    """A stage of an iteration, and how the analytic model accounts for its coflow."""

    stage: Stage  #: ranks are numbered by model stage, replica and slice
    #: Whether Eq. 5 adds up both directions and the traffic inside servers: for activations,
    #: gradients and exchanges between groups of experts, but not for an all-reduce.
    exchange: bool
    #: The stage to whose time the traffic inside servers is added; this stage if None.
    charged: str | None = None


def model_stages(model: ParallelModel) -> tuple[Stage, ...]:
    """Return the stages of one iteration of a model, with flows between ranks.

    Ranks are numbered by model stage, replica and slice. The name of a stage gives the kind of
    coflow and the model stage that sends it: ``activations-0``, ``gradients-1``, ``all-reduce-1``;
    in a synchronous pipeline also the micro-batch, as in ``activations-0/3``. Coflows without bytes
    are left out; computation that no coflow follows is a stage without flows, such as
    ``backward-0``.

    Parameters
    ----------
    model : ParallelModel

    Raises
    ------
    InputError
        If the model has an ``allreduce_factor`` other than 1, as coflows send all bytes of an
        all-reduce.

    Examples
    --------
    >>> from netsim import ModelStage, ParallelModel
    >>> model = ParallelModel([ModelStage(2, "10ms", "20ms", out_bytes=6, param_bytes=5),
    ...                        ModelStage(1, "5ms", "5ms", in_bytes=12)])
    >>> for stage in model_stages(model):
    ...     print(stage.name, stage.compute_s, [] if stage.flows is None else list(stage.flows)[:1])
    activations-0 0.01 [Flow(src=0, dst=2, nbytes=6.0)]
    all-reduce-0 0.02 [Flow(src=0, dst=1, nbytes=5.0)]
    gradients-1 0.01 [Flow(src=2, dst=0, nbytes=6.0)]
    """
    return tuple(each.stage for each in model_coflows(model))


@lru_cache(maxsize=64)
def model_coflows(model: ParallelModel) -> tuple[ModelCoflow, ...]:
    """Make the stages that `model_stages` returns, with their accounting in the analytic model."""
    if model.allreduce_factor != 1:
        raise InputError(
            f"model {model.name!r} has the allreduce_factor {model.allreduce_factor:g}, with "
            "which analytic models count a part of an all-reduce; coflows send all of it, so that "
            "the factor must be 1")
    parts = _parts_of(model)
    return tuple(_synchronous(parts, model.micro_batches) if model.micro_batches else
                 _asynchronous(parts))


@lru_cache(maxsize=64)
def exchanging_in_turn(model: ParallelModel) -> tuple[ModelCoflow, ...]:
    """Make the coflows of an asynchronous pipeline in which each stage does one thing at a time.

    Each stage exchanges with one neighbour, computes and all-reduces, and then exchanges with the
    other neighbour; stages 2i and 2i + 1 exchange with each other first. The coflows are those of
    `model_coflows`, in the same order, followed by stages without flows for the computation. The
    model must have no micro-batches.
    """
    usual = {each.stage.name: each for each in model_coflows(model)}
    parts = _parts_of(model)
    met: dict[int, list[str]] = {}  # the coflows between a model stage and the next one
    for number, each in enumerate(parts):
        for sent in (*each.forward, *each.backward):
            if sent.what in _BETWEEN:
                pair = number if sent.what == "activations" else number - 1
                met.setdefault(pair, []).append(f"{sent.what}-{number}")
    made: dict[str, Stage] = {}
    ready: list[str] = []
    for number, each in enumerate(parts):
        first = number - number % 2  # stages 0 and 1, 2 and 3, ... exchange first
        computation = Stage(f"backward-{number}", None, each.forward_s + each.backward_s,
                            met.get(first, ()))
        own = [sent for sent in (*each.forward, *each.backward, *each.reduce)
               if sent.what not in _BETWEEN]
        chain = _chain(own, f"-{number}", 0.0, [computation.name])
        made |= {stage.name: stage for stage in (computation, *(one.stage for one in chain))}
        ready.append((chain[-1].stage if chain else computation).name)
    for pair, names in met.items():
        after = tuple(ready[pair:pair + 2] if pair % 2 else ())
        made |= {name: replace(usual[name].stage, compute_s=0.0, after=after) for name in names}
    charged = {f"{what}-{number}": f"backward-{number}" for what in _BETWEEN
               for number in range(len(parts))}
    return (*(ModelCoflow(made.pop(name), each.exchange, charged.get(name))
              for name, each in usual.items()),
            *(ModelCoflow(stage, False) for stage in made.values()))


class _Transfer(NamedTuple):
    """A coflow from which a stage will be made: its kind and its flows."""

    what: str
    flows: Flows
    exchange: bool


class _Parts(NamedTuple):
    """The computation and the coflows of a model stage in an iteration or a micro-batch."""

    forward_s: float
    backward_s: float
    forward: list[_Transfer]
    backward: list[_Transfer]
    reduce: list[_Transfer]


def _parts_of(model: ParallelModel) -> list[_Parts]:
    """Return the parts of each model stage, per micro-batch except for the all-reduce."""
    batches = max(model.micro_batches, 1)
    bounds = [0, *accumulate(stage.gpus for stage in model.stages)]
    ranks = [np.arange(*each) for each in pairwise(bounds)]
    found = []
    for number, (stage, own) in enumerate(zip(model.stages, ranks, strict=True)):
        # Slices and experts exchange the same bytes forward and backward.
        slices = _slices(stage, own, model.allreduce, batches)
        experts = _to_all(own, own, stage.replicas * stage.expert_bytes / (2 * batches))
        forward, backward = ([_Transfer(f"slices-{way}", slices, False),
                              _Transfer(f"experts-{way}", experts, True)]
                             for way in ("forward", "backward"))
        if number + 1 < len(ranks):
            nbytes = stage.replicas * stage.out_bytes / batches
            forward.append(_Transfer("activations", _to_all(own, ranks[number + 1], nbytes), True))
        if number:
            nbytes = stage.replicas * stage.in_bytes / batches
            backward.append(_Transfer("gradients", _to_all(own, ranks[number - 1], nbytes), True))
        found.append(_Parts(
            stage.forward_s / batches, model.backward_factor * stage.backward_s / batches,
            _with_bytes(forward), _with_bytes(backward),
            _with_bytes([_Transfer("all-reduce", _replicas(stage, own, model.allreduce), False)])))
    return found


def _with_bytes(sent: Iterable[_Transfer]) -> list[_Transfer]:
    """Drop coflows without bytes."""
    return [each for each in sent if each.flows.nbytes.any()]


def _to_all(senders: Ints, receivers: Ints, nbytes: float) -> Flows:
    """Make equal flows from all senders to all other receivers, of `nbytes` in total."""
    src, dst = np.repeat(senders, len(receivers)), np.tile(receivers, len(senders))
    others = src != dst
    count = int(others.sum())
    return Flows(src[others], dst[others], np.full(count, nbytes / max(count, 1)))


def _slices(stage: ModelStage, ranks: Ints, kind: str, batches: int) -> Flows:
    """Make half of the all-reduce among the slices of each replica."""
    return _allreduce(ranks.reshape(stage.replicas, stage.slices),
                      stage.slice_bytes / (2 * batches), kind)


def _replicas(stage: ModelStage, ranks: Ints, kind: str) -> Flows:
    """Make the all-reduce among the replicas, between corresponding slices."""
    return _allreduce(ranks.reshape(stage.replicas, stage.slices).T,
                      stage.param_bytes / stage.slices, kind)


def _allreduce(groups: Ints, nbytes: float, kind: str) -> Flows:
    """Make an all-reduce of `nbytes` in each group, where `groups` has shape (groups, members).

    In a ring of k members, each sends 2(k-1)/k of the bytes to the next. In a double binary tree,
    each direction of an edge carries half of the share given by `allreduce_edges`.
    """
    k = groups.shape[1]
    if k == 1:
        return Flows.of([])
    if kind == "ring":
        place = np.arange(k)
        src, dst, share = place, (place + 1) % k, np.full(k, 2 * (k - 1) / k)
    else:
        one, other, both = map(np.array, zip(*allreduce_edges(k, kind), strict=True))
        src, dst = np.concatenate((one, other)), np.concatenate((other, one))
        share = np.tile(both / 2, 2)
    return Flows(groups[:, src].ravel(), groups[:, dst].ravel(),
                 np.tile(share * nbytes, len(groups)))


def _asynchronous(parts: Sequence[_Parts]) -> list[ModelCoflow]:
    """Make a chain of coflows for each model stage; stages do not wait for each other."""
    return [coflow for number, each in enumerate(parts)
            for coflow in _pass(each, f"-{number}", [], each.reduce)]


def _synchronous(parts: Sequence[_Parts], batches: int) -> list[ModelCoflow]:
    """Make the passes of all micro-batches through all model stages, then the all-reduces."""
    made: list[ModelCoflow] = []
    passed: dict[int, str] = {}  # the last stage of each model stage's latest pass
    for batch in range(batches):
        for number, each in enumerate(parts):
            after = [passed[other] for other in (number, number - 1) if other in passed]
            made += _pass(each, f"-{number}/{batch}", after, [])
            passed[number] = made[-1].stage.name
    for number, each in enumerate(parts):
        if each.reduce:
            made += _chain(each.reduce, f"-{number}", 0.0, [passed[len(parts) - 1]])
    return made


def _pass(each: _Parts, label: str, after: list[str], behind: list[_Transfer]) -> list[ModelCoflow]:
    """Make the forward and the backward part of a model stage, followed by `behind`."""
    made: list[ModelCoflow] = []
    compute_s = each.forward_s
    if each.forward:
        made += _chain(each.forward, label, compute_s, after)
        compute_s, after = 0.0, [made[-1].stage.name]
    compute_s += each.backward_s
    if each.backward or behind:
        made += _chain([*each.backward, *behind], label, compute_s, after)
    elif compute_s or not made:
        made.append(ModelCoflow(Stage(f"backward{label}", None, compute_s, after), False))
    return made


def _chain(sent: Sequence[_Transfer], label: str, compute_s: float, after: Sequence[str]
           ) -> list[ModelCoflow]:
    """Make a chain of coflows, with `compute_s` of computation before the first."""
    made: list[ModelCoflow] = []
    for each in sent:
        stage = Stage(each.what + label, each.flows, compute_s, after)
        made.append(ModelCoflow(stage, each.exchange))
        compute_s, after = 0.0, [stage.name]
    return made

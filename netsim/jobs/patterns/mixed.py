"""Mixed parallelism: what the stages of a model send in an iteration (A-SRPT, Sections III, VI).

How to read "asynchronous pipelining" as coflows, so that they take what Eq. 4 to 7 say:

- Model stages do not wait for each other. In the steady state each works on another batch, so that
  an iteration ends when the slowest has made its own: the maximum of Eq. 7.
- A model stage computes forward, sends activations to the next, computes backward, sends gradients
  to the one before, and all-reduces: one after the other, the sum in Eq. 7.
- Each byte is sent once, by whoever has it. Eq. 5 charges a stage with what it sends *and* with
  what it receives, 2 d^in + 2 d^out at its share of the NIC, though NICs send and receive at once.
  So on half of that share, what it sends alone takes as long. That half is what
  `netsim.Allocator.reserves_gpus` asks for; others share the NICs as they like.
- What comes in takes part of a stage's share, too, and Eq. 4 to 7 leave none of it to that while
  the stage all-reduces. So where shares are reserved, neighbours exchange activations and gradients
  at the same time, each half of the share in either direction, and both wait for it: stages 0 and
  1, 2 and 3, ... exchange first; then each stage computes and all-reduces; then 1 and 2, 3 and 4,
  ... exchange, each pair when both are ready. Each model stage takes its sum in Eq. 7, or is
  waited for by one that does. See `exchanging_in_turn`.

In a synchronous pipeline of micro-batches, all this but the all-reduce is a model stage's *pass* of
a micro-batch: it begins when the stage before has made its own, and the one of the micro-batch
before is made. When all are through, all stages all-reduce. So it takes what Section VI says, which
has one pass, too. Pipelines that go forward with all micro-batches and then back take as long if
the same stage is slowest both ways, and longer otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.models import ModelStage, ParallelModel, allreduce_edges
from netsim.workload import Flows, Stage

__all__ = ["ModelCoflow", "exchanging_in_turn", "model_coflows", "model_stages"]

#: What neighbours exchange: sent to the next stage, and to the one before.
_BETWEEN = ("activations", "gradients")

Ints = NDArray[np.int64]


class ModelCoflow(NamedTuple):
    """A stage of an iteration, and how the analytic model charges it.

    Attributes
    ----------
    stage : Stage
        In rank space: replicas by model stage, slices by replica.
    exchange : bool
        Whether its flows are activations, gradients, or what groups of experts send: of these
        Eq. 5 adds up both directions, and what goes on inside servers. Otherwise it is an
        all-reduce.
    charged : str or None
        The stage that takes the time of what the coflow exchanges inside servers; itself if None.
    """

    stage: Stage
    exchange: bool
    charged: str | None = None


def model_stages(model: ParallelModel) -> tuple[Stage, ...]:
    """Return the stages of one iteration of a model, in rank space.

    Ranks are replicas, model stage by model stage, and of each replica its slices. Names say what
    is sent, by which model stage, and of which micro-batch: ``activations-0``, ``gradients-1``,
    ``all-reduce-1``; ``activations-0/3`` in a synchronous pipeline. Coflows without bytes are left
    out; computation that no coflow follows is a stage without flows, such as ``backward-0``.

    Parameters
    ----------
    model : ParallelModel

    Raises
    ------
    InputError
        If the model has an ``allreduce_factor`` other than 1: as coflows, all of an all-reduce is
        sent.

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
    """Return the stages of one iteration with what `model_stages` leaves out; as that one."""
    if model.allreduce_factor != 1:
        raise InputError(
            f"model {model.name!r} has the allreduce_factor {model.allreduce_factor:g}, by which "
            "an analytic model counts a part of an all-reduce; as coflows all of it is sent, and "
            "the factor must be 1")
    parts = _parts_of(model)
    return tuple(_synchronous(parts, model.micro_batches) if model.micro_batches else
                 _asynchronous(parts))


@lru_cache(maxsize=64)
def exchanging_in_turn(model: ParallelModel) -> tuple[ModelCoflow, ...]:
    """Return the coflows of an asynchronous pipeline in which no stage does two things at a time.

    Stage s exchanges with a neighbour, computes and all-reduces, and exchanges with the other one;
    stages 2i and 2i + 1 exchange with each other first. They are those of `model_coflows`, in
    their order; behind these the computation of the stages, which sends nothing.

    Parameters
    ----------
    model : ParallelModel
        Without micro-batches.

    Raises
    ------
    InputError
        As `model_stages` does.
    """
    usual = {each.stage.name: each for each in model_coflows(model)}
    parts = _parts_of(model)
    met: dict[int, list[str]] = {}  # who exchanges between a model stage and the next one
    for number, each in enumerate(parts):
        for sent in (*each.forward, *each.backward):
            if sent.what in _BETWEEN:
                pair = number if sent.what == "activations" else number - 1
                met.setdefault(pair, []).append(f"{sent.what}-{number}")
    made: dict[str, Stage] = {}
    ready: list[str] = []
    for number, each in enumerate(parts):
        first = number - number % 2  # 0 and 1 have met, 2 and 3, ...
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


class _Sent(NamedTuple):
    """A coflow before it is a stage: what it is, and who sends what."""

    what: str
    flows: Flows
    exchange: bool


class _Parts(NamedTuple):
    """What a model stage does in an iteration, or for one of its micro-batches."""

    forward_s: float
    backward_s: float
    forward: list[_Sent]
    backward: list[_Sent]
    reduce: list[_Sent]


def _parts_of(model: ParallelModel) -> list[_Parts]:
    """Return what each model stage computes and sends, by micro-batch but for the all-reduce."""
    batches = max(model.micro_batches, 1)
    bounds = [0, *accumulate(stage.gpus for stage in model.stages)]
    ranks = [np.arange(*each) for each in pairwise(bounds)]
    found = []
    for number, (stage, own) in enumerate(zip(model.stages, ranks, strict=True)):
        # Slices and experts exchange as much forward as backward.
        slices = _slices(stage, own, model.allreduce, batches)
        experts = _to_all(own, own, stage.replicas * stage.expert_bytes / (2 * batches))
        forward, backward = ([_Sent(f"slices-{way}", slices, False),
                              _Sent(f"experts-{way}", experts, True)]
                             for way in ("forward", "backward"))
        if number + 1 < len(ranks):
            nbytes = stage.replicas * stage.out_bytes / batches
            forward.append(_Sent("activations", _to_all(own, ranks[number + 1], nbytes), True))
        if number:
            nbytes = stage.replicas * stage.in_bytes / batches
            backward.append(_Sent("gradients", _to_all(own, ranks[number - 1], nbytes), True))
        found.append(_Parts(
            stage.forward_s / batches, model.backward_factor * stage.backward_s / batches,
            _some(forward), _some(backward),
            _some([_Sent("all-reduce", _replicas(stage, own, model.allreduce), False)])))
    return found


def _some(sent: Iterable[_Sent]) -> list[_Sent]:
    return [each for each in sent if each.flows.nbytes.any()]


def _to_all(senders: Ints, receivers: Ints, nbytes: float) -> Flows:
    """Return flows from all to all others, of as many bytes each, that add up to a number."""
    src, dst = np.repeat(senders, len(receivers)), np.tile(receivers, len(senders))
    others = src != dst
    count = int(others.sum())
    return Flows(src[others], dst[others], np.full(count, nbytes / max(count, 1)))


def _slices(stage: ModelStage, ranks: Ints, kind: str, batches: int) -> Flows:
    """Return the all-reduce among the slices of each replica, half of it."""
    return _allreduce(ranks.reshape(stage.replicas, stage.slices),
                      stage.slice_bytes / (2 * batches), kind)


def _replicas(stage: ModelStage, ranks: Ints, kind: str) -> Flows:
    """Return the all-reduce among the replicas, each slice with its equals."""
    return _allreduce(ranks.reshape(stage.replicas, stage.slices).T,
                      stage.param_bytes / stage.slices, kind)


def _allreduce(groups: Ints, nbytes: float, kind: str) -> Flows:
    """Return an all-reduce of some bytes in each group, shape (groups, members).

    In a ring each sends 2(k-1)/k of them to the next. In a double binary tree, half of what
    `allreduce_edges` says of an edge goes up, and half of it down.
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
    """Return a chain for each model stage: nobody waits for another one."""
    return [coflow for number, each in enumerate(parts)
            for coflow in _pass(each, f"-{number}", [], each.reduce)]


def _synchronous(parts: Sequence[_Parts], batches: int) -> list[ModelCoflow]:
    """Return passes of micro-batches through all model stages, then the all-reduces."""
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


def _pass(each: _Parts, label: str, after: list[str], behind: list[_Sent]) -> list[ModelCoflow]:
    """Return what a model stage does forward, backward, and behind that."""
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


def _chain(sent: Sequence[_Sent], label: str, compute_s: float, after: Sequence[str]
           ) -> list[ModelCoflow]:
    """Return coflows one after the other, computation before the first."""
    made: list[ModelCoflow] = []
    for each in sent:
        stage = Stage(each.what + label, each.flows, compute_s, after)
        made.append(ModelCoflow(stage, each.exchange))
        compute_s, after = 0.0, [stage.name]
    return made

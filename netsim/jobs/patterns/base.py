"""The protocol of communication patterns, and the stages of a collective in each of its forms."""

from __future__ import annotations

from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from netsim.base.values import as_choice
from netsim.collectives import Round, Schedule, Sizes, waits
from netsim.errors import InputError
from netsim.workload import Flows, Stage

#: The largest number of flows of an iteration; the arrays of many more would exhaust the memory.
_MOST_FLOWS = 20_000_000


def check_flows(ranks: int, flows: int) -> None:
    """Check that a pattern would not make too many flows, before making them."""
    if flows > _MOST_FLOWS:
        raise InputError(f"{ranks:,} ranks would have {flows:,} flows; an iteration can have at "
                         f"most {_MOST_FLOWS:,}", "ranks")


@runtime_checkable
class Pattern(Protocol):
    """Makes the stages of an iteration of a job, with flows between ranks."""

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return the stages of one iteration, whose number may depend on `ranks` only.

        If the pattern says ``scale_free = False``, it may depend on `nbytes` as well. Stages have
        no ``coflow_id``, because they may be drawn more than once. If the pattern says ``ranked =
        True``, its stages have ``ranks`` that compute, or ``after_previous``, so that iterations
        overlap; otherwise they have neither.

        Parameters
        ----------
        ranks : int
            Number of ranks of the job.
        nbytes : float
            The job's message size, in bytes; its meaning depends on the pattern.
        rng : numpy.random.Generator
            The only source of randomness.

        Raises
        ------
        InputError
            If the pattern is not possible with this number of ranks.
        """
        ...


# --- collectives as stages -----------------------------------------------------------------

as_form = partial(as_choice, choices=("steps", "messages", "aggregate"))

#: Whether flows have equal parts of the bytes, or draw their sizes.
as_sizes = partial(as_choice, choices=("split", "uniform"))

#: The most messages of the form in which each is a stage of its own, which takes about 2 kB.
_MOST_STAGES = 1_000_000


def stages_of(made: Schedule, sizes: Sizes, form: str) -> tuple[Stage, ...]:
    """Make the stages of a collective, in one of three forms.

    ``"steps"``: a stage per step, which begins when the previous step has ended everywhere.
    ``"messages"``: a stage per message, which begins when the messages that it waits for have
    arrived. ``"aggregate"``: a stage per phase, with the bytes of its steps. A single stage has the
    name of the collective; others are ``step-0``, ``message-0`` or ``phase-0`` and so on. A single
    rank has a stage without flows.
    """
    as_form(form, "form")
    if not made.rounds:
        return (Stage(made.collective, Flows.of([])),)
    if form == "messages":
        return _messages(made, sizes)
    if form == "aggregate":
        names = _names(made, "phase", len(made.phase_lengths))
        return tuple(
            Stage(name, Flows(edges.src, edges.dst, made.phase_bytes(k, sizes)),
                  after=names[max(k - 1, 0):k], steps=edges.steps, continues=k > 0)
            for k, (name, edges) in enumerate(zip(names, made.edges, strict=True)))
    check_flows(made.ranks, made.messages_sent)
    names = _names(made, "step", made.steps)
    sent: list[Flows] = []
    for each in made.rounds:
        sent += _flows_of(made, each, sizes, sent[-1] if sent else None)
    made_of = {id(flows): Stage("", flows, continues=True) for flows in sent}
    return (Stage(names[0], sent[0]),
            *(made_of[id(flows)].again(name, tuple(names[k:k + 1]))
              for k, (name, flows) in enumerate(zip(names[1:], sent[1:], strict=True))))


def _names(made: Schedule, kind: str, count: int) -> list[str]:
    return [made.collective] if count == 1 else [f"{kind}-{k}" for k in range(count)]


def _flows_of(made: Schedule, each: Round, sizes: Sizes, before: Flows | None) -> list[Flows]:
    """Return the flows of each step of a round; equal steps share one object."""
    src, dst = made.at(each.src), made.at(each.dst)
    if not each.alike(sizes):
        return [Flows(src, dst, each.nbytes(sizes, t)) for t in range(each.times)]
    flows = Flows(src, dst, each.nbytes(sizes))
    if before is not None and all(np.array_equal(getattr(flows, name), getattr(before, name))
                                  for name in ("src", "dst", "nbytes")):
        flows = before
    return [flows] * each.times


def _messages(made: Schedule, sizes: Sizes) -> tuple[Stage, ...]:
    count = made.messages_sent
    if count > _MOST_STAGES:
        raise InputError(f"{made.ranks:,} ranks would have {count:,} messages; the form "
                         f'"messages" can have at most {_MOST_STAGES:,}', "form")
    sent, names = made.messages(sizes), _names(made, "message", count)
    waited = waits(sent, made.in_turn) if made.after is None else made.after
    return tuple(
        Stage(name, Flows(sent.src[m:m + 1], sent.dst[m:m + 1], sent.nbytes[m:m + 1]),
              after=[names[other] for other in after], continues=len(after) > 0)
        for m, (name, after) in enumerate(zip(names, waited, strict=True)))

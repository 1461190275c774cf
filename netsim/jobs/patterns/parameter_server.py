"""Parameter server: workers push gradients to servers, and pull parameters from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.values import as_whole, convert, known_names, optional
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns.base import as_sizes, check_flows
from netsim.workload import Flows, Stage


@known_names
@dataclass(frozen=True)
class ParameterServer:
    """Parameter server: push from every worker to every server, then pull.

    Ranks 0 .. W-1 are the workers, the last P the servers.

    Parameters
    ----------
    servers : int, optional
        P, the number of servers; by default half of the ranks.
    sizes : {"uniform", "split"}
        ``"uniform"``: flow sizes are uniform in (0, nbytes], drawn independently for push and pull
        (Parrot, Section 6.1). ``"split"``: nbytes is the model's size, split evenly over the
        servers, so that each flow has nbytes/P.
    staleness : int or "unbounded"
        By how many iterations a worker may be ahead of the slowest one. 0: bulk synchronous
        parallel (BSP), in which all workers push in one coflow, and pull in another one. s > 0:
        stale synchronous parallel (SSP; Ho et al., NIPS'13). ``"unbounded"``: totally asynchronous
        (TAP), in which no worker waits for another.

    Notes
    -----
    Under SSP and TAP, each worker computes, pushes and pulls on its own, with a coflow for each
    push and each pull. Under SSP, it pulls the parameters for iteration k, counted from 0, and
    computes with them, once all workers have pushed in iteration k - s - 1. A worker computes for
    the ``compute_s`` of the job, times the factor of its host among the stragglers. The flows have
    the same sizes as under BSP. Servers apply updates in no time.
    """

    servers: int | None = None
    sizes: str = "uniform"
    staleness: int | str = 0

    def __post_init__(self) -> None:
        convert(self, servers=optional(partial(as_whole, least=1)), sizes=as_sizes,
                staleness=_as_staleness)

    @property
    def ranked(self) -> bool:
        """Whether workers compute by themselves; see `Pattern`."""
        return self.staleness != 0

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return push and pull, or those of each worker; see `Pattern.stages`."""
        servers = ranks // 2 if self.servers is None else self.servers
        workers = ranks - servers
        if workers < 1 or servers < 1:
            raise InputError(f"{ranks} ranks cannot be workers and {servers} parameter servers",
                             "servers")
        check_flows(ranks, 2 * workers * servers)
        worker = np.repeat(np.arange(workers), servers)
        server = workers + np.tile(np.arange(servers), workers)
        push = Flows(worker, server, self._draw(workers * servers, servers, nbytes, rng))
        pull = Flows(server, worker, self._draw(workers * servers, servers, nbytes, rng))
        if not self.ranked:
            return Stage("push", push), Stage("pull", pull, after=("push",))
        return self._by_worker(_split(push, workers), _split(pull, workers))

    def _draw(self, flows: int, servers: int, nbytes: float, rng: np.random.Generator) -> Floats:
        if self.sizes == "split":
            return np.full(flows, nbytes / servers)
        return nbytes * (1 - rng.random(flows))

    def _by_worker(self, push: Sequence[Flows], pull: Sequence[Flows]) -> tuple[Stage, ...]:
        """Return the stages of each worker, and what they wait for under SSP."""
        stages = self._pushed(len(push))
        last = [stage.name for stage in stages[-1:]]
        for k in range(len(push)):
            stages += [
                Stage(f"compute-{k}", ranks=(k,), after_previous=(f"compute-{k}", f"pull-{k}")),
                Stage(f"push-{k}", push[k], after=(f"compute-{k}",)),
                Stage(f"pull-{k}", pull[k], after=(f"push-{k}", *last))]
        return tuple(stages)

    def _pushed(self, workers: int) -> list[Stage]:
        """Return stages without computation and flows that are complete when all have pushed.

        The j-th is complete when all workers have pushed j iterations ago: it waits for the one
        before it in the previous iteration, as stages know no other iterations.
        """
        if isinstance(self.staleness, str):
            return []
        names = [f"pushed-{j}" for j in range(self.staleness + 1)]
        return [Stage(names[0], after=[f"push-{k}" for k in range(workers)]),
                *(Stage(name, after_previous=(before,)) for before, name in pairwise(names))]


def _as_staleness(value: Any, what: str) -> int | str:
    if isinstance(value, str) and value != "unbounded":
        raise UnknownNameError(what, value, ("unbounded", "a whole number"))
    return value if isinstance(value, str) else as_whole(value, what)


def _split(flows: Flows, workers: int) -> list[Flows]:
    """Split flows into those of each worker."""
    return [Flows(*parts) for parts in zip(
        *(np.split(column, workers) for column in (flows.src, flows.dst, flows.nbytes)),
        strict=True)]

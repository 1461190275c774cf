"""What runs, made from its description: jobs on a network, a cluster or an edge-cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from netsim.network import Topology
from netsim.network.files import as_network
from netsim.simulation.on_network import OnNetwork
from netsim.simulation.run import Run
from netsim.simulation.run_spec import RunSpec, refuse_arguments
from netsim.workload import Workload


def make_run(spec: RunSpec) -> Run:
    """Make a run from its description, after checking that its arguments can be combined."""
    return _maker(spec)()


def check(spec: RunSpec) -> None:
    """Check a run as `make_run` does; schedulers of clusters and edge-clouds do not plan yet."""
    _maker(spec)


def built(spec: RunSpec) -> tuple[Any, Any]:
    """Return what jobs run on, and the jobs, read or drawn if they are given by name.

    A network that knows its GPUs becomes their cluster if the run has a scheduler, or the like.
    """
    if not isinstance(spec.network, Topology | str | Path):
        return _scheduled().built(spec)
    network = (as_network(spec.network) if isinstance(spec.network, str | Path) else
               spec.network)
    if network.gpu_servers is not None and {"scheduler", "placement", "execution",
                                            "preemption"}.intersection(spec.given):
        return _scheduled().built(replace(spec, network=network))
    refuse_arguments("network", spec.given)
    jobs = spec.workload
    if isinstance(jobs, str | Path):
        from netsim.traces.formats import read_workload

        jobs = read_workload(jobs, seed=spec.seed)
    return network, jobs if isinstance(jobs, Workload) else Workload(jobs, seed=spec.seed)


def _scheduled() -> Any:
    """Import what only runs with a scheduler need."""
    from netsim.simulation import scheduled

    return scheduled


def _maker(spec: RunSpec) -> Callable[[], Run]:
    """Check a run; return a function that makes it."""
    what, jobs = built(spec)
    if not isinstance(what, Topology):
        made: Callable[[], Run] = _scheduled().maker(what, jobs, spec)
        return made
    made_run = OnNetwork(what, jobs, spec)
    return lambda: made_run

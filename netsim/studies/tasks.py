"""Tasks: single runs of a sweep or a comparison, which another process can execute."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.files import read_bytes
from netsim.base.plugins import Registry
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.engine.registry import EXECUTIONS
from netsim.errors import InputError
from netsim.experiment_file.experiment import POLICIES, Experiment
from netsim.placements.registry import PLACEMENTS
from netsim.results.result import Result
from netsim.schedulers.registry import SCHEDULERS, make_scheduler
from netsim.simulation.compatibility import policies_of
from netsim.simulation.run_spec import RunSpec
from netsim.simulation.simulation import simulate_spec
from netsim.studies.code_version import code_version, digest_of_files
from netsim.studies.executors import is_sent_whole, put_in_main
from netsim.studies.run import run_experiment
from netsim.traces.formats import as_workload


@dataclass(frozen=True)
class ExperimentTask:
    """A run described by a resolved experiment."""

    spec: Mapping[str, Any]

    def run(self, progress: bool | Callable[[int, int], None] = False) -> Result:
        """Run the experiment."""
        return run_experiment(Experiment(**self.spec), progress=progress)


@dataclass(frozen=True)
class CallTask:
    """A run described by the keyword arguments of a call of `netsim.simulate`."""

    settings: Mapping[str, Any]

    @property
    def spec(self) -> None:
        """None, as the call need not have an equivalent experiment file."""
        return

    def run(self, progress: bool | Callable[[int, int], None] = False) -> Result:
        """Simulate the run; see `ExperimentTask.run`."""
        return simulate_spec(RunSpec(**self.settings), progress)


@dataclass(frozen=True)
class SentTask:
    """A task for another process or machine, with the code and files that must match there."""

    task: ExperimentTask | CallTask
    code: str
    sources: str  #: digest of the files of this code; see `digest_of_files`
    modules: Sequence[str] = ()  #: user-defined modules, which are part of `code`
    #: Objects of ``__main__`` that the task names.
    classes: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  #: digests by path

    def run(self) -> Result:
        """Run the task, unless this machine has other code or a file has changed."""
        put_in_main(self.classes)
        for module in self.modules:
            import_module(module)
        if (digest_of_files(*self.modules) != self.sources
                and (here := code_version(*self.modules)) != self.code):
            raise InputError(f"this process has other code than the sweep was prepared by: "
                             f"{here}, not {self.code}")
        for path, digest in self.files.items():
            if digest_of_file(Path(path)) != digest:
                raise InputError(f"{path} has changed since the sweep began")
        return self.task.run()


def policies_of_call(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Make the policies of a call of `netsim.simulate`, and describe them for the run's key."""
    made: dict[str, tuple[Any, Registry]] = {
        "allocator": (make_allocator(settings["allocator"]), ALLOCATORS)}
    if isinstance(settings["network"], Cluster):
        given: dict[str, Any] = {name: settings.get(name) for name in POLICIES}
        scheduler, placement, _, model = policies_of(
            **given, jobs=as_workload(settings["workload"], 0).jobs)
        made |= {"scheduler": (scheduler, SCHEDULERS), "placement": (placement, PLACEMENTS),
                 "execution": (model, EXECUTIONS)}
    elif isinstance(settings["network"], EdgeCloud):
        made["scheduler"] = (make_scheduler(settings.get("scheduler") or "a-online"), SCHEDULERS)
    identity: dict[str, Any] = {}
    for name, (policy, registry) in made.items():
        identity[name] = registry.to_dict(policy)
        if not dataclasses.is_dataclass(policy):
            identity[name]["given"] = settings.get(name)  # its options are unknown
        if is_sent_whole(type(policy)):
            identity[name]["class"] = type(policy)
    return identity, [policy for policy, _ in made.values()]


def digest_of_file(path: Path) -> str:
    """Hash the contents of a file, to 16 hexadecimal digits."""
    return hashlib.sha256(read_bytes(path)).hexdigest()[:16]

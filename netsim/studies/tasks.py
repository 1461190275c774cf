"""Tasks: single runs of a sweep, in a form that another process or machine can be sent."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud
from netsim.errors import InputError
from netsim.experiment_file.experiment import POLICIES, Experiment
from netsim.placements.registry import PLACEMENTS
from netsim.plugins import Registry, parse_policy
from netsim.reading import read_bytes
from netsim.results.result import Result
from netsim.schedulers.edge_registry import EDGE_SCHEDULERS, make_edge_scheduler
from netsim.schedulers.registry import SCHEDULERS
from netsim.simulation.compatibility import policies_of
from netsim.simulation.simulate import simulate
from netsim.studies.code_version import code_version
from netsim.studies.run import run_experiment
from netsim.studies.sending import is_sent_whole, put_in_main

__all__ = ["CallTask", "ExperimentTask", "digest_of_file", "names_in", "policies_of_call"]


@dataclass(frozen=True)
class ExperimentTask:
    """A run that an experiment describes; can be sent to another process or machine.

    Attributes
    ----------
    spec : mapping
        The resolved experiment.
    code : str
        The version of the code that must run it; see `code_version`.
    classes : mapping of str to object
        What it names of ``__main__``.
    """

    spec: Mapping[str, Any]
    code: str
    classes: Mapping[str, Any] = field(default_factory=dict)

    def run(self) -> Result:
        """Run it.

        Raises
        ------
        InputError
            If the code here is another.
        """
        put_in_main(self.classes)
        experiment = Experiment(**self.spec)
        _check_code(self.code, names_in(self.spec))
        return run_experiment(experiment)


@dataclass(frozen=True)
class CallTask:
    """A run that a call of `netsim.simulate` describes; likewise.

    Attributes
    ----------
    settings : mapping
        The arguments, by name.
    code : str, optional
        As for `ExperimentTask`; not checked if None, for a run in the process that planned it.
    files : mapping of str to str
        The settings that name a file, and the digest of its contents.
    classes : mapping of str to object
    """

    settings: Mapping[str, Any]
    code: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    classes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> None:
        """There is no experiment file that says the same."""
        return

    def run(self, progress: bool | Callable[[int, int], None] = False) -> Result:
        """Run it.

        Parameters
        ----------
        progress : bool or callable
            As for `netsim.simulate`.

        Raises
        ------
        InputError
            If the code here is another, or a file has changed.
        """
        put_in_main(self.classes)
        if self.code is not None:
            _check_code(self.code, policies_of_call(self.settings)[1])
        for name, digest in self.files.items():
            if digest_of_file(Path(self.settings[name])) != digest:
                raise InputError(f"{self.settings[name]} has changed since the sweep began")
        return simulate(**self.settings, progress=progress)


def _check_code(code: str, names: Iterable[str]) -> None:
    if (here := code_version(*names)) != code:
        raise InputError(f"this process has other code than the sweep was prepared by: "
                         f"{here}, not {code}")


def names_in(spec: Mapping[str, Any]) -> list[str]:
    """List the names of the policies of a resolved experiment, and where its data come from."""
    pattern = spec.get("workload", {}).get("pattern")
    others = (spec.get("workload", {}).get("format"), spec.get("network", {}).get("kind"),
              None if pattern is None else parse_policy(pattern, "pattern")[0])
    return [*(spec[name]["name"] for name in ("allocator", *POLICIES) if name in spec),
            *filter(None, others)]


def policies_of_call(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Describe the policies of a call for its key, and locate their classes.

    Returns
    -------
    identity : dict
        For each kind of policy, its name and options.
    names : list of str
        The classes, as ``"module:Class"``.
    """
    made: dict[str, tuple[Any, Registry]] = {
        "allocator": (make_allocator(settings["allocator"]), ALLOCATORS)}
    if isinstance(settings["network"], Cluster):
        given: dict[str, Any] = {name: settings.get(name) for name in POLICIES}
        scheduler, placement, execution, model = policies_of(**given)
        made |= {"scheduler": (scheduler, SCHEDULERS), "placement": (placement, PLACEMENTS)}
    elif isinstance(settings["network"], EdgeCloud):
        scheduler = make_edge_scheduler(settings.get("scheduler") or "a-online")
        made["scheduler"] = (scheduler, EDGE_SCHEDULERS)
    identity: dict[str, Any] = {}
    for name, (policy, registry) in made.items():
        identity[name] = registry.to_dict(policy)
        if not dataclasses.is_dataclass(policy):
            identity[name]["given"] = settings.get(name)  # nobody knows its options
        if is_sent_whole(type(policy)):
            identity[name]["class"] = type(policy)
    if isinstance(settings["network"], Cluster):
        identity["execution"] = {"name": execution} | dataclasses.asdict(model)
    classes = [type(policy) for policy, _ in made.values()]
    return identity, [f"{kind.__module__}:{kind.__qualname__}" for kind in classes]


def digest_of_file(path: Path) -> str:
    """Hash the contents of a file, to 16 hexadecimal digits."""
    return hashlib.sha256(read_bytes(path)).hexdigest()[:16]

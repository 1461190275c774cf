"""Tasks: single runs of a sweep or a comparison, which another process can execute.

They are pickled with the classes that a notebook or script defines.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.files import read_bytes
from netsim.base.plugins import Registry, parse_named
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


# --- pickling ------------------------------------------------------------------------------

_MAIN = "__main__"

#: The identifier of a class that cloudpickle draws at random.
_TRACKER = re.compile("[0-9a-f]{32}")

#: Attributes of a class without effect: its place in a file, and names in the order of a set.
_INCIDENTAL = ("__firstlineno__", "__static_attributes__")


def as_bytes(value: object) -> bytes:
    """Pickle a value for another process.

    Importable classes and functions are sent by name. Those defined in ``__main__`` or within a
    function are sent by value, with everything that they refer to. An object that cannot be pickled
    may raise any exception.
    """
    return _pickled(value, cloudpickle.Pickler)


def digest_of(value: object, what: str) -> str:
    """Hash a value to hexadecimal digits, including its class if that is sent by value.

    Equal values may have different digests. `what` names the value in the error if it cannot be
    sent.
    """
    try:
        return hashlib.sha256(_pickled(value, _Timeless)).hexdigest()
    except Exception as error:  # an object may raise anything when it is pickled
        raise InputError(f"{what}: {value!r} cannot be sent to another process: {error}") from error


def _pickled(value: object, pickler: type[cloudpickle.Pickler]) -> bytes:
    try:
        plain = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)  # much faster than cloudpickle
        if _MAIN.encode() not in plain:
            return plain
    except Exception:  # it has no name, or cannot be pickled at all: cloudpickle will tell
        pass
    with io.BytesIO() as file:
        pickler(file).dump(value)
        return file.getvalue()


class _Timeless(cloudpickle.Pickler):
    """A pickler whose output is the same in every session; for hashing, not for loading."""

    def reducer_override(self, thing: Any) -> Any:
        """Leave out properties that differ between sessions that run the same code."""
        if isinstance(thing, types.CodeType):
            return tuple, ([thing.co_code, thing.co_consts, thing.co_names, thing.co_varnames,
                            thing.co_freevars, thing.co_cellvars, thing.co_argcount,
                            thing.co_posonlyargcount, thing.co_kwonlyargcount, thing.co_flags,
                            thing.co_exceptiontable],)
        reduced = super().reducer_override(thing)
        if not isinstance(thing, type) or not isinstance(reduced, tuple) or len(reduced) < 3:
            return reduced
        make, given, (attributes, slots), *rest = reduced
        given = tuple(None if isinstance(each, str) and _TRACKER.fullmatch(each) else each
                      for each in given)
        kept = {name: each for name, each in attributes.items() if name not in _INCIDENTAL}
        return make, given, (kept, slots), *rest


def is_sent_whole(kind: type) -> bool:
    """Whether other processes cannot import a class, as it is in ``__main__`` or a function."""
    return kind.__module__ == _MAIN or "<locals>" in kind.__qualname__


# --- objects that are named, as "__main__:Class" ---------------------------------------
def main_classes(values: object) -> dict[str, Any]:
    """Find the objects of ``__main__`` that some values name, as in ``"__main__:Class"``."""
    here = vars(sys.modules[_MAIN])
    names = (parse_named(text)["name"].partition(":") for text in _texts(values)
             if text.startswith(f"{_MAIN}:"))
    return {name: here[name] for _, _, name in names if name in here}


def _texts(values: object) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping | list | tuple):
        each: Iterable[Any] = values.values() if isinstance(values, Mapping) else values
        for value in each:
            yield from _texts(value)


def put_in_main(classes: Mapping[str, Any]) -> None:
    """Define the objects that `main_classes` found in this process's ``__main__``."""
    vars(sys.modules[_MAIN]).update(classes)

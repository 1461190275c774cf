"""The experiment: what is simulated, on what and how, in one checked and frozen object."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from netsim._version import __version__
from netsim.errors import InputError, SpecError, UnknownNameError
from netsim.experiments.blame import Problems, problems_of
from netsim.experiments.recorder import RECORDS
from netsim.experiments.tables import (
    AllocatorTable,
    CompareTable,
    EventTable,
    NetworkTable,
    SweepTable,
    Table,
    WorkloadTable,
)
from netsim.experiments.values import PositiveSeconds, Seconds
from netsim.jobs.plan import check_fits

__all__ = ["Experiment", "default_folder", "spec_hash"]


class Experiment(Table):
    """One simulation, or several allocators to compare; the keys of the experiment file.

    Give tables as dictionaries, quantities as ``"10ms"`` or as numbers in base units.

    Attributes
    ----------
    name : str
        Of the results; letters, digits, and ``_ . + -``.
    description : str
        One line.
    seed : int
        Of the placement of jobs, and of the workload unless that has one of its own.
    observe_interval, until, record, check
        As for `netsim.simulate`.
    network : NetworkTable
    workload : WorkloadTable
    allocator : AllocatorTable
        Or its name.
    events : list of EventTable
    compare : CompareTable
    sweep : SweepTable

    Raises
    ------
    SpecError
        With everything that is wrong, each problem beginning with its key path.

    Examples
    --------
    >>> experiment = Experiment(network={"kind": "big-switch", "hosts": 128},
    ...                         workload={"name": "parrot-60"}, allocator="parrot")
    >>> experiment.network.built
    <BigSwitch 'big-switch': 128 hosts, 256 links>
    """

    name: str = "experiment"
    description: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    observe_interval: Seconds = 0.0
    until: PositiveSeconds = None
    record: list[str] = Field(default_factory=lambda: ["jobs", "coflows"])
    check: bool = True
    network: NetworkTable
    workload: WorkloadTable
    allocator: AllocatorTable = AllocatorTable(name="maxmin")
    events: list[EventTable] = Field(default_factory=list)
    compare: CompareTable = CompareTable()
    sweep: SweepTable = SweepTable()
    _seeds_workload: bool = PrivateAttr(default=False)

    def __init__(self, /, **keys: Any) -> None:
        try:
            super().__init__(**keys)
        except ValidationError as error:
            raise SpecError(problems_of(error, type(self))) from None
        workload = keys.get("workload")
        self._seeds_workload = isinstance(workload, Mapping) and "seed" not in workload

    @model_validator(mode="before")
    @classmethod
    def _share_seed(cls, keys: dict[str, Any]) -> dict[str, Any]:
        workload, seed = keys.get("workload"), keys.get("seed", 0)
        if isinstance(workload, Mapping) and type(seed) is int and seed >= 0:
            keys = keys | {"workload": {"seed": seed} | dict(workload)}
        return keys

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(r"\w[\w.+-]*", name):
            raise InputError(f"must be letters, digits and _ . + -, for it names a folder; "
                             f"not {name!r}")
        return name

    @field_validator("record")
    @classmethod
    def _check_record(cls, record: list[str]) -> list[str]:
        for name in record:
            if name not in RECORDS:
                raise UnknownNameError("record", name, RECORDS)
        return record

    @field_validator("workload")
    @classmethod
    def _check_fits(cls, workload: WorkloadTable, info: ValidationInfo) -> WorkloadTable:
        for job in workload.built if "network" in info.data else ():
            check_fits(job, info.data["network"].built)
        return workload

    @field_validator("events")
    @classmethod
    def _check_links(cls, events: list[EventTable], info: ValidationInfo) -> list[EventTable]:
        problems = []
        for index, event in enumerate(events if "network" in info.data else ()):
            try:
                info.data["network"].built.link(event.link)
            except InputError as error:
                problems.append((f"{index}.link", str(error)))
        if problems:
            raise Problems(problems)
        return events

    @property
    def seeds_workload(self) -> bool:
        """Whether the workload has no seed of its own, and so that of the experiment."""
        return self._seeds_workload

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of `netsim.simulate`, but for the allocator."""
        return {"observe_interval": self.observe_interval, "seed": self.seed,
                "until": self.until, "record": tuple(self.record), "check": self.check,
                "events": [event.model_dump() for event in self.events]}

    def single(self, allocator: AllocatorTable | None = None) -> Experiment:
        """Return the same experiment with nothing to compare or vary, under one allocator.

        Parameters
        ----------
        allocator : AllocatorTable, optional
            The experiment's own if not given.
        """
        return self.model_copy(update={"compare": CompareTable(), "sweep": SweepTable(),
                                       "allocator": allocator or self.allocator})

    def resolved(self) -> dict[str, Any]:
        """Return the experiment with everything explicit, as plain tables and values.

        Ready-made descriptions are copied in and defaults filled in; files that are read are
        named by path and digest. ``Experiment(**resolved)`` gives the same results.
        """
        plain = self.model_dump(exclude={"network", "workload", "allocator", "compare", "sweep"},
                                exclude_none=True)
        tables = {"network": self.network.resolved(), "workload": self.workload.resolved(),
                  "allocator": self.allocator.resolved()}
        if self.compare.allocators:
            listed = [allocator.resolved() for allocator in self.compare.allocators]
            tables["compare"] = {"allocators": listed}
            if self.compare.baseline is not None:
                tables["compare"]["baseline"] = self.compare.baseline
        if self.sweep != SweepTable():
            tables["sweep"] = self.sweep.model_dump()
        return plain | tables


def spec_hash(resolved: Mapping[str, Any], digits: int = 8) -> str:
    """Return hexadecimal digits that identify a resolved experiment and netsim's version.

    Neither the description, nor what a sweep varies, nor where files are counts; their contents
    do.
    """
    spec = {key: value for key, value in resolved.items() if key not in ("description", "sweep")}
    for name in ("network", "workload"):
        spec[name] = {key: value for key, value in spec.get(name, {}).items() if key != "file"}
    text = json.dumps({"netsim": __version__, "spec": spec}, sort_keys=True,
                      separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def default_folder(experiment: Experiment) -> Path:
    """Return where an experiment's results go unless told: ``runs/<name>-<hash8>``."""
    return Path("runs") / f"{experiment.name}-{spec_hash(experiment.resolved())}"

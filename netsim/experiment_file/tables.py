"""Tables of an experiment, which are validated by building the objects that they describe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from netsim.allocators import ALLOCATORS, make_allocator
from netsim.base.plugins import parse_named
from netsim.base.units import SMALL_RATE, question_units
from netsim.edge.registry import TRANSPORTS, make_transport
from netsim.engine.preemption import as_preemption
from netsim.engine.registry import IterationTime, make_execution
from netsim.errors import InputError
from netsim.experiment_file.ranges import Points, Range, check_points, is_range, range_of
from netsim.experiment_file.values import (
    Bytes,
    HostName,
    KeyErrors,
    LinkName,
    Rate,
    Seconds,
    build,
)
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.schedulers.registry import SCHEDULERS, make_scheduler
from netsim.simulation.events import FaultEvent


class Table(BaseModel):
    """A table that accepts only its own keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class OpenTable(BaseModel):
    """A table with a few keys of its own, whose other keys are options."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    @property
    def given(self) -> dict[str, Any]:
        """The given keys and values."""
        return self.model_dump(exclude_none=True)


class PolicyTable(OpenTable):
    """A policy: a name, or a table with a name and options."""

    name: str

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: object) -> object:
        if isinstance(value, str):
            return parse_named(value)
        if not isinstance(value, Mapping):
            raise InputError(f"must be a name, or a table with a name and options, not {value!r}")
        return value

    @model_validator(mode="after")
    def _build(self) -> Self:
        build(lambda **table: self._full(table), self.given, ("name",))
        return self

    def resolved(self) -> dict[str, Any]:
        """Complete the table with all options."""
        defaults = {key: value for key, value in self._full(self.given).items()
                    if isinstance(value, str | int | float | list | tuple | dict)}
        return defaults | self.given

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        """The name and all options of a policy."""
        raise NotImplementedError


class AllocatorTable(PolicyTable):
    """``allocator``: an argument of `netsim.make_allocator`."""

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        return ALLOCATORS.to_dict(make_allocator(table))


class SchedulerTable(PolicyTable):
    """``scheduler``: an argument of `netsim.schedulers.registry.make_scheduler`."""

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        return SCHEDULERS.to_dict(make_scheduler(table))


class PlacementTable(PolicyTable):
    """``placement``: an argument of `netsim.placements.registry.make_placement`."""

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        # A random placement takes the experiment's seed, unless it has its own.
        full = PLACEMENTS.to_dict(make_placement(table))
        return {key: value for key, value in full.items() if key != "seed"}


class ExecutionTable(PolicyTable):
    """``execution``: an argument of `netsim.engine.registry.make_execution`."""

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        name, model = make_execution(table)
        return {"name": name} | ({} if isinstance(model, IterationTime) else asdict(model))

    @property
    def uses_links(self) -> bool:
        """Whether jobs run on links, whose bandwidth an allocator shares."""
        return make_execution(self.given)[1].uses_links


class TransportTable(PolicyTable):
    """``transport``: an argument of `netsim.edge.registry.make_transport`."""

    @classmethod
    def _full(cls, table: dict[str, Any]) -> dict[str, Any]:
        return TRANSPORTS.to_dict(make_transport(table))

    @property
    def shares_links(self) -> bool:
        """Whether chunks move over links, whose bandwidth an allocator shares."""
        return make_transport(self.given).shares_links


class PreemptionTable(Table):
    """``preemption``: an argument of `netsim.simulate`, with the options of `Preemption`."""

    keep: str = "iterations"
    checkpoint_s: Seconds = 0.0
    restore_s: Seconds = 0.0
    state_bytes: Bytes = 0.0
    on_fault: str = "iterations"

    @model_validator(mode="after")
    def _check(self) -> Self:
        build(lambda **options: as_preemption(options), self.model_dump(), ())
        return self


class EventTable(Table):
    """``[[events]]``: a fault or repair of a link, a host or a switch; see `netsim.FaultEvent`."""

    at: Seconds
    link: LinkName = None
    capacity: Rate | None = None
    host: HostName = None
    kind: str = "degrade"
    factor: float | None = None
    restart: bool = False
    switch: str | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            with question_units(False):  # the capacity is in bytes per second by now
                FaultEvent(**dict(self))
        except InputError as error:
            raise InputError(str(error).removeprefix("event: ")) from None
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        said = {name: value for name, value in dump(self).items()
                if value != type(self).model_fields[name].default}
        if self.capacity is not None and 0 < self.capacity < SMALL_RATE:
            said["capacity"] = f"{self.capacity:.17g}B/s"  # so that it is not questioned
        return said


class CompareTable(Table):
    """``[compare]``: the policies that `netsim compare` runs.

    Schedulers are compared on a cluster or an edge-cloud, instead of allocators.
    """

    allocators: list[AllocatorTable] = []  #: names, names with options, or tables
    schedulers: list[SchedulerTable] = []  #: likewise
    baseline: str | None = None  #: label of the policy that the others are compared with


class SweepTable(Table):
    """``[sweep]``: the settings that `netsim sweep` varies."""

    #: The seeds, or their number, counted from that of the experiment.
    seeds: Annotated[int, Field(ge=1)] | list[Annotated[int, Field(ge=0)]] = 1
    #: Values by key of the experiment file, such as ``"network.capacity"``, or in nested tables,
    #: ``network = {capacity = [...]}``. Points are drawn from a `Range`, or from a table such as
    #: ``{low = "1ms", high = "1s", log = true}``.
    vary: dict[str, Any] = {}
    points: Any = None  #: see `Points`

    @field_validator("vary", mode="before")
    @classmethod
    def _flatten(cls, vary: object) -> object:
        return dict(_flat(vary)) if isinstance(vary, Mapping) else vary

    @field_validator("vary")
    @classmethod
    def _check_values(cls, vary: dict[str, Any]) -> dict[str, Any]:
        found, problems = {}, []
        for key, values in vary.items():
            try:
                found[key] = _varied(values)
            except InputError as error:
                problems.append((key, str(error)))
        if problems:
            raise KeyErrors(problems)
        return found

    @field_validator("points")
    @classmethod
    def _make_points(cls, points: Any) -> Points | None:
        return None if points is None else Points.of(points)

    @model_validator(mode="after")
    def _check_points(self) -> Self:
        check_points(self.vary, self.points)
        return self


def _varied(values: Any) -> list[Any] | Range:
    """Check the values of a key, or make the range from which they are drawn."""
    if isinstance(values, Range):
        return values
    if is_range(values):
        return range_of(values)
    if not isinstance(values, list):
        raise InputError(f"must be a list of values, or a range, not {values!r}")
    if not values:
        raise InputError("there are no values to vary it over")
    return values


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping) and not is_range(value):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value

"""Collective operations as patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.units import Quantity, parse_bytes
from netsim.base.values import as_flag, as_list, convert, known_names, optional, refuse_set
from netsim.collectives import (
    Choice,
    NcclCosts,
    Schedule,
    SwitchCosts,
    algorithms_of,
    auto,
    check_algorithm,
    costs_of,
    fastest,
    is_program,
    schedule,
)
from netsim.collectives.algorithms import OPTIONS
from netsim.errors import InputError
from netsim.jobs.patterns.base import as_form, as_sizes, stages_of
from netsim.workload import Flows, Stage

#: The rules that choose an algorithm, and what they have to know.
_RULES: dict[str, tuple[type[NcclCosts | SwitchCosts], Any]] = {
    "auto": (NcclCosts, auto), "fastest": (SwitchCosts, fastest)}


@known_names
@dataclass(frozen=True)
class Collective:
    """Base class of collective operations among all ranks.

    Parameters
    ----------
    algorithm : str
        One of the algorithms of the collective; a file, ``.xml``, with a program of MSCCL, see
        `netsim.collectives.read_msccl`; or ``"auto"`` or ``"fastest"``, which choose one by the
        size and the `costs`.
    form : {"steps", "messages", "aggregate"}
        A coflow per step, one after the other; a coflow per message, which waits for the messages
        that it needs; or a coflow per phase, with the bytes of all its steps.
    unit : quantity, optional
        The size of an element in bytes. Elements are not divided; by default, all parts are equal.
    order : sequence of int, optional
        The rank at each position; by default position p is rank p.
    costs : mapping, optional
        The parameters of ``"auto"`` (`netsim.collectives.NcclCosts`) or ``"fastest"``
        (`netsim.collectives.SwitchCosts`), at least ``rate``; by default those of the job's
        network.
    """

    algorithm: str = ""
    form: str = "steps"
    unit: Quantity | None = None
    order: Sequence[int] | None = None
    costs: Mapping[str, Any] | NcclCosts | SwitchCosts | None = None

    collective: ClassVar[str]

    def __post_init__(self) -> None:
        as_form(self.form, "form")
        convert(self, self.collective, unit=optional(partial(parse_bytes, strict=True)),
                order=optional(partial(as_list, kind=int, of="ranks")),
                **{name: OPTIONS[name] for name in self._options()})
        if self.algorithm in _RULES:
            convert(self, f"{self.collective} by {self.algorithm}",
                    costs=optional(partial(costs_of, _RULES[self.algorithm][0])))
            return
        check_algorithm(self.collective, self.algorithm, self._options(), _RULES)
        if self.costs is not None:
            raise InputError(f"{self.collective} by {self.algorithm} takes no costs; "
                             f"{' and '.join(_RULES)} do", "costs")

    def _options(self) -> dict[str, Any]:
        """Return the options of the algorithm."""
        return {name: getattr(self, name) for name in OPTIONS if hasattr(self, name)}

    @property
    def leaves_open(self) -> str:
        """The option that the job's network fills in, such as ``"costs"``; "" if there is none."""
        if getattr(self, "rings", 1) > 1 and self.group is None:  # type: ignore[attr-defined]
            return "group"
        return "costs" if self.algorithm in _RULES and self.costs is None else ""

    @property
    def is_chosen(self) -> bool:
        """Whether more than the name determines the algorithm, so that results must contain it."""
        return self.algorithm in (*_RULES, "hierarchical")

    @property
    def scale_free(self) -> bool:
        """Whether all sizes are proportional to the bytes, and nothing else depends on them."""
        return (self.unit is None and self.algorithm not in _RULES
                and not is_program(self.algorithm))

    def choice(self, ranks: int, nbytes: float) -> Choice:
        """Return the algorithm for a number of ranks and bytes, and the reason.

        Raises
        ------
        InputError
            If the costs are invalid for this number of ranks.
        """
        if self.algorithm not in _RULES:
            return Choice(self.algorithm, "", {})
        if self.costs is None:
            raise InputError(f"{self.collective}: costs of {self.algorithm} are missing; without a "
                             'network to take them from, give at least {"rate": ...}', "costs")
        chosen: Choice = _RULES[self.algorithm][1](self.collective, ranks, nbytes, self.costs)
        return chosen

    def title(self, ranks: int, nbytes: float) -> str:
        """Return the algorithm for some ranks and bytes as text: ``"hierarchical:group=8"``."""
        return self.choice(ranks, nbytes).algorithm

    def by(self, title: str) -> Collective:
        """Return the collective with an algorithm that `title` has returned."""
        name, _, group = title.partition(":group=")
        given: dict[str, Any] = {"group": int(group)} if group else {}
        if "chunks" not in algorithms_of(self.collective)[name].options and hasattr(self, "chunks"):
            given["chunks"] = 1  # which only other candidates take
        return replace(self, algorithm=name, costs=None, **given)

    def schedule(self, ranks: int, nbytes: float) -> Schedule:
        """Return the messages.

        Raises
        ------
        InputError
            If an option is invalid for this number of ranks.
        """
        algorithm = self.choice(ranks, nbytes).algorithm
        return schedule(self.collective, ranks, algorithm, order=self.order, **self._options())

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return the stages of the form; see `Pattern.stages`."""
        if is_program(self.algorithm):  # a file may change
            return _drawn.__wrapped__(self, ranks, nbytes)
        return _drawn(self, ranks, nbytes)


@lru_cache(maxsize=4)
def _drawn(pattern: Collective, ranks: int, nbytes: float) -> tuple[Stage, ...]:
    """Make stages; cached, as a run needs first their number and then the stages."""
    made = pattern.schedule(ranks, nbytes)
    unit = None if pattern.unit is None else float(pattern.unit)
    return stages_of(made, made.sizes(nbytes, unit), pattern.form)


@known_names
@dataclass(frozen=True)
class AllReduce(Collective):
    """All-reduce: all ranks get the sum of the buffers of all ranks, each of nbytes.

    Parameters
    ----------
    algorithm : str
        ``"ring"``, ``"direct"``, ``"halving-doubling"``, ``"tree"``, ``"double-tree"`` or
        ``"hierarchical"``; or ``"auto"`` or ``"fastest"``.
    chunks : int
        The number of chunks into which trees divide the buffer.
    group : int, optional
        The number of consecutive ranks in a group of ``"hierarchical"``, or of several rings; by
        default the ranks of a server of the job's network, see `netsim.gpu_cluster`.
    inner, outer : {"ring", "direct"}
        The algorithms of ``"hierarchical"`` inside groups and across them.
    overlap : bool
        Whether its phases overlap, which makes one coflow of the form ``"aggregate"``.
    rings : int
        The number of rings of ``"ring"``, which leave a server at different GPUs, as the channels
        of NCCL do; must divide the group.
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "ring"
    chunks: int = 1
    group: int | None = None
    inner: str = "ring"
    outer: str = "ring"
    overlap: bool = False
    rings: int = 1

    collective: ClassVar[str] = "all-reduce"

    @property
    def leaves_open(self) -> str:
        if self.algorithm == "hierarchical" and self.group is None:
            return "group"
        return super().leaves_open

    def title(self, ranks: int, nbytes: float) -> str:
        if self.algorithm == "hierarchical":
            return f"hierarchical:group={self.group}"
        return super().title(ranks, nbytes)

    def schedule(self, ranks: int, nbytes: float) -> Schedule:
        if self.algorithm not in _RULES:
            return super().schedule(ranks, nbytes)
        return self.by(self.title(ranks, nbytes)).schedule(ranks, nbytes)


@known_names
@dataclass(frozen=True)
class AllGather(Collective):
    """All-gather: all ranks get the parts of all ranks, nbytes in total.

    Parameters
    ----------
    algorithm : str
        ``"ring"``, ``"direct"`` or ``"recursive"``.
    rings, group
        See `AllReduce`.
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "ring"
    rings: int = 1
    group: int | None = None
    collective: ClassVar[str] = "all-gather"


@known_names
@dataclass(frozen=True)
class ReduceScatter(Collective):
    """Reduce-scatter: each rank gets its share of the sum of all buffers, each of nbytes.

    Parameters
    ----------
    algorithm : str
        ``"ring"``, ``"direct"`` or ``"recursive"``.
    rings, group
        See `AllReduce`.
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "ring"
    rings: int = 1
    group: int | None = None
    collective: ClassVar[str] = "reduce-scatter"


@dataclass(frozen=True)
class _Rooted(Collective):
    """A collective with a root."""

    algorithm: str = "ring"
    chunks: int = 1
    root: int = 0
    rings: int = 1
    group: int | None = None


@known_names
@dataclass(frozen=True)
class Broadcast(_Rooted):
    """Broadcast: all ranks get the nbytes of the root.

    Parameters
    ----------
    algorithm : str
        ``"ring"`` (a chain) or ``"tree"``.
    chunks : int
        The number of chunks into which the bytes are divided.
    root : int
        The position of the root.
    rings, group
        See `AllReduce`.
    form, unit, order, costs
        See `Collective`.
    """

    collective: ClassVar[str] = "broadcast"


@known_names
@dataclass(frozen=True)
class Reduce(_Rooted):
    """Reduce: the root gets the sum of the buffers of all ranks, each of nbytes.

    Parameters
    ----------
    algorithm : str
        ``"ring"`` (a chain) or ``"tree"``.
    chunks : int
        The number of chunks into which the bytes are divided.
    root : int
        The position of the root.
    rings, group
        See `AllReduce`.
    form, unit, order, costs
        See `Collective`.
    """

    collective: ClassVar[str] = "reduce"


@known_names
@dataclass(frozen=True)
class AllToAll(Collective):
    """All-to-all: each rank sends a part of its nbytes to every rank.

    Parameters
    ----------
    algorithm : str
        ``"direct"`` (all at once) or ``"pairwise"`` (one after the other).
    sizes : {"split", "uniform"}
        ``"split"``: every rank splits its nbytes evenly over all w ranks, itself included, so that
        each flow has nbytes/w. ``"uniform"``: flow sizes are uniform in (0, nbytes]; only with
        ``"direct"``.
    matrix : sequence of sequence of quantity, optional
        The bytes that each position sends to each position; `nbytes` is then ignored. The diagonal
        is not sent.
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "direct"
    sizes: str = "split"
    matrix: Sequence[Sequence[Quantity]] | None = None

    collective: ClassVar[str] = "all-to-all"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_sizes(self.sizes, "sizes")
        convert(self, self.collective, matrix=optional(_as_matrix))
        if self.sizes == "uniform" and (self.algorithm != "direct" or self.unit is not None
                                        or self.matrix is not None or self.form == "messages"):
            raise InputError('all-to-all: sizes = "uniform" are those of a direct exchange, in '
                             "steps, without unit and matrix", "sizes")
        if self.matrix is not None and self.unit is not None:
            raise InputError("all-to-all: give either unit or matrix", "matrix")

    @property
    def scale_free(self) -> bool:
        """Whether all sizes are proportional to the bytes, and nothing else depends on them."""
        return super().scale_free and self.matrix is None

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return the stages of the form; see `Pattern.stages`."""
        if self.matrix is None:
            stages = super().stages(ranks, nbytes, rng)
            if self.sizes == "split":
                return stages
            (stage,) = stages
            assert stage.flows is not None
            drawn = nbytes * (1 - rng.random(len(stage.flows)))
            return (Stage(stage.name, Flows(stage.flows.src, stage.flows.dst, drawn)),)
        if len(self.matrix) != ranks:
            raise InputError(f"all-to-all: matrix must have a row for each of the {ranks} ranks, "
                             f"not {len(self.matrix)}", "matrix")
        made, matrix = self.schedule(ranks, nbytes), self.as_array()
        nbytes = float(matrix.sum(axis=1).max())
        return stages_of(made, made.sizes(nbytes, matrix=matrix), self.form)

    def as_array(self) -> Floats:
        """Return the matrix as an array, in bytes."""
        return np.array(self.matrix, np.float64)


def _as_matrix(matrix: Any, what: str) -> tuple[tuple[float, ...], ...]:
    """Check that a matrix is square, and parse its sizes."""
    refuse_set(matrix, what, within=True)
    try:
        rows = [tuple(row) for row in matrix]
    except TypeError:
        raise InputError(f"{what} must be a list of rows of sizes, not {matrix!r}") from None
    for k, row in enumerate(rows):
        if len(row) != len(rows):
            raise InputError(f"{what}: row {k} has {len(row)} entries; {len(rows)} rows need "
                             f"{len(rows)}")
    return tuple(tuple(parse_bytes(size, f"{what}: row {k}, column {j}")
                       for j, size in enumerate(row)) for k, row in enumerate(rows))


@known_names
@dataclass(frozen=True)
class SendRecv(Collective):
    """Send and receive: one message of nbytes from each rank to the next, or of given pairs.

    Parameters
    ----------
    pairs : sequence of (int, int), optional
        The positions that send and receive.
    algorithm : {"direct"}
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "direct"
    pairs: Sequence[Sequence[int]] | None = None

    collective: ClassVar[str] = "send-recv"


@known_names
@dataclass(frozen=True)
class Barrier(Collective):
    """Barrier: no rank continues before all have reached it; messages of 0 bytes for any nbytes.

    Parameters
    ----------
    algorithm : {"dissemination"}
    form, unit, order, costs
        See `Collective`.
    """

    algorithm: str = "dissemination"
    collective: ClassVar[str] = "barrier"


_STEPS, _AGGREGATE = AllReduce(form="steps"), AllReduce(form="aggregate")


@known_names
@dataclass(frozen=True)
class RingAllReduce:
    """Ring all-reduce: 2m(w-1)/w bytes over each edge of a ring of w ranks.

    m = nbytes is the size of the gradients. A single rank sends nothing. Same as `AllReduce` with
    ``"ring"``, as one coflow.

    Parameters
    ----------
    stepwise : bool
        Whether to emit 2(w-1) coflows of m/w bytes per edge, one after the other (reduce-scatter,
        then all-gather), instead of one coflow with their sum.
    """

    stepwise: bool = False

    def __post_init__(self) -> None:
        convert(self, stepwise=as_flag)

    def stages(self, ranks: int, nbytes: float, rng: np.random.Generator) -> tuple[Stage, ...]:
        """Return one stage, or 2(w-1) with `stepwise`; see `Pattern.stages`."""
        return (_STEPS if self.stepwise else _AGGREGATE).stages(ranks, nbytes, rng)

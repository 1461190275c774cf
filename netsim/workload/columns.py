"""Flows as columns: those of a coflow, and those of many from arrays or a table."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import brief
from netsim.base.units import Quantity, parse_bytes, parse_seconds
from netsim.base.values import (
    LARGEST,
    MOST_ID,
    as_name,
    as_weight,
    as_whole,
    is_number,
    is_utf8,
    is_whole,
    known_names,
    node_name,
    plain,
    refuse_set,
    same,
)
from netsim.errors import InputError, did_you_mean
from netsim.text import said

if TYPE_CHECKING:
    import pandas as pd

#: The largest size of a flow; larger ones are mistakes, and their sums could overflow.
_MOST_BYTES = 1e100

#: The largest number of a host, and the latest time in seconds.
_MOST_HOST, _MOST_S = 10_000_000, 1e100


class RowError(InputError):
    """An invalid value in a row of a table; the message names the row, counted from 0."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message)
        self.row = row


@known_names
class Flow(NamedTuple):
    """One flow, to write coflows by hand.

    Attributes
    ----------
    src, dst : int
        Ranks; the source and the destination.
    nbytes : quantity
        Size in bytes, or with a unit, such as ``"1GB"``.
    """

    src: int
    dst: int
    nbytes: Quantity


@known_names
@dataclass(frozen=True, slots=True, eq=False)
class Flows:
    """The flows of one coflow, as arrays.

    Attributes
    ----------
    src, dst : ndarray of int, shape (flows,)
        Source and destination ranks.
    nbytes : ndarray of float, shape (flows,)
        Sizes in bytes, finite and not negative; may be given as a list of quantities.
    ranks : int
        Number of ranks that the flows need: the largest rank plus 1.

    Raises
    ------
    InputError
        If the shapes differ, a rank is negative, or a size is invalid.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    ranks: int = field(init=False)
    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        if isinstance(self.nbytes, list | tuple) and any(isinstance(n, str) for n in self.nbytes):
            object.__setattr__(self, "nbytes", [parse_bytes(n, f"size of flow {k}")
                                                for k, n in enumerate(self.nbytes)])
        for name in ("src", "dst"):
            first = next(iter(getattr(self, name)), None)
            if isinstance(first, str):
                raise InputError(f"{name} must be a list of numbers of ranks, not of names such "
                                 f"as {first!r}; the job has the hosts of its ranks, by number or "
                                 "name")
        for name, dtype in (("src", np.int64), ("dst", np.int64), ("nbytes", np.float64)):
            object.__setattr__(self, name, frozen(getattr(self, name), dtype, name))
        if not self.src.shape == self.dst.shape == self.nbytes.shape:
            raise InputError("src, dst and nbytes of a coflow must have one length, not "
                             f"{len(self.src)}, {len(self.dst)} and {len(self.nbytes)}")
        bad = np.flatnonzero(~((self.nbytes >= 0) & (self.nbytes <= _MOST_BYTES)))
        if len(bad):
            raise InputError(f"flow {bad[0]} has {float(self.nbytes[bad[0]])!r} bytes; "
                             f"a size must be from 0 to {_MOST_BYTES:g}")
        ends = np.concatenate((self.src, self.dst))
        if ends.min(initial=0) < 0:
            first = int(np.flatnonzero((self.src < 0) | (self.dst < 0))[0])
            raise InputError(f"flow {first} goes from host {self.src[first]} to host "
                             f"{self.dst[first]}; hosts are numbered from 0")
        object.__setattr__(self, "ranks", int(ends.max(initial=-1)) + 1)

    @classmethod
    def of(cls, flows: Iterable[tuple[Any, Any, Quantity]],
           number_of: Callable[[Any], int] | None = None) -> Flows:
        """Build from tuples ``(src, dst, nbytes)``, such as ``(0, 1, "1GB")`` or a `Flow`.

        Parameters
        ----------
        flows : iterable of tuple
        number_of : callable, optional
            Function that returns the number of a source or destination given by name. Without it,
            names are not allowed.

        Raises
        ------
        InputError
            If the flows are not such tuples.
        """
        refuse_set(flows, "flows", within=True)
        try:
            rows = list(flows)
            src, dst, nbytes = zip(*rows, strict=True) if rows else ((), (), ())
        except (TypeError, ValueError):
            raise InputError("flows must be a list of tuples (src, dst, nbytes), not "
                             f"{reprlib.repr(flows)}") from None
        if number_of is not None:
            src, dst = (tuple(number_of(end) if isinstance(end, str | tuple) else end
                              for end in ends) for ends in (src, dst))
        return cls(src, dst, nbytes)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.src)

    def __iter__(self) -> Iterator[Flow]:
        for src, dst, nbytes in zip(self.src, self.dst, self.nbytes, strict=True):
            yield Flow(int(src), int(dst), float(nbytes))


def frozen(values: ArrayLike, dtype: type, name: str) -> NDArray[Any]:
    """Convert a list of numbers to a read-only array; fractions are an error for `dtype` int64."""
    if (row := _masked(values)) is not None:
        raise InputError(f"{name} must be a list of numbers, but {name}[{row}] is masked")
    try:
        given = np.asarray(plain(values))
    except ValueError:  # lists of several lengths
        raise InputError(f"{name} must be a list of numbers, not {values!r}") from None
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iuf"):
        raise InputError(f"{name} must be a list of numbers, not {values!r}")
    with np.errstate(invalid="ignore", over="ignore"):  # of what is refused below
        array: NDArray[Any] = given.astype(dtype)
    if dtype is np.int64 and given.dtype.kind != "i" and not np.array_equal(array, given):
        first = int(np.flatnonzero(array != given)[0])
        raise InputError(f"{name} must be whole numbers, but {name}[{first}] is "
                         f"{given[first].item()!r}")
    array.flags.writeable = False
    return array


def _masked(values: Any) -> int | None:
    """The index of the first masked value of an array or a list; None if there is none."""
    if isinstance(values, list | tuple) and type(np.ma.masked) in set(map(type, values)):
        return next(row for row, each in enumerate(values) if each is np.ma.masked)
    return int(np.argmax(np.ma.getmaskarray(values))) if np.ma.is_masked(values) else None


class Columns(NamedTuple):
    """Jobs of one coflow each, in order of (arrival, id); flows are listed job after job."""

    src: Ints  #: host numbers, or indices into `hosts` if that is not empty
    dst: Ints
    nbytes: Floats
    counts: Ints  #: number of flows of each job, at least 1
    id: Ints
    arrival_s: Floats
    coflow_id: Ints  #: the given ids; -1 for coflows without one
    weight: Floats
    names: tuple[str, ...] = ()  #: of jobs; empty if they have none
    hosts: tuple[str | int, ...] = ()  #: names and numbers of hosts, if some are given by name

    def in_order(self) -> Columns:
        """Sort by (arrival, id)."""
        return self.of(np.lexsort((self.id, self.arrival_s)))

    def of(self, which: Ints) -> Columns:
        """Return some of the jobs, in the given order."""
        flows = self.flows_of(which)
        return Columns(self.src[flows], self.dst[flows], self.nbytes[flows], self.counts[which],
                       self.id[which], self.arrival_s[which], self.coflow_id[which],
                       self.weight[which],
                       tuple(self.names[k] for k in which) if self.names else (), self.hosts)

    def flows_of(self, which: Ints) -> Ints:
        """Return the indices of the flows of some jobs, job after job."""
        counts = self.counts[which]
        first = (np.cumsum(self.counts) - self.counts)[which]
        before = np.cumsum(counts) - counts
        return np.arange(counts.sum()) + np.repeat(first - before, counts)


def flow_columns(named: Sequence[tuple[str, ArrayLike]], owner: str, *, names: bool = True
                 ) -> tuple[tuple[Ints, Ints, Floats, Floats], tuple[str | int, ...]]:
    """Check the sources, destinations, sizes and starts of flows, and convert them to arrays.

    `named` has the four in this order, each with its name for messages; a single value, possibly
    with a unit, applies to all flows. If some hosts are given by name, the arrays have indices into
    the list of hosts that is returned with them. Without `names`, sources and destinations are
    ranks.
    """
    (src, sources), (dst, destinations), (nbytes, sizes), (start, starts) = named
    whats = f"{owner}: {src}", f"{owner}: {dst}"
    for what, ends in zip(whats, (sources, destinations), strict=True):
        refuse_set(ends, what)
    hosts: dict[str | int, int] = {}
    if names and any(map(_holds_names, (sources, destinations))):
        sources, destinations = (_places(each, hosts, what) for each, what in
                                 zip((sources, destinations), whats, strict=True))
    found: list[NDArray[Any]] = [
        *map(partial(_hosts, of="hosts" if names else "ranks"), (sources, destinations), whats),
        _quantities(sizes, f"{owner}: {nbytes}", parse_bytes, _MOST_BYTES, "bytes"),
        _quantities(starts, f"{owner}: {start}", parse_seconds, _MOST_S, "seconds")]
    lengths = [(name, len(array)) for (name, _), array in zip(named, found, strict=True)
               if array.ndim]
    if len({length for _, length in lengths}) > 1:
        told = ", ".join(f"{name} {length:,}" for name, length in lengths)
        raise InputError(f"{owner}: columns must have one length, but have: {told}")
    count = lengths[0][1] if lengths else 1
    if not count:
        raise InputError(f"{owner} has no flows")
    whole: Any = tuple(np.full(count, array) if array.ndim == 0 else array for array in found)
    return whole, tuple(hosts)


def _holds_names(hosts: Any) -> bool:
    """Whether a host is given by a name, or by a tuple that is one; `hosts` may be one host."""
    if _is_one(hosts):
        return isinstance(hosts, str)
    kind = getattr(getattr(hosts, "dtype", None), "kind", "O")
    return kind not in "iufb" and any(isinstance(each, str | tuple) for each in hosts)


def _places(given: Any, known: dict[str | int, int], what: str) -> Any:
    """Replace hosts, by name or number, by their indices in `known`, which new ones extend."""
    one = _is_one(given)
    if getattr(given, "ndim", 1) > 1:  # a table would give the names of its columns
        raise InputError(f"{what} must be a list of names or numbers, not {said(given)}")
    hosts = [node_name(plain(each)) for each in ([given] if one else given)]
    for row, host in enumerate(hosts):
        if isinstance(host, float) and host.is_integer():  # of a column where one is missing
            host = hosts[row] = int(host)
        if not isinstance(host, str) and not (is_whole(host) and 0 <= host <= _MOST_HOST):
            raise RowError(f"{what}{'' if one else f' of row {row}'} must be a name, or a whole "
                           f"number from 0 to {_MOST_HOST:,}, not {host!r}", row)
    before = len(known)
    places = [known.setdefault(host, len(known)) for host in hosts]
    for host in islice(known, before, None):
        if isinstance(host, str) and not is_utf8(host):
            row = hosts.index(host)
            raise RowError(f"{what}{'' if one else f' of row {row}'} must be a name that can be "
                           f"written as UTF-8, not {host!r}", row)
    return places[0] if one else places


def _hosts(values: ArrayLike, what: str, of: str) -> Ints:
    """Convert numbers of hosts or ranks, or one of them, to an array."""
    if _is_one(values):
        return np.array(as_whole(values, what, most=_MOST_HOST), np.int64)
    given = _numbers(values, what, f"numbers of {of}")
    good = (given >= 0) & (given <= _MOST_HOST)
    if given.dtype.kind == "f":
        good &= np.floor(given) == given
    _refuse_first(given, good, what, f"a whole number from 0 to {_MOST_HOST:,}")
    return given.astype(np.int64)


def _quantities(values: ArrayLike, what: str, parse: Any, most: float, unit: str) -> Floats:
    """Convert bytes or seconds, or one quantity, to an array."""
    if _is_one(values):
        return np.array(parse(values, what))
    given = _numbers(values, what, unit)
    _refuse_first(given, (given >= 0) & (given <= most), what, f"{unit} from 0 to {most:g}")
    return given.astype(np.float64)


def weights_of(values: ArrayLike, count: int, what: str) -> Floats:
    """Convert the weights of `count` flows, or one for all, to an array."""
    if _is_one(values):
        return np.full(count, as_weight(values, what))
    given = _numbers(values, what, "weights")
    if len(given) != count:
        raise InputError(f"{what} must be a number, or one for each of the {count:,} flows, not "
                         f"{len(given):,}")
    _refuse_first(given, (given > 0) & (given <= LARGEST), what, "finite and positive")
    return given.astype(np.float64)


def _is_one(values: Any) -> bool:
    """Whether a single value is given for all flows."""
    return isinstance(values, str) or not isinstance(values, Iterable) or (
        isinstance(values, np.ndarray) and values.ndim == 0)


def _numbers(values: Any, what: str, of: str) -> NDArray[Any]:
    """Convert a list, an array or a column of a table to an array of numbers."""
    try:
        given = np.asarray(values)
    except ValueError:  # lists of several lengths
        given = np.empty((0, 0))
    if given.ndim != 1:
        raise InputError(f"{what} must be a list of {of}, not {reprlib.repr(values)}")
    if (row := _masked(values)) is not None:
        raise RowError(f"{what} of row {row} is masked", row)
    if given.dtype.kind == "f" and given.dtype.itemsize < 8:  # bounds would overflow
        given = given.astype(np.float64)
    if given.dtype.kind == "O":
        made = list(map(plain, given))
        if all(map(is_number, made)):
            given = _floats(made)
    if given.size and given.dtype.kind not in "iuf":
        row, value = next((row, each) for row, each in enumerate(values)
                          if not is_number(plain(each)))
        raise RowError(f"{what} of row {row} must be a number, not {reprlib.repr(plain(value))}; "
                       f"columns hold {of} without units", row)
    return given


def _floats(numbers: Iterable[int | float]) -> Floats:
    """Convert numbers to an array; integers that are no floats to the largest one."""
    return np.array([min(max(each, -LARGEST), LARGEST) for each in numbers], np.float64)


def _refuse_first(given: NDArray[Any], good: Bools, what: str, allowed: str) -> None:
    """Raise an error about the first invalid value, if there is one."""
    if not good.all():
        row = int(np.argmin(good))
        raise RowError(f"{what} of row {row} must be {allowed}, not {given[row].item()!r}", row)


# --- tables -------------------------------------------------------------------------------


def with_index(df: pd.DataFrame) -> pd.DataFrame:
    """Convert the named levels of a table's index to columns."""
    levels = [name for name in getattr(getattr(df, "index", None), "names", ())
              if name is not None and name not in df.columns]
    if twice := [name for name in levels if levels.count(name) > 1]:
        raise InputError(f"two levels of the index are named {twice[0]!r}")
    return df.reset_index(level=levels) if levels else df


#: Usual names of columns of flows, in small letters and digits alone, by the argument for them.
_LIKELY = {
    "src": ("src", "source", "from", "sender", "origin", "srchost", "sourcehost", "srcnode",
            "sourcenode", "srcid", "sourceid", "srcip", "sourceip"),
    "dst": ("dst", "dest", "destination", "to", "receiver", "target", "dsthost", "desthost",
            "destinationhost", "dstnode", "destnode", "destinationnode", "dstid", "destid",
            "destinationid", "dstip", "destip", "destinationip"),
    "nbytes": ("bytes", "nbytes", "numbytes", "size", "sizebytes", "flowsize", "flowbytes",
               "bytessent", "sentbytes", "length"),
    "start": ("starts", "start", "starttime", "starttimes", "arrivals", "arrival", "arrivaltime",
              "arrivaltimes", "times", "time", "timestamp", "at", "ats"),
    "coflow": ("coflow", "coflowid"),
    "job": ("job", "jobid"),
}

#: Names of columns that are used without being named.
_FOUND = {"nbytes": ("nbytes", "bytes"), "start": ("start_s",), "coflow": ("coflow",),
          "job": ("job",)}


def likely_columns(columns: Iterable[Hashable], wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Find columns whose names suggest that they are those that a table of flows lacks.

    `wanted` and the result map arguments of `netsim.Workload.from_frame` to names of columns:

    >>> likely_columns(["Source", "Dest-Host", "bytes"], {"src": "src", "dst": "dst"})
    {'src': 'Source', 'dst': 'Dest-Host'}
    """
    names = [name for name in columns if isinstance(name, str)]
    taken = {name for option, own in wanted.items() for name in (own, *_FOUND.get(option, ()))}
    by_letters: dict[str, str] = {}
    for name in names:
        if name not in taken:
            by_letters.setdefault("".join(filter(str.isalnum, name.lower())), name)
    found: dict[str, str] = {}
    for option, usual in _LIKELY.items():
        if option == "start" and wanted.get(option, "") is None:
            continue  # it is wanted that there is none
        near = next((by_letters[each] for each in usual if each in by_letters), None)
        if near is not None and not {wanted.get(option), *_FOUND.get(option, ())} & {*names}:
            found[option] = near
    return found


def column_names(df: pd.DataFrame, wanted: Mapping[str, str | None], owner: str
                 ) -> dict[str, str | None]:
    """Check that a table has the wanted columns; infer those of bytes, coflows and jobs if None.

    A table without the column ``start_s`` has no starts, unless another column looks like them.
    """
    names = dict(wanted)
    if not (hasattr(df, "columns") and hasattr(df, "iloc")):
        raise InputError(f"{owner} must be made of a pandas.DataFrame, not {reprlib.repr(df)}")
    if names["nbytes"] is None:
        names["nbytes"] = "nbytes" if "nbytes" in df.columns else "bytes"
    for option in ("coflow", "job"):
        if names[option] is None and option in df.columns:
            names[option] = option
    if names["start"] in _FOUND["start"] and names["start"] not in df.columns and (
            "start" not in likely_columns(df.columns, wanted)):
        names["start"] = None
    for option, name in names.items():
        if not isinstance(name, Hashable) or (name is None and option in ("src", "dst")):
            raise InputError(f"{owner}: {option} must be the name of a column, not "
                             f"{reprlib.repr(name)}", option)
        if name is not None and name not in df.columns:
            there = ", ".join(map(repr, df.columns)) or "none"
            raise InputError(f"{owner}: there is no column {name!r} for {option}; "
                             f"choose from: {there}"
                             f"{_hint(df, wanted) or did_you_mean(name, [*map(str, df.columns)])}",
                             option)
    twice = [name for name in names.values() if name is not None and df[name].ndim > 1]
    if twice:
        raise InputError(f"{owner}: two columns are named {twice[0]!r}")
    return names


def _hint(df: pd.DataFrame, wanted: Mapping[str, str | None]) -> str:
    """Suggest the arguments with which a table that lacks columns can be read, for a message."""
    listed = ", ".join(f"{option}={name!r}"
                       for option, name in likely_columns(df.columns, wanted).items())
    return f" (did you mean {listed}?)" if listed else ""


class GroupedFlows(NamedTuple):
    """The flows of a table by coflow, and the coflows by job, both in order of their first rows."""

    rows: Ints  #: rows of the flows, coflow after coflow
    counts: Ints  #: number of flows of each coflow
    start_s: Floats
    coflow_id: Ints  #: the labels of coflows if they are numbers; else -1
    labels: NDArray[Any]  #: of coflows; the row numbers if no column has them
    job: Ints  #: index of each coflow's job
    id: Ints  #: the labels of jobs if they are numbers; else their indices
    names: tuple[str, ...]  #: the labels of jobs if they are not numbers; else empty
    weight: Floats


def grouped(df: pd.DataFrame, names: Mapping[str, str | None], start_s: Floats, weight: Floats,
            owner: str) -> GroupedFlows:
    """Group the rows of a table by its columns of coflows and jobs.

    Without a column of coflows, each row is a coflow; without one of jobs, each coflow is a job.
    Starts and weights are given by row, and must be equal within a coflow and a job, respectively.
    """
    coflow, coflows = _labels(df, names["coflow"], owner)
    rows = np.argsort(coflow, kind="stable")
    counts = np.bincount(coflow)
    first = rows[np.cumsum(counts) - counts]
    job, jobs = np.arange(len(first)), coflows
    for row, known in _differing(start_s, coflow, first):
        one, other = float(start_s[known]), float(start_s[row])
        raise RowError(f"{owner}: coflow {plain(coflows[coflow[row]])!r} has two starts, {one!r} "
                       f"s in row {known} and {other!r} s in row {row}; its flows must have "
                       "the same. For the first of them, in pandas: "
                       f"table[{names['start']!r}] = table.groupby({names['coflow']!r})"
                       f"[{names['start']!r}].transform('min')", row)
    if names["job"] is not None:
        of_row, jobs = _labels(df, names["job"], owner)
        for row, known in _differing(of_row, coflow, first):
            raise RowError(f"{owner}: coflow {plain(coflows[coflow[row]])!r} is of two jobs, "
                           f"{plain(jobs[of_row[known]])!r} in row {known} and "
                           f"{plain(jobs[of_row[row]])!r} in row {row}", row)
        job = of_row[first]
    first_of_job = first[np.unique(job, return_index=True)[1]]
    for row, known in _differing(weight, job[coflow], first_of_job):
        raise RowError(f"{owner}: job {plain(jobs[job[coflow[row]]])!r} has two weights, "
                       f"{weight[known]:g} in row {known} and {weight[row]:g} in row {row}", row)
    numbered = None if names["coflow"] is None else _ids(coflows, names["coflow"], owner)
    ids = (_ids(jobs, names["job"] or names["coflow"], owner)
           if names["job"] or names["coflow"] else np.arange(len(jobs)))
    return GroupedFlows(
        rows, counts, start_s[first], np.full(len(first), -1) if numbered is None else numbered,
        coflows, job, np.arange(len(jobs)) if ids is None else ids,
        tuple(str(each) for each in jobs) if ids is None else (), weight[first_of_job])


def _labels(df: pd.DataFrame, name: str | None, owner: str) -> tuple[Ints, Any]:
    """Number the labels of a column in order of their first rows; without one, each row."""
    if name is None:
        return np.arange(len(df)), np.arange(len(df))
    import pandas as pd
    try:
        codes, labels = pd.factorize(df[name])
    except TypeError:  # lists, tables
        raise InputError(f"{owner}: {name} must be numbers or texts, not "
                         f"{reprlib.repr(df[name].iloc[0])}") from None
    if (codes < 0).any():
        row = int(np.argmin(codes))
        raise RowError(f"{owner}: {name} of row {row} is missing; each flow must be of one", row)
    for label in labels:
        if isinstance(label, str):
            as_name(label, f"{owner}: {name}")
    return codes.astype(np.int64), np.asarray(labels)


def _ids(labels: NDArray[Any], name: str | None, owner: str) -> Ints | None:
    """Return labels that are numbers as ids; None for others."""
    if not all(map(is_number, map(plain, labels.tolist()))):
        return None
    numbers = _floats(map(plain, labels))
    good = (numbers >= 0) & (numbers <= MOST_ID) & (np.floor(numbers) == numbers)
    if not good.all():
        raise InputError(f"{owner}: {name} must be texts, or whole numbers from 0 to {MOST_ID:,}, "
                         f"not {plain(labels[np.argmin(good)])!r}")
    return labels.astype(np.int64)


def _differing(values: NDArray[Any], coflow: Ints, first: Ints) -> Iterator[tuple[int, int]]:
    """Yield each row with another value than its coflow's first row, and that row."""
    known = first[coflow]
    for row in np.flatnonzero(values != values[known]).tolist():
        yield row, int(known[row])

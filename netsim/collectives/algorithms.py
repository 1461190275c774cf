"""The algorithms of each collective, by name, with the options that each takes."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from netsim.base.values import about, as_choice, as_flag, as_list, as_whole, optional, refuse_set
from netsim.collectives import schedules
from netsim.collectives.messages import Round, Schedule
from netsim.collectives.msccl import is_program, program_for
from netsim.errors import InputError, UnknownNameError


@dataclass(frozen=True)
class Algorithm:
    """How an algorithm of a collective makes its messages.

    Functions take the number of ranks and the options.
    """

    phases: Callable[[int, dict[str, Any]], list[list[Round]]]  #: the rounds of each phase
    cuts: Callable[[int, dict[str, Any]], tuple[int, ...]]  #: see `Schedule`, as for `copies`
    options: tuple[str, ...] = ()  #: the options that the algorithm takes
    copies: Callable[[int, dict[str, Any]], int] = lambda n, given: 1


def _by_rank(n: int, _: dict[str, Any]) -> tuple[int, ...]:
    return (n,)


def _whole(*_: Any) -> tuple[int, ...]:
    return ()


def _chunks(_: int, given: dict[str, Any]) -> tuple[int, ...]:
    return (given["chunks"],)


def _ring(make: Callable[[int], list[Round]]) -> Algorithm:
    """Return an algorithm of one phase on one or several rings."""
    return Algorithm(
        lambda n, given: [schedules.in_rings(make(n), n, given["rings"], given["group"])],
        lambda n, given: (given["rings"], n), ("rings", "group"))


def _chain(adds: bool) -> Algorithm:
    """Return an algorithm of chains that begin or end at a root, on one or several rings."""
    return Algorithm(
        lambda n, given: [schedules.in_rings(
            schedules.ring_chain(n, given["chunks"], given["root"], adds), n, given["rings"],
            given["group"], given["root"])],
        lambda n, given: (given["rings"], given["chunks"]), ("chunks", "root", "rings", "group"))


def _one_phase(make: Callable[[int], list[Round]]) -> Algorithm:
    """Return an algorithm of one phase, with a block per rank and no options."""
    return Algorithm(lambda n, _: [make(n)], _by_rank)


def _folded(make: Callable[[int], list[Round]], cuts: Callable[..., tuple[int, ...]] = _by_rank
            ) -> Algorithm:
    """Return an algorithm with separate phases for a fold and its reversal."""
    return Algorithm(lambda n, _: _fold_apart(n, make(n)), cuts)


def _fold_apart(n: int, rounds: list[Round]) -> list[list[Round]]:
    return [rounds] if n.bit_count() == 1 else [rounds[:1], rounds[1:-1], rounds[-1:]]


def _survivors(n: int, _: dict[str, Any]) -> tuple[int, ...]:
    return (1 << (n.bit_length() - 1),)


def _rooted(make: Callable[[int, int, int], list[Round]]) -> Algorithm:
    return Algorithm(lambda n, given: [make(n, given["chunks"], given["root"])], _chunks,
                     ("chunks", "root"))


def _exchange(make: Callable[[int], list[Round]]) -> Algorithm:
    return Algorithm(lambda n, _: [make(n)], _by_rank, ("matrix",), lambda n, _: n)


def _hierarchical(n: int, given: dict[str, Any]) -> list[list[Round]]:
    phases = schedules.hierarchical_all_reduce(n, given["group"], given["inner"], given["outer"])
    return [[*chain(*phases)]] if given["overlap"] else phases


#: The most messages of a collective, whose arrays must fit into the memory; and the most of a
#: collective that is cached.
_MOST_ROWS, _MOST_CACHED = 20_000_000, 100_000

#: By collective, and then by the name of the algorithm; the first is the default.
ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all-reduce": {
        "ring": _ring(
            lambda n: schedules.ring_reduce_scatter(n) + schedules.ring_all_gather(n)),
        "direct": _one_phase(
            lambda n: schedules.direct_reduce_scatter(n) + schedules.direct_all_gather(n)),
        "halving-doubling": _folded(schedules.halving_doubling, _survivors),
        "tree": Algorithm(lambda n, given: [schedules.tree_all_reduce(n, given["chunks"])], _chunks,
                          ("chunks",)),
        "double-tree": Algorithm(
            lambda n, given: [schedules.double_tree_all_reduce(n, given["chunks"])],
            lambda n, given: (2, given["chunks"]), ("chunks",)),
        "hierarchical": Algorithm(_hierarchical,
                                  lambda n, given: (given["group"], n // given["group"]),
                                  ("group", "inner", "outer", "overlap"))},
    "all-gather": {"ring": _ring(schedules.ring_all_gather),
                   "direct": _one_phase(schedules.direct_all_gather),
                   "recursive": _folded(schedules.recursive_all_gather)},
    "reduce-scatter": {"ring": _ring(schedules.ring_reduce_scatter),
                       "direct": _one_phase(schedules.direct_reduce_scatter),
                       "recursive": _folded(schedules.recursive_reduce_scatter)},
    "broadcast": {"ring": _chain(False), "tree": _rooted(schedules.tree_broadcast)},
    "reduce": {"ring": _chain(True), "tree": _rooted(schedules.tree_reduce)},
    "all-to-all": {"direct": _exchange(schedules.all_to_all),
                   "pairwise": _exchange(schedules.pairwise)},
    "send-recv": {"direct": Algorithm(lambda _, given: [schedules.send_recv(given["pairs"])],
                                      _whole, ("pairs",), lambda n, given: len(given["pairs"]))},
    "barrier": {"dissemination": Algorithm(lambda n, _: [schedules.dissemination(n)], _whole, (),
                                           lambda n, _: n)},
}

COLLECTIVES = tuple(ALGORITHMS)

#: Stands for a program in a file, which takes no options and makes its messages itself.
_PROGRAM = Algorithm(lambda n, _: [], _whole)


def algorithms_of(collective: str) -> dict[str, Algorithm]:
    """Return the algorithms of a collective, by name."""
    return ALGORITHMS[as_choice(collective, "collective", ALGORITHMS)]


def schedule(collective: str, ranks: int, algorithm: str | None = None, *, chunks: int = 1,
             root: int = 0, group: int | None = None, inner: str = "ring", outer: str = "ring",
             overlap: bool = False, rings: int = 1, order: Sequence[int] | None = None,
             pairs: Sequence[Sequence[int]] | None = None) -> Schedule:
    """Make the messages of a collective.

    The size of a collective is counted as in nccl-tests. For all-reduce, broadcast and reduce, it
    is the buffer of a rank; for all-gather and reduce-scatter, n times the share of a rank; for
    all-to-all, all blocks of a rank, its own included; for send-recv, one message.

    Parameters
    ----------
    collective : str
        One of `COLLECTIVES`.
    ranks : int
        Number of ranks, n, at positions 0 to n - 1.
    algorithm : str, optional
        An algorithm of the collective; by default the first one in `ALGORITHMS`. Or the path of an
        MSCCL program (``.xml``), see `read_msccl`; a relative path starts at the current folder.
    chunks : int
        Number of chunks into which trees and chains divide the data.
    root : int
        The position of the root of a broadcast or a reduction.
    group : int, optional
        Number of consecutive positions in a group of ``hierarchical``, or of several `rings`; must
        divide `ranks`.
    inner, outer : {"ring", "direct"}
        The algorithms of ``hierarchical`` inside groups and across them.
    overlap : bool
        Whether the phases of ``hierarchical`` overlap, as if many chunks followed each other: then
        the form ``"aggregate"`` has one coflow.
    rings : int
        Number of rings of ``ring``, each with a part of the bytes; must divide `group`. They leave
        a group at different positions.
    order : sequence of int, optional
        The rank at each position; by default position p is rank p.
    pairs : sequence of (int, int), optional
        The positions that send and receive in a send-recv; by default each sends to the next.

    Raises
    ------
    UnknownNameError
        If there is no such collective or algorithm.
    InputError
        If an option is invalid, or the algorithm does not take it.

    Examples
    --------
    >>> made = schedule("all-reduce", 4, "ring")
    >>> made.steps, made.messages_sent, made.pieces
    (6, 24, 4)
    """
    ranks = as_whole(ranks, f"{collective}: ranks", 1)
    algorithm = next(iter(algorithms_of(collective))) if algorithm is None else algorithm
    options = {"chunks": chunks, "root": root, "group": group, "inner": inner, "outer": outer,
               "overlap": overlap, "rings": rings, "pairs": pairs}
    given = {name: OPTIONS[name](value, f"{collective}: {name}")
             for name, value in options.items()}
    how = check_algorithm(collective, algorithm, given)
    owner = f"{collective} by {algorithm}"
    if is_program(algorithm):
        return _program(collective, algorithm, ranks, order)
    _check(owner, how.options, ranks, given)
    if "pairs" in how.options and given["pairs"] is None:
        given["pairs"] = tuple((p, (p + 1) % ranks) for p in range(ranks)) if ranks > 1 else ()
    rows = _rows(algorithm, ranks, given)
    if rows > _MOST_ROWS:
        raise InputError(f"{ranks:,} ranks would have {rows:,} messages; a collective can have at "
                         f"most {_MOST_ROWS:,}", "ranks")
    make = _made if rows <= _MOST_CACHED else _made.__wrapped__
    return make(collective, algorithm, ranks, tuple(given.items()),
                None if order is None else _frozen_order(order, ranks, f"{owner}: order"))


def check_algorithm(collective: str, algorithm: str, given: dict[str, Any],
                    rules: Iterable[str] = ()) -> Algorithm:
    """Check the name of an algorithm, and that it takes the given options.

    If it is a file, the file is read, and must describe a program for this collective. `rules` are
    what may be named instead.
    """
    named = algorithms_of(collective)
    if is_program(algorithm):
        program_for(collective, algorithm)
        named = {**named, algorithm: _PROGRAM}
    if algorithm not in named:
        raise UnknownNameError(f"algorithm of {collective}", algorithm, [*named, *rules],
                               key="algorithm")
    usual = {"chunks": 1, "root": 0, "inner": "ring", "outer": "ring", "overlap": False,
             "rings": 1}
    takes, owner = named[algorithm].options, f"{collective} by {algorithm}"
    for name, value in given.items():
        if value != usual.get(name) and name not in takes:
            listed = ", ".join(option for option in takes if option != "matrix")
            raise InputError(f"{owner} takes no {name}; it takes: {listed or 'no options'}",
                             name)
    return named[algorithm]


def _program(collective: str, algorithm: str, ranks: int, order: Sequence[int] | None
             ) -> Schedule:
    """Return the program of a file, for its number of ranks."""
    made = program_for(collective, algorithm)
    if made.ranks != ranks:
        raise InputError(f"{collective} by {algorithm}: the program is for {made.ranks} ranks, not "
                         f"{ranks}", "algorithm")
    if order is None:
        return made
    return replace(made, order=_frozen_order(order, ranks, f"{collective} by {algorithm}: order"))


def _rows(algorithm: str, ranks: int, given: dict[str, Any]) -> int:
    """Compute an upper bound of the rows in the arrays of messages, before any message is made.

    Equal steps share rows.
    """
    if given["pairs"] is not None:
        return len(given["pairs"])
    if algorithm in ("direct", "pairwise"):
        return ranks * (ranks - 1)
    if algorithm == "hierarchical":
        group: int = given["group"]
        return ranks * sum(2 * (size - 1 if way == "direct" else 1) for size, way in
                           ((group, given["inner"]), (ranks // group, given["outer"])))
    if given["rings"] > 1:
        return 2 * ranks * int(given["rings"] * given["chunks"])
    if given["chunks"] > 1:
        return 4 * ranks * int(given["chunks"])
    return 2 * ranks * max(ranks.bit_length(), 2)


def _check(owner: str, options: Sequence[str], ranks: int, given: dict[str, Any]) -> None:
    """Check that the options that an algorithm takes are valid for this number of ranks."""
    if "root" in options:
        as_whole(given["root"], f"{owner}: root", 0, ranks - 1)
    if "group" in options and ("rings" not in options or given["rings"] > 1):
        if given["group"] is None:
            raise InputError(f"{owner}: give group, the number of ranks that are inside, such as "
                             "the GPUs of a server", "group")
        if given["group"] % given["rings"]:
            raise InputError(f"{owner}: rings must divide group, {given['group']}, not "
                             f"{given['rings']}", "rings")
        if ranks % given["group"]:
            raise InputError(f"{owner}: group must divide the number of ranks, but {ranks} ranks "
                             f"are no whole number of groups of {given['group']}", "group")
    with about("pairs"):
        for place, (src, dst) in enumerate(given["pairs"] or ()):
            for end in (src, dst):
                as_whole(end, f"{owner}: pair {place}", 0, ranks - 1)
            if src == dst:
                raise InputError(f"{owner}: pair {place} is of position {src} with itself")


def _as_pairs(pairs: Any, what: str) -> tuple[tuple[int, int], ...]:
    """Convert pairs of positions to tuples."""
    refuse_set(pairs, what, within=True)
    try:
        found = tuple((as_whole(src, what), as_whole(dst, what)) for src, dst in pairs)
    except (TypeError, ValueError):
        found = ()
    if not found:
        raise InputError(f"{what} must be one or more pairs of positions, such as [[0, 1]], not "
                         f"{reprlib.repr(pairs)}", "pairs")
    return found


_as_way = partial(as_choice, choices=("ring", "direct"))

#: Converters of the options of algorithms.
OPTIONS: dict[str, Callable[[Any, str], Any]] = {
    "chunks": partial(as_whole, least=1), "root": as_whole,
    "group": optional(partial(as_whole, least=1)), "inner": _as_way, "outer": _as_way,
    "overlap": as_flag, "rings": partial(as_whole, least=1), "pairs": optional(_as_pairs)}


def _frozen_order(order: Any, ranks: int, what: str) -> tuple[int, ...]:
    found = as_list(order, what, int, "ranks")
    if sorted(found) != list(range(ranks)):
        raise InputError(f"{what} must have each of the ranks 0 to {ranks - 1} once, not "
                         f"{reprlib.repr(order)}", "order")
    return found


@lru_cache(maxsize=64)
def _made(collective: str, algorithm: str, ranks: int, options: tuple[tuple[str, Any], ...],
          order: tuple[int, ...] | None) -> Schedule:
    """Make a schedule; cached, because jobs ask for the same ones repeatedly."""
    how, given = ALGORITHMS[collective][algorithm], dict(options)
    if ranks == 1:
        return Schedule(collective, algorithm, 1, (), (), (), 1, order)
    phases = how.phases(ranks, given)
    return Schedule(
        collective, algorithm, ranks, tuple(each for phase in phases for each in phase),
        tuple(map(len, phases)), how.cuts(ranks, given), how.copies(ranks, given), order,
        in_turn=algorithm == "pairwise")

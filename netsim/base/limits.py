"""The limits on what the few bytes of a file may ask for, and the one way to raise them.

A count in a file, or a compressed block, can stand for more than any memory holds. Readers of
workloads and networks check such counts here, before anything is made of them. The defaults are far
above files in use; the option `limits` of `netsim.read_workload` and `netsim.read_network` raises
them, as do the tables of workloads and networks in experiment files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.values import about, as_choice, as_whole, refused
from netsim.errors import InputError, TraceError


class Limit(NamedTuple):
    """The largest number that is allowed by default, and what it counts."""

    most: int
    what: str


#: All limits, by name.
LIMITS: Mapping[str, Limit] = {
    "bytes": Limit(2**29, "bytes of a compressed file when it is unpacked"),
    "cells": Limit(50_000_000, "cells of a table in Parquet, or of a file of loads of experts"),
    "hosts": Limit(1_000_000, "hosts of a network, or that a workload numbers"),
    "ports": Limit(100_000, "hosts of an explicit instance or a coflow benchmark"),
    "cables": Limit(500_000, "cables of a network"),
    "paths": Limit(2_000_000, "paths between GPUs inside servers"),
    "ranks": Limit(200_000, "ranks of a job that a trace describes"),
    "operations": Limit(4_000_000, "operations of the ranks of a job that a trace describes, or of "
                        "all its iterations whose loads of experts differ"),
    "steps": Limit(500_000, "steps of each rank in an iteration"),
    "flows": Limit(20_000_000, "flows of a file that lists senders and receivers"),
}


#: The limits in effect while something is read; None otherwise.
_limits: ContextVar[Mapping[str, int] | None] = ContextVar("_limits", default=None)


@contextmanager
def limited(changes: Any = None) -> Iterator[None]:
    """Apply limits to what is read in this context; `changes` has new ones by name."""
    with about("limits"):
        if not isinstance(changes, Mapping | None):
            raise refused("limits", "a table of numbers by name, such as {hosts = 2000000}",
                          changes)
        own = {as_choice(name, "limit", LIMITS): as_whole(number, f"limits: {name}", 1)
               for name, number in (changes or {}).items()}
    around = _limits.get() or {name: limit.most for name, limit in LIMITS.items()}
    token = _limits.set({**around, **own})
    try:
        yield
    finally:
        _limits.reset(token)


def most(name: str, otherwise: int | None = None) -> int:
    """Return a limit; outside of `limited` its default, or `otherwise` if that is given."""
    limits = _limits.get()
    if limits is not None:
        return limits[name]
    return LIMITS[name].most if otherwise is None else otherwise


def raised_by(name: str) -> str:
    """Say how to raise a limit, for the end of a message."""
    return f"; limits = {{{name} = ...}} allows more"


def check_limit(name: str, count: int, path: str | Path | None = None, line: int | None = None, *,
                where: str = "", otherwise: int | None = None) -> None:
    """Check that a count in a file is within a limit; the message may begin with its place.

    `where` is its origin, such as ``"Nodes"`` or an argument; `otherwise` is the limit outside of
    `limited`, by default the same. The error is a `TraceError` if there is a path, else an
    `InputError`.
    """
    limit = most(name, otherwise)
    if count <= limit:
        return
    message = (f"{f'{where}: ' if where else ''}{count:,} is above the limit of {limit:,} "
               f"{LIMITS[name].what}{raised_by(name)}")
    raise InputError(message, where) if path is None else TraceError(message, path, line)

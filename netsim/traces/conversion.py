"""Workloads from one format to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.plugins import Registry
from netsim.traces.formats import SUFFIXES, read_workload
from netsim.workload import Workload

__all__ = ["WRITERS", "convert"]

#: Functions ``write(workload, path, *, network)``, by the names that their formats are read under.
WRITERS = Registry("format to write", {
    "json": "netsim.traces.writers:write_instance",
    "coflow-benchmark": "netsim.traces.writers:write_coflow_benchmark",
})


def convert(
    source: str | Path,
    target: str | Path,
    *,
    format: str | None = None,
    to: str | None = None,
    seed: int | None = None,
    prepare: Callable[[Workload], Workload] | None = None,
    network: Mapping[str, Any] | None = None,
    **options: Any,
) -> Workload:
    """Read a workload and write it in another format.

    Parameters
    ----------
    source : path-like
        A file, or the name of a ready-made workload.
    target : path-like
        The file to write; one that is there is replaced.
    format, seed, **options
        As for `read_workload`.
    to : str, optional
        A name of `WRITERS`, or ``"module:function"``; by default the suffix tells, as it does for
        reading.
    prepare : callable, optional
        Makes of the workload one that can be written, such as one without patterns; see
        `netsim.studies.convert`.
    network : mapping, optional
        As for `write_instance`.

    Returns
    -------
    Workload
        What was written.

    Raises
    ------
    InputError
        If the source cannot be read, or the target's format cannot say it; nothing is written.
    OutputError
        If the file cannot be written.
    """
    write = _writer(target, to)
    workload = read_workload(source, format=format, seed=seed, **options)
    if prepare is not None:
        workload = prepare(workload)
    write(workload, target, network=network)
    return workload


def _writer(target: str | Path, to: str | None) -> Callable[..., None]:
    suffix = Path(target).suffix.lower()
    name = SUFFIXES.get(suffix) if to is None else to
    if name is None:
        raise InputError(f"{target}: the suffix {suffix!r} tells no format; give one of: "
                         f"{', '.join(WRITERS)}")
    write: Callable[..., None] = WRITERS.resolve(name)
    return write

"""Convert workloads from one format to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.plugins import Registry
from netsim.traces.formats import SUFFIXES, read_workload
from netsim.workload import Workload

__all__ = ["WRITERS", "convert"]

#: Writers of the formats that can be written, by the name of the format: functions
#: ``write(workload, path, *, network)``; see `FORMATS`.
WRITERS = Registry("format to write", {
    "json": "netsim.traces.writers:write_instance",
    "coflow-benchmark": "netsim.traces.writers:write_coflow_benchmark",
    "chakra": "netsim.traces.training.chakra_writer:write_chakra",
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
        The file to write; an existing file is replaced.
    format, seed, **options
        As for `read_workload`.
    to : str, optional
        A name of `WRITERS`, or ``"module:function"``; by default inferred from the suffix, as for
        reading.
    prepare : callable, optional
        Function that turns the workload into one that the format can express, such as one without
        patterns; see `netsim.studies.convert`.
    network : mapping, optional
        As for `write_instance`.

    Returns
    -------
    Workload
        The workload that was written.

    Raises
    ------
    InputError
        If the source cannot be read, or the target's format cannot express it; then no file is
        written.
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
        raise InputError(f"{target}: no format has the suffix {suffix!r}; give one of: "
                         f"{', '.join(WRITERS)}")
    write: Callable[..., None] = WRITERS.resolve(name)
    return write

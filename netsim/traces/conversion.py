"""Convert workloads from one format to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from netsim.errors import InputError
from netsim.plugins import Registry
from netsim.traces.formats import SUFFIXES, read_workload
from netsim.workload import Workload

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
    """Read a workload, and write it in another format, replacing `target` if it exists.

    `source`, `format`, `seed` and `options` are as for `read_workload`. `to` is a name of `WRITERS`
    or ``"module:function"``; by default it is inferred from the suffix, as for reading. `prepare`
    turns the workload into one that the format can express, such as one without patterns; see
    `netsim.studies.convert`. `network` is as for `write_instance`.

    Return the workload that was written. If the format cannot express it, no file is written.
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

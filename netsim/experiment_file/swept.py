"""Experiments that are varied: their grid, and the folder of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.checks import check_sequence
from netsim.errors import SpecError
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.identity import spec_hash
from netsim.experiment_file.load import Draft
from netsim.experiment_file.ranges import Points, Range
from netsim.experiment_file.tables import SweepTable
from netsim.experiment_file.values import seeds_of
from netsim.plain import plain


def prepare(experiment: Experiment | str | Path | Draft,
            vary: Mapping[str, Any] | None, seeds: int | Sequence[int] | None,
            points: int | Points | None = None) -> tuple[Draft, SweepTable]:
    """Separate the keys of an experiment from the grid of varied settings.

    It is a SpecError if there is nothing to vary.
    """
    draft = experiment if isinstance(experiment, Draft) else (
        Draft.of(experiment) if isinstance(experiment, Experiment) else Draft.read(experiment))
    draft = draft.copy()
    table = draft.keys.get("sweep", {})
    if not isinstance(table, Mapping):
        _base(draft)  # raises an error with the key path
    table = dict(table)
    if vary is not None:
        drawn = any(isinstance(values, Range) for values in vary.values())
        table = table | {"points": table.get("points") if drawn else None, "vary": {
            _spelled(key): values if isinstance(values, Range) else list(check_sequence(
                values, object, key, "values"))
            for key, values in vary.items()}}
    if points is not None:
        table = table | {"points": points}
    if seeds is not None:
        table = table | {"seeds": seeds if isinstance(seeds, int) else plain(list(seeds))}
        seeds_of(table["seeds"])
    draft.keys["sweep"] = table
    grid = _base(draft).sweep
    del draft.keys["sweep"]
    if not grid.vary and grid.seeds == 1:
        raise SpecError(["sweep: there is nothing to vary: give values for a key (--vary "
                         "network.capacity=10Gbps,40Gbps) or more than one seed (--seeds 10)"])
    return draft, grid


def _base(draft: Draft) -> Experiment:
    """Make the experiment that is varied, without keys that may only be valid in its variants."""
    base = draft.copy()
    base.keys.pop("preemption", None)  # a varied scheduler may be one of chunks
    return base.build()


def _spelled(key: str) -> str:
    return ".".join(part.strip() for part in key.split("."))


def common_keys(draft: Draft) -> dict[str, Any]:
    """The keys that all runs in one folder must have in common."""
    return {key: value for key, value in draft.keys.items()
            if key not in ("sweep", "compare", "seed", "description")}


def default_sweep_folder(draft: Draft, vary: Mapping[str, Any] | None = None,
                         seeds: int | Sequence[int] | None = None,
                         points: int | Points | None = None) -> Path:
    """The default folder of a sweep, ``sweeps/<name>-<hash8>``, which is another for each grid."""
    swept, grid = prepare(draft, vary, seeds, points)
    keys = {**common_keys(swept), "grid": json.dumps(
        [grid.vary, grid.points, seeds_of(grid.seeds, swept.keys.get("seed", 0)),
         swept.keys.get("compare", {}).get("baseline")], default=str)}
    return Path("sweeps") / f"{swept.keys.get('name', 'experiment')}-{spec_hash(keys)}"

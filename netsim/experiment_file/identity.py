"""The hash that identifies an experiment, and the default folder of its results."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim._version import __version__

if TYPE_CHECKING:
    from netsim.experiment_file.experiment import Experiment


def spec_hash(resolved: Mapping[str, Any], digits: int = 8) -> str:
    """Hash a resolved experiment and netsim's version to hexadecimal digits.

    The hash depends on the contents of files, but not on their paths, the description of the
    experiment, or what a sweep varies.
    """
    spec = {key: value for key, value in resolved.items() if key not in ("description", "sweep")}
    for name in ("network", "workload"):
        spec[name] = _without_file(spec.get(name, {}))
    text = json.dumps({"netsim": __version__, "spec": spec}, sort_keys=True,
                      separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _without_file(tables: Any) -> Any:
    """Copy a table, or a list of tables, without the key of its file."""
    if isinstance(tables, list):
        return list(map(_without_file, tables))
    return {key: value for key, value in tables.items() if key != "file"}


def default_folder(experiment: Experiment) -> Path:
    """The default folder of an experiment's results: ``runs/<name>-<hash8>``."""
    return Path("runs") / f"{experiment.name}-{spec_hash(experiment.resolved())}"

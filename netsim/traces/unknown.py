"""Tables that name no format: what they look like, and the call that reads them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from netsim.base.units import decimal, parse_value
from netsim.columns import likely_columns
from netsim.errors import NetsimError
from netsim.traces.cluster.readers import GPU_TRACES
from netsim.traces.files import Problem, TraceProblemsError
from netsim.traces.tiresias import TiresiasRow

#: Placeholder for a column that only the user knows.
_COLUMN = "COLUMN"

#: A table with at least this share of the columns of a format looks like it.
_ENOUGH = 0.5

#: Fewest columns of a format in a table that looks like it, as many tables have one of them.
_FEWEST = 2

#: Largest number of columns that a message lists.
_MOST = 12


class UnknownTableError(TraceProblemsError):
    """A table that is read only if its format is named; the message has the call that does.

    `looks` says what the table looks like, and `hint`, after the call, more on the options.
    """

    def __init__(self, looks: str, path: str | Path, format: str,
                 options: Mapping[str, str] | None = None, hint: str = "") -> None:
        options = options or {}
        settings = {"format": format, **options}
        call = ", ".join((repr(str(path)), *(f"{name}={value!r}"
                                             for name, value in settings.items())))
        flags = " ".join((f"--format {format}", *_flags(options)))
        super().__init__([Problem(None, f"{looks}; read it with netsim.read_workload({call}), on "
                                        f"the command line with {flags}{hint}")], path)
        keys = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}"
                         for name, value in settings.items())
        own = " ".join(_flags({f"workload.{name}": value for name, value in settings.items()}))
        #: The message for an experiment whose workload is this file.
        self.experiment = f"{path}: {looks}; add {keys}, on the command line {own}{hint}"

    def __reduce__(self) -> tuple[Any, ...]:
        return NetsimError.__reduce__(self)


def _flags(settings: Mapping[str, str]) -> list[str]:
    """List the arguments of the command line that set options to these texts, for a shell."""
    texts = {name: value if parse_value(value) == value else json.dumps(value, ensure_ascii=False)
             for name, value in settings.items()}
    return [f"--set {shlex.quote(f'{name}={text}')}" for name, text in texts.items()]


def like_flows(path: str | Path, header: Sequence[str], given: Mapping[str, str | None]
               ) -> UnknownTableError | None:
    """Make the error for a table of flows whose columns have other names; None if it is not one.

    `given` has the columns that options of the format ``flows`` name, as far as they are given;
    None stands for a start that is not wanted.
    """
    likely = likely_columns(header, {"src": "src", "dst": "dst", **given})
    found = {"src": "src", "dst": "dst"} | {option: name for option, name in given.items()
                                            if name is not None and name in header} | likely
    if not likely or not {found["src"], found["dst"]} <= {*header}:
        return None
    options = {option: name for option, name in found.items()
               if option not in ("src", "dst") or name != option}
    hint = ""
    if "nbytes" not in options and not {"nbytes", "bytes"} & {*header}:
        options["nbytes"] = _COLUMN
        rest = [name for name in header if name not in options.values()]
        hint = (f", where {_COLUMN} is the column of sizes, in bytes or with a unit; columns "
                f"without a use yet: {_listed(rest) or 'none'}")
    return UnknownTableError("looks like a table of flows whose columns have other names",
                             path, "flows", options, hint)


def refuse_unknown(path: Path, header: Sequence[str], *, table: bool) -> None:
    """Refuse a file that only looks like a table of a format, unless that is ``tiresias``.

    The error has the call that reads the file, if there is one. With `table`, the file is certainly
    a table, and is refused even if it looks like no format.
    """
    if flows := like_flows(path, header, {}):
        raise flows
    if "pai_job_table" in path.name:  # whose tables have no header
        raise UnknownTableError("looks like the table of jobs of Alibaba PAI's cluster", path,
                                "pai")
    name, missing = _nearest(header)
    if name is not None and not missing and name != "tiresias":
        raise UnknownTableError(f"looks like a table of the format {name!r}", path, name)
    if not table or name == "tiresias":
        return
    if name is not None:
        columns = "column" if len(missing) == 1 else "columns"
        raise TraceProblemsError([Problem(None, f"looks like a table of the format {name!r}, but "
                                                f"has no {columns} {_listed(missing)}")], path)
    if any(decimal(cell) == decimal(cell) for cell in header):
        raise TraceProblemsError([Problem(1, "values, where the names of the columns should be; a "
                                             "table of flows begins with a line such as "
                                             "src,dst,bytes,start_s")], path)
    raise UnknownTableError(
        f"has columns of no format that netsim knows: {_listed(header)}; if each row is a flow, "
        "name its columns",
        path, "flows", dict.fromkeys(("src", "dst", "nbytes"), _COLUMN),
        f", where each {_COLUMN} is the name of one; if not, the format 'module:function' is a "
        "function of your own that reads the file")


def _nearest(header: Sequence[str]) -> tuple[str | None, list[str]]:
    """Find the format of jobs whose columns a table has most of, and those that it lacks."""
    known = {"tiresias": TiresiasRow._fields,
             **{name: trace.table.columns for name, trace in reversed(GPU_TRACES.items())
                if trace.table is not None}}
    lacks = {name: [each for each in columns if each not in header]
             for name, columns in known.items()}
    share = {name: 1 - len(lacks[name]) / len(columns) for name, columns in known.items()}
    best = max(share, key=share.__getitem__)  # the first of equal ones
    if len(known[best]) - len(lacks[best]) < _FEWEST or (share[best] < _ENOUGH
                                                        and best != "tiresias"):
        return None, []
    return best, lacks[best]


def _listed(names: Sequence[str]) -> str:
    """Join names for a message; long lists are cut."""
    return ", ".join([repr(name) for name in names[:_MOST]] + ["..."] * (len(names) > _MOST))

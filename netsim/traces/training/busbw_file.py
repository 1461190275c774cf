"""Bandwidths of collectives from SimAI's ``busbw.yaml``."""

from __future__ import annotations

from pathlib import Path

from netsim.errors import TraceError, unknown_name
from netsim.traces.files import read_text, split_lines
from netsim.traces.problems import Problem, TraceProblemsError
from netsim.units import decimal

_GROUPS = {"TP": "tp", "DP": "dp", "EP": "ep", "PP": "pp"}
_COLLECTIVES = {"allreduce": "all-reduce", "allgather": "all-gather",
                "reducescatter": "reduce-scatter", "alltoall": "all-to-all"}
#: The line of a block of pipelines, which the tool does not use.
_PIPELINE = "busbw"

_GIB = 2 ** 30
_MOST = 1e9


def read_busbw(path: Path) -> dict[tuple[str, str], float]:
    """Read bandwidths in bytes per second, by the group and the kind of a collective.

    After an optional line with a name, the file has blocks, such as ``TP:``, of lines such as
    ``allreduce,: 300``, in 2^30 bytes per second, or ``null`` for an unknown value.
    """
    found: dict[tuple[str, str], float] = {}
    group = ""
    for number, line in enumerate(split_lines(read_text(path)), 1):
        words = line.partition("#")[0].split()
        if not words or (number == 1 and not words[0].endswith((":", ","))):  # a name
            continue
        key, value = words[0].rstrip(":,"), words[1:]
        if not value and words[0].endswith(":"):
            if key not in _GROUPS:
                raise _refused(path, number, unknown_name("group", key, _GROUPS))
            group = _GROUPS[key]
        elif not group:
            raise _refused(path, number, f"must be a group such as TP:, not {line!r}")
        elif key not in (*_COLLECTIVES, _PIPELINE) or len(value) != 1:
            raise _refused(path, number, "must be a collective and its GiB/s, such as 'allreduce,: "
                                         f"300', of {', '.join(_COLLECTIVES)}, not {line!r}")
        elif value[0] != "null":
            rate = _rate(path, number, key, value[0])
            if key not in _COLLECTIVES:
                continue
            if (group, _COLLECTIVES[key]) in found:
                raise _refused(path, number, f"{key} of {group.upper()} is there already")
            found[group, _COLLECTIVES[key]] = rate
    return found


def _rate(path: Path, number: int, key: str, text: str) -> float:
    rate = decimal(text)
    if not 0 < rate <= _MOST:
        raise _refused(path, number, f"{key} must be a number of GiB/s above 0, or null, not "
                                     f"{text!r}")
    return rate * _GIB


def _refused(path: Path, number: int, problem: str) -> TraceError:
    return TraceProblemsError([Problem(number, problem)], path)

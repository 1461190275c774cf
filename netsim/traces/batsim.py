"""Read workloads of Batsim (JSON): jobs, and the profiles that say what they do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base.files import stem_of
from netsim.base.json_tree import Checker, parse_object
from netsim.base.limits import most, raised_by
from netsim.base.reading import POSITIVE, NumberRange, TraceProblemsError, read_text
from netsim.base.units import is_digits
from netsim.base.values import as_number, known_names, optional
from netsim.errors import unknown_name
from netsim.workload import Flows, JobSpec, Stage, Workload

#: The profiles that are read, by the names of Batsim 4 and of Batsim 5.
_KINDS = {"delay": "delay", "DelayProfile": "delay",
          "parallel": "parallel", "ParallelTaskProfile": "parallel",
          "parallel_homogeneous": "homogeneous", "ParallelTaskHomogeneousProfile": "homogeneous",
          "parallel_homogeneous_total": "total", "msg_par": "parallel",
          "msg_par_hg": "homogeneous", "msg_par_hg_tot": "total",
          "composed": "composed", "SequentialCompositionProfile": "composed"}

#: What a homogeneous profile of Batsim 5 may do with its amounts: use them, or spread them.
_STRATEGIES = {"DefinedAmountsUsedForEachValue": False, "DefinedAmountsSpreadUniformly": True}

_AMOUNT = NumberRange()

#: The deepest nesting of composed profiles.
_MOST_NESTED = 100

#: The seconds and the flows of one step of a job, which take place side by side.
_Step = tuple[float, Flows | None]


@known_names
def read_batsim(path: str | Path, *, seed: int = 0, speed: float | None = None) -> Workload:
    """Read a workload of Batsim (JSON).

    A job has a rank on each of its resources. It waits (``delay``), or computes and sends at the
    same time (``parallel``, ``parallel_homogeneous``, ``parallel_homogeneous_total``), or does
    several of these in turn (``composed``); other profiles are refused. Jobs have the numbers of
    their ids if all ids are numbers, else those of their positions; names are the ids. The
    ``walltime`` is the estimate that schedulers know, and stops only a delay.

    Parameters
    ----------
    path : path-like
    seed : int
        Seed of the workload, which draws nothing.
    speed : float, optional
        Floating-point operations per second of each host; needed if profiles compute.

    Raises
    ------
    TraceProblemsError
        If the file's contents are invalid, with the line and the JSON path.
    """
    speed = optional(partial(as_number, above=0, most=1e30))(speed, "speed")
    text = read_text(path)
    document = parse_object(text, path)
    check = Checker()
    jobs = _jobs(check, document, speed)
    if check.problems:
        raise TraceProblemsError(check.problems_in(text), path)
    return Workload(jobs, stem_of(path), seed=seed)


def _jobs(check: Checker, document: dict[str, Any], speed: float | None) -> list[JobSpec]:
    profiles = document.get("profiles")
    if not isinstance(profiles, dict):
        check.must_be("profiles", "an object with the profiles by name", profiles)
        return []
    entries = check.items(document.get("jobs"), "jobs", empty=False)
    rows = [_row(check, entry, f"jobs[{k}]", profiles) for k, entry in enumerate(entries)]
    seen: dict[str, int] = {}
    for k, row in enumerate(rows):
        if row is not None and seen.setdefault(row["id"], k) != k:
            check.refuse(f"jobs[{k}].id", f": {row['id']!r} is the id of jobs[{seen[row['id']]}]")
    numbered = all(is_digits(name, 15) and str(int(name)) == name for name in seen)
    read = _Profiles(check, profiles, speed)
    jobs = []
    for k, row in enumerate(rows):
        if row is None or check.problems:
            continue
        iterations, stages = read.stages(row["profile"], row["res"], row["walltime"])
        if check.problems:
            continue
        jobs.append(JobSpec(int(row["id"]) if numbered else k, row["subtime"], iterations,
                            stages=stages, ranks=row["res"], name=row["id"],
                            estimate_s=row["walltime"]))
    return jobs


def _row(check: Checker, value: object, where: str, profiles: dict[str, Any]
         ) -> dict[str, Any] | None:
    """Return what is read of a job; it may have other keys, which schedulers of Batsim read."""
    known = len(check.problems)
    job = check.table(value, where, ("id", "subtime", "res", "profile"),
                      value if isinstance(value, dict) else ())
    if job is None:
        return None
    walltime = job.get("walltime", -1)
    row = {"id": check.text(str(job["id"]) if type(job["id"]) is int else job["id"],
                            f"{where}.id"),
           "subtime": check.number(job["subtime"], f"{where}.subtime", _AMOUNT),
           "res": check.whole(job["res"], f"{where}.res", 1, most("ranks"), raised_by("ranks")),
           "profile": check.text(job["profile"], f"{where}.profile"),
           "walltime": None if walltime in (-1, None) else check.number(
               walltime, f"{where}.walltime", POSITIVE)}
    if len(check.problems) == known and row["profile"] not in profiles:
        check.refuse(f"{where}.profile", f": {unknown_name('profile', row['profile'], profiles)}")
    return None if len(check.problems) > known else row


class _Profiles:
    """Makes the stages of jobs of profiles."""

    def __init__(self, check: Checker, profiles: dict[str, Any], speed: float | None) -> None:
        self._check, self._profiles, self._speed = check, profiles, speed
        self._known: dict[tuple[str, int], tuple[int, list[_Step]]] = {}
        self._flows = most("flows")  # that may still be made

    def stages(self, name: str, ranks: int, walltime: float | None
               ) -> tuple[int, tuple[Stage, ...]]:
        """Return the iterations of a job, and the stages of each."""
        if (name, ranks) not in self._known:
            self._known[name, ranks] = self._steps(name, ranks, ())
        repeat, steps = self._known[name, ranks]
        if walltime is not None and steps and _KINDS[self._profiles[name]["type"]] == "delay":
            steps = [(min(steps[0][0], walltime), None)]
        return repeat, tuple(_stages(steps))

    def _steps(self, name: str, ranks: int, around: tuple[str, ...]) -> tuple[int, list[_Step]]:
        """Return how often a profile repeats, and what it does in turn; nothing if it is wrong.

        `around` are the composed profiles that it is a part of.
        """
        where, value = f"profiles.{name}", self._profiles[name]
        profile = self._check.table(value, where, ("type",),
                                    value if isinstance(value, dict) else ())
        if profile is None:
            return 1, []
        kind = profile["type"]
        if not isinstance(kind, str) or kind not in _KINDS:
            self._check.refuse(f"{where}.type", ": " + unknown_name("profile type", kind, _KINDS))
            return 1, []
        if _KINDS[kind] == "composed":
            return self._composed(profile, name, ranks, around)
        if _KINDS[kind] == "delay":
            delay = self._check.number(profile.get("delay"), f"{where}.delay", _AMOUNT)
            return 1, [(delay, None)]
        if _KINDS[kind] == "parallel":
            return 1, [self._parallel(profile, where, ranks)]
        return 1, [self._homogeneous(profile, where, ranks, _KINDS[kind] == "total")]

    def _composed(self, profile: dict[str, Any], name: str, ranks: int, around: tuple[str, ...]
                  ) -> tuple[int, list[_Step]]:
        where, check = f"profiles.{name}", self._check
        if name in around or len(around) >= _MOST_NESTED:
            check.refuse(where, ": it is a part of itself" if name in around else
                         f": profiles are nested more than {_MOST_NESTED} deep")
            return 1, []
        steps: list[_Step] = []
        for k, part in enumerate(check.items(profile.get("seq"), f"{where}.seq", empty=False)):
            if not isinstance(part, str) or part not in self._profiles:
                check.refuse(f"{where}.seq[{k}]",
                             ": " + unknown_name("profile", part, self._profiles))
                return 1, []
            repeat, more = self._steps(part, ranks, (*around, name))
            if len(steps) + repeat * len(more) > most("steps"):
                check.refuse(where, f": more than the limit of {most('steps'):,} "
                             f"steps{raised_by('steps')}")
            if check.problems:
                return 1, []
            steps += more * repeat
        return check.whole(profile.get("repeat", 1), f"{where}.repeat", 1), steps

    def _parallel(self, profile: dict[str, Any], where: str, ranks: int) -> _Step:
        """Read the operations of each rank, and the matrix of the bytes between them."""
        amounts = {}
        for key, count in (("cpu", ranks), ("com", ranks * ranks)):
            given = self._check.items(profile.get(key) or [], f"{where}.{key}")
            if len(given) not in (0, count):
                self._check.refuse(f"{where}.{key}", f" must have {count:,} numbers for a job of "
                                   f"{ranks:,} resources, not {len(given):,}")
            amounts[key] = [self._check.number(each, f"{where}.{key}[{k}]", _AMOUNT)
                            for k, each in enumerate(given)]
        if self._check.problems:
            return 0.0, None
        matrix = np.array(amounts["com"] or np.zeros(ranks * ranks)).reshape(ranks, ranks)
        np.fill_diagonal(matrix, 0)  # what a rank sends to itself is free
        src, dst = np.nonzero(matrix)
        return (self._seconds(max(amounts["cpu"], default=0.0), where),
                Flows(src, dst, matrix[src, dst]) if len(src) else None)

    def _homogeneous(self, profile: dict[str, Any], where: str, ranks: int, total: bool) -> _Step:
        """Read the operations of each rank and the bytes between two; with `total`, of all."""
        cpu, com = (self._check.number(profile.get(key, 0), f"{where}.{key}", _AMOUNT)
                    for key in ("cpu", "com"))
        strategy = profile.get("generation_strategy", next(iter(_STRATEGIES)))
        if strategy not in tuple(_STRATEGIES):
            self._check.refuse(f"{where}.generation_strategy",
                               ": " + unknown_name("strategy", strategy, _STRATEGIES))
        elif total:  # Batsim 4 divides both by the number of ranks
            cpu, com = cpu / ranks, com / ranks
        elif _STRATEGIES[strategy]:
            cpu, com = cpu / ranks, com / max(1, ranks * (ranks - 1))
        pairs = ranks * (ranks - 1) if com else 0
        if pairs > self._flows:
            self._check.refuse(where, f": {pairs:,} more flows are above the limit of "
                               f"{most('flows'):,}{raised_by('flows')}")
        if self._check.problems or not pairs:
            return self._seconds(cpu, where), None
        self._flows -= pairs
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        return self._seconds(cpu, where), Flows(src, dst, np.full(pairs, com))

    def _seconds(self, operations: float, where: str) -> float:
        """Return how long a rank computes."""
        if operations and self._speed is None:
            self._check.refuse(f"{where}.cpu", ": the profile computes; give the option speed, the "
                               "floating-point operations per second of a host, such as 1e9")
        return operations / (self._speed or 1.0)


def _stages(steps: Sequence[_Step]) -> Iterator[Stage]:
    """Yield the stages of steps: what a step computes and sends are side by side."""
    before: list[str] = []
    for k, (seconds, flows) in enumerate(steps):
        names = [f"compute-{k}"] if seconds or flows is None else []
        if names:
            yield Stage(names[0], compute_s=seconds, after=before)
        if flows is not None:
            names.append(f"send-{k}")
            yield Stage(names[-1], flows, after=before)
        before = names

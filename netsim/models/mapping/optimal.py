"""Optimal mappings by mixed-integer linear programming; needs the extra ``ilp``.

The programme is solved by HiGHS, which is part of SciPy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.units import Quantity, format_seconds, parse_seconds
from netsim.errors import MissingExtraError, NetsimError, NetsimWarning
from netsim.models import ParallelModel
from netsim.models.iteration_time import StageTerms, per_iteration, stage_terms
from netsim.models.mapping.heavy_edge import heavy_edge
from netsim.models.mapping.simple import Mapped, check_counts, mapped_as
from netsim.models.servers import ServerKind

#: Relative gap to the optimum below which a mapping counts as optimal.
_GAP = 1e-7

#: Status codes of `scipy.optimize.milp`.
_SOLVED, _STOPPED = 0, 1


def optimal_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind,
                    seed: int | None = None, *, time_limit: Quantity = "60s") -> Mapped:
    """Find a mapping with the least possible time of an iteration.

    It is never slower than that of Heavy-Edge, which is returned if the solver finds none better.

    Parameters
    ----------
    model : ParallelModel
    counts : sequence of int
        GPUs that each server provides.
    server : ServerKind
    seed : int, optional
        No effect, as nothing is random.
    time_limit : quantity
        Time after which the solver is stopped; the best mapping so far is then returned, with
        the status ``"time limit"`` and the gap.

    Raises
    ------
    MissingExtraError
        If SciPy is not installed.
    InputError
        As `check_counts` does, or if the time limit is not greater than 0.
    NetsimError
        If the solver fails.

    Warns
    -----
    NetsimWarning
        If the solver was stopped before the mapping was known to be optimal.
    """
    if find_spec("scipy") is None:
        raise MissingExtraError("scipy", "ilp")
    limit_s = parse_seconds(time_limit, "time_limit", strict=True)
    known = heavy_edge(model, check_counts(model, counts, server), server)
    if known.gap == 0:
        return Mapped(known.placement, known.alpha_s, known.alpha_s, "optimal")
    programme = _Programme(model, counts, server, known.alpha_s)
    placement, bound_s, status = programme.solve(limit_s)
    best = known
    if placement is not None:
        best = min(known, mapped_as(model, placement, server), key=lambda one: one.alpha_s)
    if status == "optimal":
        return Mapped(best.placement, best.alpha_s, best.alpha_s, status)
    bound_s = min(max(bound_s, known.bound_s), best.alpha_s)
    found = Mapped(best.placement, best.alpha_s, bound_s, status)
    warnings.warn(NetsimWarning(
        f"the mapping of model {model.name!r} on counts {list(counts)} is not known to be optimal "
        f"after {format_seconds(limit_s)}: an iteration takes {format_seconds(found.alpha_s)}, at "
        f"best {format_seconds(bound_s)} is possible, a gap of {found.gap:.2%}; allow more time "
        "with time_limit"), stacklevel=2)
    return found


class _Choice(NamedTuple):
    """A binary variable that is 1 if `gpus` GPUs of a stage are on a server."""

    variable: int
    gpus: int


class _Programme:
    """The mixed-integer programme, in units of Heavy-Edge's alpha, so that numbers are near 1.

    There is a binary for each stage, server and number of replicas, which is 1 if the server has
    this number of the stage's replicas. The time of a stage on a server is then linear in the
    binaries: those of the stage determine the all-reduce, those of its neighbours the
    communication. It must not count if the server has no replica of the stage. All terms except
    the time that neighbours on the server save are therefore multiplied by the binaries of at
    least one replica.
    """

    def __init__(self, model: ParallelModel, counts: Sequence[int], server: ServerKind,
                 unit_s: float) -> None:
        self.model, self.counts, self.unit_s = model, counts, unit_s
        # The first two terms are counts, of which only ratios are used; the others are seconds.
        terms = stage_terms(model, server)
        self.terms = StageTerms(*terms[:2], *(each / unit_s for each in terms[2:]))
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.variables = 0
        self.choices = [[self._choices(number, count) for count in counts]
                        for number in range(len(model.stages))]
        self.binaries = self.variables
        self.cost: dict[int, float] = {}
        self._add_placement()
        self._add_times()

    def _new(self) -> int:
        """Add a variable, and return its number."""
        self.variables += 1
        return self.variables - 1

    def _choices(self, number: int, count: int) -> list[_Choice]:
        stage = self.model.stages[number]
        most = min(stage.replicas, count // stage.slices)
        return [_Choice(self._new(), replicas * stage.slices) for replicas in range(most + 1)]

    def _add(self, row: dict[int, float], low: float, high: float) -> None:
        """Add a constraint on the sum of variables with the coefficients of `row`."""
        self.rows.append((row, low, high))

    def _add_placement(self) -> None:
        """Add the constraints of a placement.

        One choice holds for each stage and server; the GPUs of each stage and of each server add
        up; and servers with equal counts are ordered, to break symmetry.
        """
        for number, of_stage in enumerate(self.choices):
            for choices in of_stage:
                self._add({choice.variable: 1.0 for choice in choices}, 1, 1)
            gpus = self.model.stages[number].gpus
            self._add({each: float(n) for choices in of_stage for each, n in choices}, gpus, gpus)
        for place, count in enumerate(self.counts):
            self._add({each: float(n) for of_stage in self.choices for each, n in of_stage[place]},
                      count, count)
        for one, other in pairwise(range(len(self.counts))):
            if self.counts[one] == self.counts[other]:
                row = {each: float(n) for each, n in self.choices[0][one]}
                self._add(row | {each: -float(n) for each, n in self.choices[0][other]}, 0, np.inf)

    def _add_times(self) -> None:
        """Add variables for the maxima of Eq. 7, each bounded below by all its arguments."""
        mu = self.model.micro_batches
        alpha = self._new()
        if not mu:
            self.cost = {alpha: 1.0}
        stage_s = [self._new() for _ in self.choices] if mu else [alpha] * len(self.choices)
        reduce = self._new() if mu else alpha
        for number, of_stage in enumerate(self.choices):
            for place, choices in enumerate(of_stage):
                before = self._before(number, place)
                after = {each: self._reduce(number, n) for each, n in choices if n}
                if mu:
                    self._add(after | {reduce: -1.0}, -np.inf, 0)
                else:
                    before |= {each: before[each] + seconds for each, seconds in after.items()}
                self._add(before | {stage_s[number]: -float(mu or 1)}, -np.inf, 0)
        if mu:
            slowest = alpha
            self.cost = {each: 1.0 for each in stage_s} | {slowest: mu - 1.0, reduce: 1.0}
            for each in stage_s:
                self._add({each: 1.0, slowest: -1.0}, -np.inf, 0)

    def _before(self, number: int, place: int) -> dict[int, float]:
        """The coefficients of the computation and communication of a stage on a server."""
        terms = self.terms
        row: dict[int, float] = {}
        slack = 0.0
        for other, far, near in ((number - 1, terms.far_in_s, terms.near_in_s),
                                 (number + 1, terms.far_out_s, terms.near_out_s)):
            if 0 <= other < len(self.choices):
                saved = float(far[number] - near[number])
                slack += max(-saved, 0.0)
                row |= {each: -saved * n / float(terms.gpus[other])
                        for each, n in self.choices[other][place] if n}
        none, *some = self.choices[number][place]
        whole = float(terms.compute_s[number] + terms.slices_s[number] + terms.far_in_s[number]
                      + terms.far_out_s[number])
        apart_s, together_s = terms.far_experts_s[number], terms.near_experts_s[number]
        for each, n in some:
            others = (n - 1) / max(terms.gpus[number] - 1, 1)
            row[each] = whole + float(apart_s * (1 - others) + together_s * others)
        return row | {none.variable: -slack}

    def _reduce(self, number: int, gpus: int) -> float:
        if gpus == self.terms.gpus[number]:
            return float(self.terms.near_reduce_s[number])
        return float(self.terms.far_reduce_s[number]) / gpus

    def solve(self, limit_s: float) -> tuple[Ints | None, float, str]:
        """Solve the programme; return the best placement or None, a bound (s) and the status."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_matrix

        at = [(row, each) for row, (entries, _, _) in enumerate(self.rows) for each in entries]
        values = [value for entries, _, _ in self.rows for value in entries.values()]
        matrix = csr_matrix((values, tuple(zip(*at, strict=True))),
                            shape=(len(self.rows), self.variables))
        binary = np.arange(self.variables) < self.binaries
        cost = np.zeros(self.variables)
        cost[list(self.cost)] = list(self.cost.values())
        found = milp(cost, integrality=binary.astype(int),
                     bounds=Bounds(0.0, np.where(binary, 1.0, np.inf)),
                     constraints=LinearConstraint(matrix, [row[1] for row in self.rows],
                                                  [row[2] for row in self.rows]),
                     options={"time_limit": limit_s, "mip_rel_gap": _GAP})
        if found.status not in (_SOLVED, _STOPPED):
            raise NetsimError(f"HiGHS did not solve the mapping of model {self.model.name!r} on "
                              f"counts {list(self.counts)}: {found.message}")
        known = found.mip_dual_bound  # None or NaN if the solver was stopped before it had one
        bound = known if known is not None and np.isfinite(known) else 0.0
        status = "optimal" if found.status == _SOLVED else "time limit"
        if found.x is None:
            return None, float(bound) * self.unit_s, status
        placement = np.array([[sum(n for each, n in of_stage[place] if found.x[each] > 0.5)
                               for of_stage in self.choices] for place in range(len(self.counts))],
                             dtype=np.int64)
        return placement, float(bound) * self.unit_s, status


def exhaustive_mapping(model: ParallelModel, counts: Sequence[int], server: ServerKind) -> Mapped:
    """Find an optimal mapping by trying all; for tests, and feasible for small jobs only."""
    given = check_counts(model, counts, server)
    found = min((np.array(columns).T for columns in _placements(model, 0, given)),
                key=lambda placement: per_iteration(model, placement, server))
    best = mapped_as(model, found.astype(np.int64), server)
    return Mapped(best.placement, best.alpha_s, best.alpha_s, "optimal")


def _placements(model: ParallelModel, number: int, room: Sequence[int]
                ) -> Iterator[list[tuple[int, ...]]]:
    """Yield all placements of the stages from `number` on, as lists of counts per server."""
    if number == len(model.stages):
        yield []
        return
    stage = model.stages[number]
    for column in _splits(stage.gpus, stage.slices, room):
        rest = [have - taken for have, taken in zip(room, column, strict=True)]
        for others in _placements(model, number + 1, rest):
            yield [column, *others]


def _splits(gpus: int, step: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all splits of GPUs over servers into multiples of `step`, within their room."""
    if not room:
        if gpus == 0:
            yield ()
        return
    for first in range(0, min(gpus, room[0]) + 1, step):
        for others in _splits(gpus - first, step, room[1:]):
            yield (first, *others)

"""Measures of statements, as data, and the measured runs that are kept with the project.

A measure is a metric of runs, or how a run compares with others. Kept runs are in a small table per
setting, for the pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict

from netsim._version import __version__
from netsim.analysis.intervals import of_whole_runs
from netsim.base.files import open_text, write_text
from netsim.reproductions.claims import LESS, MORE, PLAIN, RATIO, SHARE, Criterion, Runs, Scale

#: Values of columns that select the runs of one combination.
Selection = Mapping[str, Any]

_SCALES = {"ratio": RATIO, "less": LESS, "more": MORE, "share": SHARE, "value": PLAIN,
           "difference": PLAIN, "turns": PLAIN}

#: By kind: the metric of `one` over that of `other`, or 1, if a number is measured.
_FACTORS: dict[str, Callable[[float], float]] = {
    "value": float, "share": float, "ratio": float, "less": lambda less: 1 - less,
    "more": lambda more: 1 + more}

#: Relative change of a metric from which a curve turns.
_TURN = 1e-6


class Measure(BaseModel):
    """A quantity that a statement measures, for each seed.

    A run is selected by columns of the table of runs and their values; the last part of a column's
    name is enough. A text in place of a run stands for a policy, in the column `policy`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: ``value``: the metric of `one`; ``share``: the same, a part of a whole; ``ratio``: divided by
    #: that of `other`; ``less`` and ``more``: by how much it is below and above, relative to
    #: `other`; ``difference``: minus that of `other`, which may be 0; ``turns``: how often the
    #: metric turns from rising to falling, or back, along `along`.
    kind: Literal["value", "share", "ratio", "less", "more", "difference", "turns"] = "value"
    metric: str | list[str] = "jct_total_s"  #: with several, the statement is about all of them
    policy: str = "allocator"
    at: dict[str, Any] = {}  #: values that all runs have
    one: str | dict[str, Any] = {}
    #: The run to compare with; of several, that with the least metric, for each seed.
    other: str | dict[str, Any] | list[str | dict[str, Any]] = []
    than: dict[str, Any] = {}  #: replaces values of `at`; the result is then over that there
    #: A column, and its values in order. The metric of `one` at the last value is compared with
    #: that at the first; if `pick` is given, each is compared with the one before.
    along: dict[str, list[Any]] = {}
    over: dict[str, list[Any]] = {}  #: the statement is about all combinations of these values
    #: The metric, combination, or step along `along` that is measured: ``most``, that with the
    #: largest mean over seeds, or ``least``; or ``every``, the one that meets the criterion worst.
    pick: Literal["", "most", "least", "every"] = ""

    @property
    def scale(self) -> Scale:
        """How means over seeds are taken."""
        return _SCALES[self.kind]

    @property
    def percent(self) -> bool:
        """Whether values are shown as percentages."""
        return self.kind in ("less", "more", "share")

    @property
    def metrics(self) -> list[str]:
        """The metrics that it needs."""
        return [self.metric] if isinstance(self.metric, str) else self.metric

    def of(self, criterion: Criterion, sense: Criterion | None, runs: Runs) -> pd.Series:
        """Measure the value of each seed; of several candidates, that of the picked one."""
        found = [values for metric in self.metrics for place in self._places()
                 for values in self._values(runs, metric, place)]
        intervals = [self.scale.interval(values) for values in found]
        if not np.isfinite([mean for mean, *_ in intervals]).all():
            return pd.Series([np.nan])
        ranks: dict[str, Callable[[int], Any]] = {
            "most": lambda place: -intervals[place][0], "least": lambda place: intervals[place][0],
            "every": lambda place: criterion.room(*intervals[place], sense)}
        return found[min(range(len(found)), key=ranks[self.pick]) if self.pick else 0]

    def expected(self, number: float, criterion: Criterion, runs: Runs
                 ) -> Iterator[tuple[Selection, str, pd.Series]]:
        """Yield place, metric and values that `one` would have if a number were measured.

        If the number is the largest or the least of all places, the place is that which has it in
        the runs. Curves, and ratios of ratios, yield nothing.
        """
        if self.along or self.than or not isinstance(self.one, str) or self.kind not in _FACTORS:
            return
        for metric in self.metrics:
            places = list(self._places())
            means = [self.scale.interval(self._values(runs, metric, place)[0])[0]
                     for place in places]
            if self.pick == "most" or (self.pick == "every" and np.isinf(criterion.low)):
                places = [places[int(np.argmax(means))]]
            elif self.pick:
                places = [places[int(np.argmin(means))]]
            for place in places:
                here = {**self.at, **place}
                own = runs.of(metric, **{**here, self.policy: self.one})
                others = [runs.of(metric, **{**here, **other}) for other in self._others()]
                whole = pd.concat(others, axis=1).min(axis=1) if others else own * 0 + 1
                yield {**here, self.policy: self.one}, metric, whole * _FACTORS[self.kind](number)

    def selected(self) -> list[Selection]:
        """List the columns and values that select the runs of the measure."""
        ends = [{name: value} for name, values in self.along.items() for value in values] or [{}]
        return [{**self.at, **than, **run, **place, **end}
                for place in self._places() for end in ends
                for run in (self._run(self.one), *self._others())
                for than in ([{}, self.than] if self.than else [{}])]

    def _places(self) -> Iterator[Selection]:
        for values in product(*self.over.values()):
            yield dict(zip(self.over, values, strict=True))

    def _run(self, given: str | Mapping[str, Any]) -> Selection:
        return {self.policy: given} if isinstance(given, str) else given

    def _others(self) -> list[Selection]:
        return [self._run(each) for each in
                (self.other if isinstance(self.other, list) else [self.other])]

    def _values(self, runs: Runs, metric: str, place: Selection) -> list[pd.Series]:
        """Compute the value of each seed, for each step along `along`."""
        here = {**self.at, **place}
        if not self.along:
            value = self._at(runs, metric, here)
            return [self._shown(self._against(value, self._at(runs, metric, {**here, **self.than}))
                                if self.than else value)]
        [(name, values)] = self.along.items()
        curve = [self._at(runs, metric, {**here, name: value}) for value in values]
        if self.kind == "turns":
            return [_turns(curve)]
        steps = pairwise(curve) if self.pick else [(curve[0], curve[-1])]
        return [self._shown(self._against(later, earlier)) for earlier, later in steps]

    def _at(self, runs: Runs, metric: str, here: Selection) -> pd.Series:
        """A metric of `one`, or its comparison with the least of the others."""
        one = runs.of(metric, **{**here, **self._run(self.one)})
        others = [runs.of(metric, **{**here, **other}) for other in self._others()]
        if not others:
            return one
        return self._against(one, pd.concat(others, axis=1).min(axis=1, skipna=False))

    def _against(self, one: pd.Series, other: pd.Series) -> pd.Series:
        return one - other if self.kind == "difference" else one / other

    def _shown(self, value: pd.Series) -> pd.Series:
        return {"less": 1 - value, "more": value - 1}.get(self.kind, value)

    def __str__(self) -> str:
        """Describe the measure, as in ``jct_total_s: parrot / lccf, capacity=10Gbps``."""
        def said(run: str | Mapping[str, Any]) -> str:
            return run if isinstance(run, str) else " ".join(f"{k}={v}" for k, v in run.items())

        others: Sequence[Any] = self.other if isinstance(self.other, list) else [self.other]
        sign = " - " if self.kind == "difference" else " / "
        pair = said(self.one) + (sign + (said(others[0]) if len(others) == 1 else
                                          f"least of {', '.join(map(said, others))}")
                                 if others else "")
        parts = [{"less": f"1 - {pair}", "more": f"{pair} - 1"}.get(self.kind, pair),
                 said(self.at), f"over that at {said(self.than)}" if self.than else "",
                 *(f"{'turns ' if self.kind == 'turns' else ''}along {name}: "
                   f"{', '.join(map(str, values))}" for name, values in self.along.items()),
                 *(f"{name} in {', '.join(map(str, values))}"
                   for name, values in self.over.items()),
                 {"": "", "every": "every one"}.get(self.pick, f"the {self.pick}")]
        return f"{', '.join(self.metrics)}: {'; '.join(part for part in parts if part)}"


def _turns(curve: Sequence[pd.Series]) -> pd.Series:
    """Count, for each seed, how often a curve turns; level parts are no turns."""
    steps = pd.concat(curve, axis=1).pct_change(axis=1).iloc[:, 1:]
    signs = steps.where(steps.abs() > _TURN).apply(np.sign).ffill(axis=1)
    return (signs.diff(axis=1).abs() > 1).sum(axis=1).astype(float)


# --- runs that are kept --------------------------------------------------------------------

_FOLDER = Path(__file__).with_name("measured")

_DIGITS = 7


def read_measured(name: str) -> pd.DataFrame:
    """Read the kept runs of a setting; empty if there are none.

    A row has the varied settings, the seed, metrics, which are NaN for runs that were stopped,
    ``cpu_s``, ``trace`` and ``version`` of netsim.
    """
    path = _FOLDER / f"{name}.csv"
    if not path.is_file():
        return pd.DataFrame()
    with open_text(path) as file:
        return pd.read_csv(file, keep_default_na=False, na_values=["NaN"])


def keep_measured(name: str, table: pd.DataFrame, columns: Sequence[str],
                  metrics: Iterable[str], trace: str) -> Path:
    """Replace the kept runs of a setting by the varied columns and metrics of a table.

    ``wall_s`` of the table becomes ``cpu_s``, so each run must have had a core of its own. `trace`
    is empty if jobs were drawn.
    """
    kept = table[[*columns, "seed"]].copy()
    for metric in metrics:
        whole = of_whole_runs(table, metric) if "jobs_finished" in table else table[metric]
        kept[metric] = whole.map(f"{{:.{_DIGITS}g}}".format).astype(float)
    kept["cpu_s"], kept["trace"], kept["version"] = table["wall_s"].round(3), trace, __version__
    path = _FOLDER / f"{name}.csv"
    write_text(kept.to_csv(index=False, lineterminator="\n", na_rep="NaN"), path)
    return path

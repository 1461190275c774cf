"""The papers, statement by statement: what each says, where, how netsim measures it, and a rule.

A paper is a file of the folder ``papers``. Its settings are sweeps, or tables that a function
measures; each is a reproduction of its own. Its rows are the paper's statements, and its claims are
our own, such as controls.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from pandas.api.types import is_numeric_dtype
from pydantic import BaseModel, ConfigDict, model_validator

from netsim.base.files import read_text
from netsim.errors import InputError
from netsim.reproductions.claims import (
    CANNOT_BE_TOLD,
    HOLDS,
    OUT_OF_SCOPE,
    Claim,
    Criterion,
    Runs,
    above,
    at_least,
    at_most,
    below,
    column_of,
    is_value,
    near,
)
from netsim.reproductions.drawings import IN_PAPER
from netsim.reproductions.measure import Measure, keep_measured, read_measured
from netsim.reproductions.reproduction import Measurement, Reproduction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FOLDER = Path(__file__).with_name("papers")

_BOUNDS = {"below": below, "above": above, "at_most": at_most, "at_least": at_least}


class _LedgerTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Setting(_LedgerTable):
    """The runs on which rows are measured: a sweep, or a table made by a function for each seed."""

    title: str  #: the part of the paper, and what it shows
    keys: dict[str, Any] = {}  #: those of an experiment file
    vary: dict[str, list[Any]] | list[dict[str, list[Any]]] = {}
    seeds: int = 10  #: the number that it is meant to run with
    trace: dict[str, Any] | None = None
    #: Functions, as ``module:name`` within this package; see `Reproduction` and `Measurement`.
    derive: str = ""
    measure: str = ""
    unsteady: list[str] = []
    draw: str
    options: dict[str, Any] = {}  #: arguments of `draw`
    #: Names of policies, and of other values, in figures; by default those of the paper.
    called: dict[str, str] = {}

    def drawn(self, table: pd.DataFrame, columns: Sequence[str] = ()) -> Axes:
        """Draw the figure from a row per run and the varied columns."""
        draw = _found(self.draw)
        names = {"called": self.called} if "called" in signature(draw).parameters else {}
        axes: Axes = draw(table, columns, **names, **self.options)
        return axes


class Statement(_LedgerTable):
    """A statement of a paper, or a claim of our own."""

    id: str = ""  #: empty for a claim of our own
    where: str = ""  #: section, figure, table or equation
    find: str = ""  #: a few words of the passage
    says: str  #: in our own words; ``{paper}`` stands for the paper's number
    paper: int | float | str | None = None  #: its number, such as 2.75 or ``"58.4 %"``
    setting: str = ""
    measure: Measure | None = None
    #: Bounds by name (``below``, ``above``, ``at_most``, ``at_least``), or ``near`` and ``within``;
    #: see `Criterion.verdict`. ``"paper"`` stands for the paper's number.
    rule: dict[str, int | float | str] = {}
    sense: dict[str, int | float | str] = {}
    why: str = ""  #: the reason for the verdict, where it is not plain
    withheld: str = ""  #: the datum that the paper withholds, which a verdict would need
    scope: str = ""  #: the reason why netsim cannot check the statement

    @model_validator(mode="after")
    def _check(self) -> Statement:
        given = [name for name in ("setting", "withheld", "scope") if getattr(self, name)]
        if len(given) != 1:
            raise ValueError(f"{self.id or self.says}: give one of setting, withheld and scope")
        if bool(self.setting) != bool(self.measure and self.rule):
            raise ValueError(f"{self.id or self.says}: a setting comes with measure and rule")
        return self

    @property
    def text(self) -> str:
        """The statement, with the paper's number."""
        return self.says.format(paper=self.paper)

    @property
    def number(self) -> float | None:
        """The paper's number."""
        if not isinstance(self.paper, str):
            return self.paper
        number = float(self.paper.removesuffix("%"))
        return number / 100 if self.paper.endswith("%") else number

    def bounds(self, given: Mapping[str, float | str]) -> Criterion:
        """Make a criterion from its table."""
        paper = self.number
        if paper is None and "paper" in given.values():
            raise ValueError(f"{self.id or self.says}: it has no number of the paper")
        numbers = {name: float(paper or 0) if value == "paper" else float(value)
                   for name, value in given.items()}
        if "near" in numbers:
            return near(numbers["near"], numbers["within"])
        [(name, bound)] = numbers.items()
        return _BOUNDS[name](bound)

    @property
    def claim(self) -> Claim:
        """The statement as a claim that can be held against runs."""
        assert self.measure is not None
        criterion = self.bounds(self.rule)
        sense = self.bounds(self.sense) if self.sense else None
        return Claim(self.text, "-" if self.paper is None else str(self.paper),
                     partial(self.measure.of, criterion, sense), criterion, sense,
                     self.measure.percent, self.measure.scale)


class Outcome(NamedTuple):
    """The value of a row, its verdict, and the CPU time of the runs that it needs."""

    value: float  #: NaN, as are the ends of its interval, where there is none
    low: float
    high: float
    shown: str  #: value and interval in words
    verdict: str
    cpu_s: float


class Paper(_LedgerTable):
    """A paper of the ledger: its settings, its statements (`rows`), and claims of our own."""

    name: str
    title: str
    settings: dict[str, Setting] = {}
    rows: list[Statement] = []
    claims: list[Statement] = []

    @cached_property
    def reproductions(self) -> dict[str, Reproduction | Measurement]:
        """The settings as reproductions, by name."""
        return {f"{self.name}-{key}": self._reproduction(key, setting)
                for key, setting in self.settings.items()}

    def of(self, setting: str) -> list[Statement]:
        """The rows and claims that are measured on a setting."""
        return [row for row in (*self.rows, *self.claims) if row.setting == setting]

    def row(self, identity: str) -> Statement | None:
        """Find a row by its id."""
        return next((row for row in self.rows if row.id == identity), None)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Make a table for the page of each setting, and one of rows without a setting, by name.

        A statement comes with its id, and with its place in the paper unless that is the place of
        the one above. Claims are not in them: a page has their values in tables of its own.
        """
        parts: dict[str, list[Statement]] = {}
        for row in self.rows:
            parts.setdefault(f"{self.name}-{row.setting}" if row.setting else self.name,
                             []).append(row)
        return {name: pd.DataFrame([
            self._shown(row, row.where if above is None or row.where != above.where else "")
            for above, row in zip([None, *rows], rows, strict=False)])
            for name, rows in parts.items()}

    def _shown(self, row: Statement, where: str) -> dict[str, str]:
        outcome = self.outcome(row)
        said = {"statement": f"{row.id}: {row.text}" + (f" ({where})" if where else "")}
        if not row.rule:
            return said | {"verdict": f"{outcome.verdict}: {row.withheld or row.scope}"}
        rule = row.claim.criterion.written(row.claim.percent)
        verdict = outcome.verdict if outcome.verdict == HOLDS else f"**{outcome.verdict}**"
        # What is as it should be is not said twice.
        within = "" if rule == f"= {outcome.shown}" else f" ({rule})"
        reason = f". {row.why}" if row.why else ""
        return said | {"measured (rule): verdict": f"{outcome.shown}{within}: {verdict}{reason}"}

    def figure(self, setting: str) -> Axes:
        """Draw the figure of a setting from its kept runs, with the numbers of the paper."""
        table = read_measured(f"{self.name}-{setting}")
        names = list(map(str, table))
        columns = names[:names.index("seed")]
        numbers = [each for row in self.of(setting) for each in _of_paper(row, table, columns)]
        return self.settings[setting].drawn(pd.concat([table, *numbers]), columns)

    def keep(self, setting: str, table: pd.DataFrame, trace: str = "") -> Path:
        """Replace the kept runs of a setting by new ones, with no fewer seeds than it should have.

        The file of the runs is returned.
        """
        known, given = self.settings[setting], self.of(setting)
        if (seeds := table["seed"].nunique()) < known.seeds:
            raise InputError(f"{self.name}-{setting} is kept with {known.seeds} seeds, and these "
                             f"runs have {seeds}")
        drawn = known.options.get("metric", "jct_total_s")
        wanted = {metric for row in given if row.measure for metric in row.measure.metrics} | {
            "lower_bound_total_s", *([drawn] if isinstance(drawn, str) else drawn)}
        names = list(map(str, table))
        columns = [] if known.measure else names[:names.index("seed")]
        derived = names[names.index("key") + 1:] if "key" in names else [
            name for name in names if name not in ("seed", "wall_s")]
        metrics = [name for name in names if name in wanted or name in derived]
        if known.measure:
            columns = [name for name in metrics if not is_numeric_dtype(table[name])]
        return keep_measured(f"{self.name}-{setting}", table, columns,
                             [name for name in metrics if name not in columns], trace)

    def _reproduction(self, key: str, setting: Setting) -> Reproduction | Measurement:
        name, claims = f"{self.name}-{key}", tuple(row.claim for row in self.of(key))
        if setting.measure:
            return Measurement(name, setting.title, _function(setting.measure), claims,
                               setting.drawn, setting.unsteady, setting.seeds)
        return Reproduction(name, setting.title, setting.keys, setting.vary, claims,
                            lambda sweep: setting.drawn(sweep.table, sweep.columns), setting.trace,
                            _function(setting.derive) if setting.derive else None,
                            setting.seeds)

    def outcome(self, row: Statement, measured: pd.DataFrame | None = None) -> Outcome:
        """Measure a row, on the given runs of its setting or else on those that netsim ships."""
        nan = float("nan")
        if not row.setting:
            return Outcome(nan, nan, nan, "", OUT_OF_SCOPE if row.scope else CANNOT_BE_TOLD,
                           0.0)
        table = read_measured(f"{self.name}-{row.setting}") if measured is None else measured
        runs, claim = Runs(table), row.claim
        found = claim.row(runs)
        assert row.measure is not None
        spent = runs.any_of(row.measure.selected())
        return Outcome(found["mean"], found["low"], found["high"], found["measured"],
                       found["verdict"], float(spent["cpu_s"].sum()) if "cpu_s" in spent else nan)


def _of_paper(row: Statement, table: pd.DataFrame, columns: Sequence[str]
              ) -> Iterator[pd.DataFrame]:
    """Yield runs that would have the number of a row, of a policy with the row's own name."""
    if row.number is None or row.measure is None:
        return
    criterion = row.bounds(row.rule)
    for place, metric, values in row.measure.expected(row.number, criterion, Runs(table)):
        run: dict[str, Any] = {}
        for name, value in place.items():
            if (column := column_of(name, columns)) is not None:
                run[column] = table[column][is_value(table[column], value)].iloc[0]
        left = [name for name in columns if name not in run]
        if any(table[name].nunique() > 1 for name in left):
            continue
        run |= {name: table[name].iloc[0] for name in left}
        run[row.measure.policy] += f"{IN_PAPER} ({row.id.rpartition('-')[2]})"
        found = pd.DataFrame({metric: values}).rename_axis("seed").reset_index().assign(**run)
        if metric in ("over_lower_bound", "jct_total_s") and "over_lower_bound" in table:
            least = Runs(table).of("lower_bound_total_s", **place).to_numpy()
            found = found.assign(**{"jct_total_s": found[metric] * least} if metric !=
                                 "jct_total_s" else {"over_lower_bound": found[metric] / least})
        yield found


def _function(place: str) -> Callable[..., Any]:
    """Make a function that imports a function of this package when it is called."""
    def call(*given: Any, **named: Any) -> Any:
        return _found(place)(*given, **named)
    return call


def _found(place: str) -> Callable[..., Any]:
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(f"netsim.reproductions.{module}"), name)
    return function


def ledger_of(name: str) -> Paper:
    """Read a paper of the ledger."""
    keys = tomllib.loads(read_text(_FOLDER / f"{name}.toml"))
    settings, called = keys.get("settings", {}), keys.pop("called", {})
    return Paper.model_validate({**keys, "name": name, "settings": {
        key: {"called": called, **_inherited(key, settings)} for key in settings}})


def _inherited(key: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a setting with the keys of the setting named by ``like``.

    Its own keys replace the other's; within `keys` and `vary`, entry by entry. A key with no values
    to vary is not varied.
    """
    own = dict(settings[key])
    if "like" not in own:
        return own
    base = _inherited(own.pop("like"), settings)
    parts = {part: {**base.get(part, {}), **own.get(part, {})} for part in ("keys", "vary")}
    parts["vary"] = {name: values for name, values in parts["vary"].items() if values}
    return {**base, **own, **parts}


def statements(papers: Mapping[str, Paper]) -> Iterator[dict[str, Any]]:
    """Yield all rows of some papers, as ``netsim reproduce --rows --json`` prints them."""
    for paper in papers.values():
        for row in paper.rows:
            outcome = paper.outcome(row)
            yield {"paper": paper.name, "id": row.id, "where": row.where, "says": row.text,
                   "setting": f"{paper.name}-{row.setting}" if row.setting else None,
                   "measure": str(row.measure) if row.measure else None,
                   "measured": outcome.shown, "value": outcome.value,
                   "interval": [outcome.low, outcome.high],
                   "verdict": outcome.verdict, "why": row.why or row.withheld or row.scope,
                   "cpu_s": outcome.cpu_s}


#: The papers by name.
PAPERS = {name: ledger_of(name) for name in ("parrot", "sjf-bco", "a-srpt", "a-online")}

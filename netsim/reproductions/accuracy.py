"""Comparisons of netsim with measured times or packet-level simulations, and fits of parameters."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from netsim._version import __version__
from netsim.base.arrays import Bools, Floats
from netsim.base.files import read_text
from netsim.errors import InputError, TraceError
from netsim.reproductions.claims import PLAIN, Claim, Runs, below, table_of_claims
from netsim.reproductions.reproduction import Reproduced, write_tables
from netsim.simulation.progress import show_runs
from netsim.studies.run_store import RunStore
from netsim.traces.library import PUBLIC_TRACES

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- fits ----------------------------------------------------------------------------------

#: Most steps of Gauss-Newton, which needs fewer; and the relative change that ends them.
_STEPS, _SMALL = 100, 1e-12


def fit_times(terms: ArrayLike, measured: ArrayLike) -> Floats:
    """Fit a linear model of times, by least squares of the logarithms of simulated over measured.

    An error by a factor of 2 thus weighs the same at each size, and in either direction. `terms`,
    of shape (points, parameters), are the derivatives of each time by each parameter, which must
    not be negative; neither must the fitted parameters. The method is Gauss-Newton, from the least
    squares of relative errors.
    """
    rows, times = np.asarray(terms, np.float64), np.asarray(measured, np.float64)
    if np.linalg.matrix_rank(rows / times[:, None]) < rows.shape[1]:
        raise InputError(f"{len(times)} points do not determine {rows.shape[1]} parameters")
    found = _least_squares(rows / times[:, None], np.ones(len(times)))
    for _ in range(_STEPS):
        _refuse_negative(found)
        modelled = rows @ found
        step = _least_squares(rows / modelled[:, None], np.log(times / modelled))
        found = found + step
        if (np.abs(step) <= _SMALL * found).all():
            break
    _refuse_negative(found)
    return found


def _least_squares(rows: Floats, values: Floats) -> Floats:
    return np.asarray(np.linalg.lstsq(rows, values, rcond=None)[0], np.float64)


def _refuse_negative(parameters: Floats) -> None:
    if (parameters < 0).any():
        raise InputError(f"the fit gives a negative parameter: {parameters.tolist()}")


def at_odd_positions(count: int) -> Bools:
    """Mask the first, third, ... of some points."""
    return np.arange(count) % 2 == 0


def four_figures(value: float) -> float:
    """Round a parameter to four significant digits, as in the file."""
    return float(f"{value:.4g}")


@functools.cache
def _all_fitted() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    found: Mapping[str, Mapping[str, Mapping[str, float]]] = tomllib.loads(
        read_text(Path(__file__).with_name("fitted.toml")))
    return found


def fitted(name: str) -> Mapping[str, Mapping[str, float]]:
    """The parameters of a comparison in netsim's file of parameters, by their table."""
    return _all_fitted()[name]


def fitted_text(name: str, parameters: Mapping[str, Mapping[str, float]]) -> str:
    """Write the part of a comparison in the file of parameters."""
    lines = []
    for table, values in parameters.items():
        lines += [f"[{name}.{table}]", *(f"{key} = {value!r}" for key, value in values.items()), ""]
    return "\n".join(lines)


def find_file(folder: str | Path, *names: str) -> Path:
    """Find the first file with one of the given names, in a folder or below it."""
    for name in names:
        if (Path(folder) / name).is_file():
            return Path(folder) / name
        if found := sorted(Path(folder).rglob(name)):
            return found[0]
    raise TraceError(f"has no file {' or '.join(names)}", folder)


# --- comparisons ---------------------------------------------------------------------------

#: Relative tolerance: parameters are written with four digits, and processors round differently.
_SAME = 2e-3

#: Parameters by their names, for each table that they were fitted to.
Parameters = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Accuracy:
    """A comparison with a public table of times."""

    name: str
    title: str
    data: str  #: name of the table in `PUBLIC_TRACES`
    #: Simulates all points of the table in a folder or file; returns a row per point.
    compare: Callable[[Path], pd.DataFrame]
    summarise: Callable[[pd.DataFrame], Mapping[str, pd.DataFrame]]  #: tables of errors, by name
    #: About the tables of errors, which are concatenated with their name in the column ``table``.
    claims: Sequence[Claim]
    draw: Callable[[pd.DataFrame], Axes]
    #: Fits the parameters to the points at odd positions; `compare` uses those of ``fitted.toml``.
    fit: Callable[[Path], Parameters] | None = None

    seeds: ClassVar[int] = 1  # nothing is random

    def run(self, *, seeds: int | Sequence[int] = 1, trace: str | Path | None = None,
            workers: int = 1, folder: str | Path | None = None, resume: bool = True,
            progress: bool | Callable[[int, int, int], None] = False) -> Reproduced:
        """Simulate the points of the table, and check the claims.

        `trace` is the folder with the table's files, as `netsim data fetch` prints it. The folder
        gets the points, the errors, the claims and the parameters that this table gives. `seeds`,
        `workers` and `resume` have no effect, as nothing is random and one process simulates
        everything.
        """
        if trace is None:
            raise InputError(f"{self.name} needs the table that it compares with: "
                             f"--trace \"$(netsim data fetch {self.data})\"")
        found: Parameters = {}
        with show_runs(progress, 1, 0) as report:
            points = self.compare(Path(trace))
            if self.fit is not None:
                found = self.fit(Path(trace))
            report(False)
        tables = {**self.summarise(points), **self._parameters(found)}
        errors = pd.concat([each.assign(table=name) for name, each in tables.items()])
        claims = table_of_claims(self.claims, errors.assign(seed=0))
        if folder is not None:
            write_tables(folder, runs=points, errors=errors, claims=claims)
            if found:
                RunStore(folder).write("fitted.toml", fitted_text(self.name, found))
        shown = {name: on_page(each) for name, each in tables.items()}
        return Reproduced(points, claims, lambda: self.draw(points),
                          tables={"source": self._source(), **shown, "claims": claims[
                              ["claim", "paper", "measured", "verdict"]
                          ].rename(columns={"paper": "expected"})})

    def _parameters(self, found: Parameters) -> dict[str, pd.DataFrame]:
        """Make a table of the parameters in use, and of those fitted to the points."""
        rows = [{"fitted to": table, "parameter": key, "in use": fitted(self.name)[table][key],
                 "refitted": value} for table, values in found.items()
                for key, value in values.items()]
        return {"parameters": pd.DataFrame(rows)} if rows else {}

    def _source(self) -> pd.DataFrame:
        """Make a table with the version of netsim and the source of the data."""
        public = PUBLIC_TRACES[self.data]
        return pd.DataFrame({"netsim": [__version__], "compared with": [public.url],
                             "licence": [public.licence]})


def refitted_claim() -> Claim:
    """Make the claim that a table gives the parameters that are part of netsim."""
    return Claim("Largest relative difference of a parameter from its fit", "0", _refitted,
                 below(_SAME), scale=PLAIN)


def _refitted(runs: Runs) -> pd.Series:
    own = runs.rows(table="parameters")
    return pd.Series([float((own["in use"] / own["refitted"] - 1).abs().max())], [0])


def errors_by(points: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Summarise the errors of points, ``simulated_s`` over ``measured_s``, by class.

    A class has one combination of values of the columns `by`. Its row has the number of ``points``;
    ``simulated / measured``, its geometric mean; ``geometric mean error``, exp(mean of
    |log(simulated / measured)|) - 1; and ``mean error`` and ``worst error`` of |simulated /
    measured - 1|. If points have a column ``fitted``, all this is of those that are held out;
    ``error, fitted points`` is the geometric mean error of the others, NaN if there are none.
    """
    rows = []
    for names, own in points.groupby(list(by), sort=False):
        row: dict[Any, Any] = dict(zip(by, names, strict=True))
        if "fitted" not in own:
            rows.append(row | _errors(own))
        elif not own["fitted"].all():
            known = own[own["fitted"]]
            rows.append(row | _errors(own[~own["fitted"]]) | {
                "error, fitted points":
                    _errors(known)["geometric mean error"] if len(known) else float("nan")})
    return pd.DataFrame(rows)


def on_page(errors: pd.DataFrame) -> pd.DataFrame:
    """Leave out of a table of errors what a page does not show; ``errors.csv`` has it."""
    return errors.drop(columns=["mean error", "error, fitted points"], errors="ignore")


def _errors(points: pd.DataFrame) -> dict[str, float]:
    ratio = (points["simulated_s"] / points["measured_s"]).to_numpy(np.float64)
    logs, off = np.log(ratio), np.abs(ratio - 1)
    return {"points": len(ratio), "simulated / measured": float(np.exp(logs.mean())),
            "geometric mean error": float(np.expm1(np.abs(logs).mean())),
            "mean error": float(off.mean()), "worst error": float(off.max())}

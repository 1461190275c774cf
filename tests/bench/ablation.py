"""What each regime of the fabric's kernels buys: cases with it and without.

A regime is what a kernel does to save time where it could do without. It is switched off by another
value of a constant, in a new process that compiles the kernels with that. Both run at the same
time, each on a core, and then change places, as a machine is not equally fast all the time.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

_NEVER = 1 << 60


class Regime(NamedTuple):
    """A way to save time.

    Attributes
    ----------
    off : dict
        What switches it off: constants by module of `netsim.fabric`, and their values.
    cases : tuple of str
    """

    off: dict[str, Any]
    cases: tuple[str, ...]


_SHARED = ("at-once-10k", "at-once-100k", "poisson-10k", "poisson-100k", "fat-tree-10k",
           "all-to-all",
           "ring-maxmin", "facebook-maxmin", "facebook-coflow-fair")
_GREEDY = ("many-2000-sincronia", "observed-1ms-srtf")
_ORDERED = ("facebook-sebf", "facebook-aalo", "facebook-aalo:weights=strict", "facebook-scf")

REGIMES = {
    "table of link pairs": Regime({"kernels.max_min_state._MOST_IN_TABLE": 0}, _SHARED),
    "epochs": Regime({"kernels.max_min_state.MANY": _NEVER}, _SHARED),
    "order of the last fill": Regime({"kernels.max_min_levels._ATTEMPTS": 0}, _SHARED),
    "repair of levels": Regime({"kernels.max_min_levels._FEW_TOUCHED": 1 << 40}, _SHARED),
    "ends in a heap": Regime({"kernels.max_min_rates._MANY_ENDS": _NEVER},
                             ("poisson-10k", "poisson-100k", "fat-tree-10k", "ring-maxmin",
                              "permutation-50k", "observed-1ms-maxmin")),
    "classes": Regime({"kernels.max_min._CLASSES_MERGE": False},
                      (*_SHARED, "eight-hosts-100k", "two-links-40k")),
    # Then each end of a flow leaves the loop, and all rows are copied: that is measured, too.
    "flow order: changes": Regime({"kernels.flow_order._MOST_GONE": 1 << 30}, _GREEDY),
    "slots side by side": Regime({"kernels.priority_rows._CLOSE": 0}, _ORDERED),
    "instants passed over": Regime({"kernels.priority_state.INSTANTS": 1}, _ORDERED),
}


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Measure all regimes."""
    if context.invoked_subcommand is None:
        context.invoke(measure)


@main.command()
@click.argument("regimes", nargs=-1, type=click.Choice(list(REGIMES)))
def measure(regimes: tuple[str, ...]) -> None:
    """Measure the REGIMES, all if there are none: CPU seconds without, over those with it."""
    table = Table("regime", "what it buys")
    for name in regimes or REGIMES:
        table.add_row(name, ", ".join(f"{case} {ratio:.2f}" for case, ratio
                                      in sorted(_ratios(REGIMES[name]).items(),
                                                key=lambda found: -found[1])))
    Console(width=110).print(table)


def _ratios(regime: Regime) -> dict[str, float]:
    """Return how many times as long each case takes without a regime."""
    cores = (2 * sorted(os.sched_getaffinity(0)))[:2]
    found: dict[bool, dict[str, float]] = {True: {}, False: {}}
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        for turn in (cores, cores[::-1]):
            running = {with_it: _start({} if with_it else regime.off, regime.cases, folder, core)
                       for with_it, folder, core in zip((True, False), (one, other), turn,
                                                        strict=True)}
            for with_it, process in running.items():
                said, _ = process.communicate()
                for case, seconds in json.loads(said).items():
                    before = found[with_it].get(case, seconds)
                    found[with_it][case] = min(before, seconds)
    return {case: found[False][case] / found[True][case] for case in regime.cases}


def _start(off: dict[str, Any], cases: tuple[str, ...], folder: str, core: int
           ) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, __file__, "time", json.dumps(off), *cases], stdout=subprocess.PIPE,
        env={**os.environ, "NUMBA_CACHE_DIR": folder},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}))


@main.command("time", hidden=True)
@click.argument("off")
@click.argument("cases", nargs=-1)
def time_cases(off: str, cases: tuple[str, ...]) -> None:
    """Print the CPU seconds of cases with other constants."""
    for name, value in json.loads(off).items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(f"netsim.fabric.{module}"), constant, value)
    from cases import CASES
    from reference import cpu_of

    found = {}
    for name in cases:
        CASES[name].build(True)[0]()
        run, check = CASES[name].build(False)
        found[name], result = cpu_of(run)
        check(result)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Time the cases, side by side with a reference, with stored results, or with another version.

Ratios are of CPU seconds, the least of some rounds each, taken in turn with the reference: a
machine that is slow for an hour is slow for both.
"""

from __future__ import annotations

import fnmatch
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numba
from numba.core import event
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))
if "PYTHONPATH" not in os.environ:  # else it says which checkout is timed, see `_elsewhere`
    sys.path.insert(1, str(Path(__file__).parents[2]))

from cases import CASES, Case
from page import markdown
from reference import REFERENCES, cpu_of

#: A short case is run so often that it takes about so many CPU seconds, small and in full; and how
#: often at most. Of the small ones a large regression is seen at once, and any is measured again.
_WORTH = {True: 0.2, False: 3.0}
_RUNS = {True: 2, False: 7}

#: How often a case is run between two runs of a reference that is longer.
_IN_TURN = 3


@click.command()
@click.argument("patterns", nargs=-1)
@click.option("--smoke", is_flag=True, help="Small instances, good for seeing a large regression.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Store the results there.")
@click.option("--against", type=click.Path(exists=True, path_type=Path),
              help="Results stored before, to be set beside.")
@click.option("--limit", type=float,
              help="With --against: fail if a ratio has grown by more than this factor.")
@click.option("--versus", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="A checkout of another version, to be run in turn with this one.")
@click.option("--markdown", "as_page", is_flag=True,
              help="Print a table for docs/performance.md.")
def main(patterns: tuple[str, ...], smoke: bool, path: Path | None, against: Path | None,
         limit: float | None, versus: Path | None, as_page: bool) -> None:
    """Time the cases that match PATTERNS, all if there are none."""
    chosen = [case for name, case in CASES.items()
              if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    if not chosen:
        raise click.UsageError(f"no case matches {' '.join(patterns)}; choose from: "
                               + ", ".join(CASES))
    stored = json.loads(against.read_text()) if against else {"smoke": smoke, "cases": {}}
    before = stored["cases"]
    if stored["smoke"] != smoke:
        raise click.UsageError(f"{against} is of {'small' if stored['smoke'] else 'full'} ones")
    if limit and (unknown := [case.name for case in chosen if case.name not in before]):
        raise click.UsageError(f"--limit needs --against a file that has {', '.join(unknown)}")
    results = {}
    for case in chosen:
        print(f"{case.name} ...", file=sys.stderr, flush=True)
        results[case.name] = found = measure(case, smoke)
        if versus:
            found["versus_s"] = min(_elsewhere(case, smoke, versus) for _ in range(2))
            found |= min(found, measure(case, smoke), key=lambda one: one["cpu_s"])
        was = before.get(case.name, {}).get("ratio")
        if limit and was and found["ratio"] > limit * was:  # once more, to be sure
            found |= min(found, measure(case, smoke), key=lambda one: one["ratio"])
    if as_page:
        print(markdown(results))
    else:
        _show(results, before)
    if path:
        path.write_text(json.dumps({"machine": _machine(), "smoke": smoke, "cases": results},
                                   indent=1) + "\n")
    slow = [name for name, found in results.items()
            if limit and found["ratio"] > limit * before[name]["ratio"]]
    if slow:
        sys.exit(f"slower by more than {limit:g} times than {against}: {', '.join(slow)}")


def measure(case: Case, smoke: bool) -> dict[str, Any]:
    """Return the least CPU seconds of a case and of its reference, and their ratio."""
    run, check = case.build(smoke)
    reference = REFERENCES[case.beside]
    # What is compiled is compiled by a run that is not timed, of the small instance at least.
    (run if smoke else case.build(True)[0])()
    cpu, beside = [], [_cpu_when_compiled(reference)[0]]
    while not cpu or (sum(cpu) < _WORTH[smoke] and len(cpu) < _RUNS[smoke]):
        for _ in range(_IN_TURN if cpu and cpu[0] < beside[0] else 1):
            seconds, result = _cpu_when_compiled(run)
            cpu.append(seconds)
            check(result)
            del result
        beside.append(cpu_of(reference)[0])
    return {"cpu_s": min(cpu), "reference": case.beside, "reference_s": min(beside),
            "ratio": min(cpu) / min(beside), "target_s": case.target}


def _cpu_when_compiled(call: Callable[[], Any]) -> tuple[float, Any]:
    """As `cpu_of`, of a second call if the first one had to compile."""
    with event.install_recorder("numba:compile") as compiling:
        timed = cpu_of(call)
    return cpu_of(call) if compiling.buffer else timed


def _elsewhere(case: Case, smoke: bool, checkout: Path) -> float:
    """Return the CPU seconds of the case of this name in another checkout."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        # Its own script, as modules may have other names there.
        words = [str(checkout.resolve() / "tests" / "bench" / "run.py"), case.name,
                 "--json", str(found)]
        subprocess.run([sys.executable, *words, *(["--smoke"] if smoke else [])], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       cwd=checkout,  # what a new interpreter looks in first
                       env={**os.environ, "PYTHONPATH": str(checkout.resolve())})
        return float(json.loads(found.read_text())["cases"][case.name]["cpu_s"])


def _machine() -> dict[str, str]:
    return {"python": platform.python_version(), "numba": numba.__version__,
            "machine": platform.machine(), "processor": platform.processor()}


def _show(results: dict[str, dict[str, Any]], before: dict[str, Any]) -> None:
    columns = {
        "CPU s": lambda name, found: f"{found['cpu_s']:.3g}",
        "target in full": lambda name, found: f"{found['target_s']:g}",
        "reference": lambda name, found: found["reference"],
        "ratio": lambda name, found: f"{found['ratio']:.3g}",
        "stored ratio": lambda name, found: (f"{before[name]['ratio']:.3g}" if name in before
                                             else ""),
        "other version": lambda name, found: f"{found['versus_s']:.3g}",
        "this / other": lambda name, found: f"{found['cpu_s'] / found['versus_s']:.2f}",
    }
    if not before:
        del columns["stored ratio"]
    if not all("versus_s" in found for found in results.values()):
        del columns["other version"], columns["this / other"]
    table = Table("case")
    for title in columns:
        table.add_column(title, justify="left" if title == "reference" else "right")
    for name, found in results.items():
        table.add_row(name, *(cell(name, found) for cell in columns.values()))
    Console(width=110).print(table)


if __name__ == "__main__":
    main()

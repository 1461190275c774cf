"""Show that the tests have power: each of the faults in `mutants.toml` makes one of them fail.

A fault, or *mutant*, replaces a piece of code that is there exactly once. It is put into a copy of
the checkout, in which the tests that it names are run. One of them must fail, and none may break.

    python tests/mutants.py                     # all, in about ten minutes
    python tests/mutants.py --only zero-bytes   # one
    python tests/mutants.py --check             # only whether all can still be put in
    python tests/mutants.py --whole             # each against all tests, before a release
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from netsim.kernel_folder import cache_folder

ROOT = Path(__file__).parents[1]

#: What is not part of a checkout, or large.
_LEFT_OUT = shutil.ignore_patterns(".*", "_build", "build", "dist", "runs", "netsim-????????????")

#: Errors that show that a mutant breaks the code, rather than what it does.
_BREAKS = re.compile(r"\b(Import|ModuleNotFound|Syntax|Indentation|Name|Typing|Lowering)Error\b")

#: Seconds after which tests count as hanging.
_LONGEST = 600

_WHOLE = ("-n", "auto", "--dist", "worksteal", "--ignore=tests/test_mutants.py")


class Mutant(NamedTuple):
    """A fault: its name, what it means, the code that it replaces, and tests that find it."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: list[str]


class Outcome(NamedTuple):
    """Whether a mutant was found, how long that took, and by which test, or why not."""

    found: bool
    seconds: float
    said: str


def mutants() -> list[Mutant]:
    """Return all mutants."""
    with (ROOT / "tests/mutants.toml").open("rb") as file:
        return [Mutant(name, **row) for name, row in tomllib.load(file).items()]


def faults_of(mutant: Mutant) -> Iterator[str]:
    """Say why a mutant cannot be put in, or its tests cannot be run."""
    file = ROOT / mutant.file
    times = file.read_text("utf-8").count(mutant.old) if file.is_file() else 0
    if times != 1:
        where = f"{times} times in" if file.is_file() else "not to be found, as there is no"
        yield (f"{mutant.name}: the code is {where} {mutant.file}; move the mutant along with it: "
               f"{mutant.old!r}")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        name = name.partition("[")[0].rpartition("::")[2]
        if not (ROOT / path).is_file():
            yield f"{mutant.name}: there is no {path}"
        elif name and not re.search(rf"(def|class) {name}\b", (ROOT / path).read_text("utf-8")):
            yield f"{mutant.name}: there is no {name} in {path}"


def _pytest(tree: Path, kernels: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy of the checkout, with Hypothesis' examples the same each time."""
    given = os.environ | {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(kernels), "CI": "1"}
    return subprocess.run([sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--color=no",
                           "--no-header", "--tb=short", *tests], cwd=tree, env=given,
                          capture_output=True, text=True, timeout=_LONGEST, check=False)


@contextmanager
def _copy_of(tree: Path, beside: Path) -> Iterator[Path]:
    """Provide a copy, with the times of files, by which what was compiled is known."""
    with TemporaryDirectory(dir=beside) as folder:
        yield Path(shutil.copytree(tree, Path(folder, "netsim"), ignore=_LEFT_OUT))


def _kernels_in(folder: Path) -> Path:
    """Make a folder of compiled kernels; those of the checkout are good for copies."""
    kept, kernels = cache_folder(), folder / "kernels"
    if kept.is_dir():
        shutil.copytree(kept, kernels / kept.name)
    return kernels


def _try(mutant: Mutant, tree: Path, kernels: Path, tests: Sequence[str]) -> Outcome:
    """Put a mutant into a copy of a tree, and run tests."""
    began = time.monotonic()
    with _copy_of(tree, kernels.parent) as copy:
        file = copy / mutant.file
        file.write_text(file.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
        try:
            ended = _pytest(copy, kernels, tests or mutant.tests)
        except subprocess.TimeoutExpired:
            return Outcome(False, time.monotonic() - began, f"hangs for {_LONGEST} s")
    seconds = time.monotonic() - began
    if ended.returncode == 0:
        return Outcome(False, seconds, "survives")
    failed = re.search(r"^FAILED (.*?)(?: - (.*))?$", ended.stdout, re.MULTILINE)
    if ended.returncode != 1 or not failed or _BREAKS.search(failed[2] or ""):
        return Outcome(False, seconds, "breaks the tests:\n" + ended.stdout + ended.stderr)
    return Outcome(True, seconds, failed[1])


def _tell(mutant: Mutant, outcome: Outcome) -> bool:
    """Print a line on a mutant; return whether it was found."""
    sign = "found" if outcome.found else "NOT FOUND"
    click.echo(f"{sign} {outcome.seconds:4.0f} s  {mutant.name}: {outcome.said}")
    return outcome.found


@click.command(help=__doc__.partition("\n")[0] if __doc__ else None)
@click.option("--only", multiple=True, metavar="NAME", help="Only this mutant; repeatable.")
@click.option("--check", is_flag=True, help="Only check whether all mutants can be put in.")
@click.option("--whole", is_flag=True, help="Run all tests against each, not those that it names.")
@click.option("--jobs", default=os.cpu_count() or 1, help="How many mutants are tried at a time.")
def main(only: Sequence[str], check: bool, whole: bool, jobs: int) -> None:
    """Try mutants; exit with 1 if one of them is not found."""
    listed = mutants()
    if wrong := [fault for mutant in listed for fault in faults_of(mutant)]:
        raise click.ClickException("\n".join(wrong))
    if unknown := set(only) - {mutant.name for mutant in listed}:
        raise click.ClickException(f"there is no mutant {', '.join(sorted(unknown))}")
    if check:
        click.echo(f"{len(listed)} mutants can be put in")
        return
    chosen = [mutant for mutant in listed if mutant.name in only or not only]
    tests = _WHOLE if whole else ()
    with TemporaryDirectory(prefix="mutants-") as folder, _copy_of(ROOT, Path(folder)) as tree:
        kernels = _kernels_in(Path(folder))
        named = sorted({test for mutant in chosen for test in mutant.tests})
        ended = _pytest(tree, kernels, tests or named)
        if ended.returncode:
            raise click.ClickException("without a mutant, tests fail:\n" + ended.stdout)
        run = partial(_try, tree=tree, kernels=kernels, tests=tests)
        with ThreadPoolExecutor(1 if whole else jobs) as pool:
            found = sum(map(_tell, chosen, pool.map(run, chosen)))
    click.echo(f"{found} of {len(chosen)} mutants are found")
    sys.exit(found < len(chosen))


if __name__ == "__main__":
    main()

"""Show that the tests have power: of the small faults in `mutants.toml`, each makes a test fail.

A fault, or *mutant*, replaces code that is there exactly once. It is put into a copy of the
checkout, in which the tests that it names are run. Those pass without a mutant.

    python tests/mutants.py                     # all, in about ten minutes
    python tests/mutants.py --only zero-bytes   # one
    python tests/mutants.py --check             # only whether all can still be put in
    python tests/mutants.py --whole             # each against all tests, before a release
"""

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from netsim.kernel_folder import cache_folder

ROOT = Path(__file__).parents[1]

#: What is no part of a checkout. Of compiled kernels, those of other versions are left out, too.
LEFT_OUT = shutil.ignore_patterns(".*", "_build", "build", "dist", "runs", "netsim-????????????")

#: Errors of code that a mutant breaks, rather than what it does.
BREAKS = re.compile(r"\b(Import|ModuleNotFound|Syntax|Indentation|Name|Typing|Lowering)Error\b")

#: Seconds after which tests are taken to hang; with `--whole` they may take as long as they like.
LONGEST = 600

#: All tests but that of the mutants themselves.
WHOLE = ["-n", "auto", "--dist", "worksteal", "--ignore=tests/test_mutants.py"]


class Mutant(NamedTuple):
    """A fault: its name, what it means, the code that it replaces, and tests that find it."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: list[str]


class Outcome(NamedTuple):
    """Whether a mutant was found, in how many seconds, and by which test, or why it was not."""

    found: bool
    seconds: float
    said: str


def mutants():
    """Return all mutants."""
    tables = tomllib.loads((ROOT / "tests/mutants.toml").read_text("utf-8"))
    return [Mutant(name, **table) for name, table in tables.items()]


def faults_of(mutant):
    """List why a mutant cannot be put in, or its tests cannot be run."""
    file, faults = ROOT / mutant.file, []
    times = file.read_text("utf-8").count(mutant.old) if file.is_file() else 0
    if times != 1:
        faults.append(f"{mutant.name}: its code is {times} times in {mutant.file}, not once; move "
                      f"the mutant along with it:\n{mutant.old}")
    for test in mutant.tests:
        path, *names = test.partition("[")[0].split("::")
        text = (ROOT / path).read_text("utf-8") if (ROOT / path).is_file() else ""
        missing = [name for name in names if not re.search(rf"\b(def|class) {name}\b", text)]
        if missing or not text:
            faults.append(f"{mutant.name}: there is no {test}")
    return faults


def copied(tree, folder):
    """Copy a checkout and its compiled code, which is known by the times of files."""
    kernels = cache_folder().name
    return Path(shutil.copytree(tree, Path(folder, "netsim"),
                                ignore=lambda *found: LEFT_OUT(*found) - {kernels}))


def run_pytest(tree, tests):
    """Run tests in a copy of the checkout, with the same random examples each time."""
    changed = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": "", "CI": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--color=no", "--tb=short", *tests],
        cwd=tree, env=os.environ | changed, capture_output=True, text=True, check=False,
        timeout=None if tests == WHOLE else LONGEST)


def tried(mutant, tree, whole):
    """Put a mutant into a copy of the checkout, and run tests."""
    began = time.monotonic()
    with TemporaryDirectory(dir=tree.parent) as folder:
        copy = copied(tree, folder)
        code = (copy / mutant.file).read_text("utf-8")
        (copy / mutant.file).write_text(code.replace(mutant.old, mutant.new), "utf-8")
        try:
            ended = run_pytest(copy, WHOLE if whole else mutant.tests)
        except subprocess.TimeoutExpired:
            return Outcome(False, LONGEST, "its tests hang")
    seconds = time.monotonic() - began
    failed = re.search(r"^FAILED (.*?)(?: - (.*))?$", ended.stdout, re.MULTILINE)
    if ended.returncode == 0:
        return Outcome(False, seconds, "survives")
    if ended.returncode != 1 or not failed or BREAKS.search(failed[2] or ""):
        return Outcome(False, seconds, f"breaks its tests:\n{ended.stdout}{ended.stderr}")
    return Outcome(True, seconds, failed[1])


@click.command(help=__doc__.partition("\n")[0])
@click.option("--only", multiple=True, metavar="NAME", help="Only this mutant; repeatable.")
@click.option("--check", is_flag=True, help="Only check that all mutants can be put in.")
@click.option("--whole", is_flag=True, help="Run all tests against each, not those that it names.")
@click.option("--jobs", default=os.cpu_count(), help="How many mutants to try at a time.")
def main(only, check, whole, jobs):
    """Try mutants; exit with 1 if one of them is not found."""
    listed = mutants()
    faults = [fault for mutant in listed for fault in faults_of(mutant)]
    unknown = set(only) - {mutant.name for mutant in listed}
    faults += [f"there is no mutant {name}" for name in sorted(unknown)]
    if faults:
        raise click.ClickException("\n".join(faults))
    if check:
        return click.echo(f"{len(listed)} mutants can be put in")
    chosen = [mutant for mutant in listed if mutant.name in only or not only]
    with TemporaryDirectory() as folder:
        tree = copied(ROOT, folder)
        tests = WHOLE if whole else sorted({test for mutant in chosen for test in mutant.tests})
        if (ended := run_pytest(tree, tests)).returncode:
            raise click.ClickException(f"tests fail without a mutant:\n{ended.stdout}")
        found, one = 0, partial(tried, tree=tree, whole=whole)
        with ThreadPool(1 if whole else jobs) as pool:
            for mutant, outcome in zip(chosen, pool.imap(one, chosen), strict=True):
                found += outcome.found
                click.echo(f"{'found' if outcome.found else 'NOT FOUND'} {outcome.seconds:4.0f} s  "
                           f"{mutant.name}: {outcome.said}")
    click.echo(f"{found} of {len(chosen)} mutants are found")
    return sys.exit(found < len(chosen))


if __name__ == "__main__":
    main()

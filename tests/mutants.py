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
from multiprocessing.pool import ThreadPool
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
from numba.core.caching import UserProvidedCacheLocator as Locator

from netsim.base.files import cache_folder

ROOT = Path(__file__).parents[1]

#: What is no part of a checkout. Of compiled kernels, those of other versions are left out, too.
LEFT_OUT = shutil.ignore_patterns(".*", "_build", "build", "dist", "runs", "netsim-????????????")

#: Errors of code that a mutant breaks, rather than what it does.
BREAKS = re.compile(r"\b(Import|ModuleNotFound|Syntax|Indentation|Name|Typing|Lowering)Error\b")

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
        if not text or not all(re.search(rf"\b(def|class) {name}\b", text) for name in names):
            faults.append(f"{mutant.name}: there is no {test}")
    return faults


def copied(tree, folder, copy=shutil.copy2):
    """Copy a checkout with compiled code, which Numba knows by the times and folders of files."""
    kernels, named = cache_folder().name, Locator.get_suitable_cache_subpath
    made = shutil.copytree(tree, Path(folder, "netsim"), copy_function=copy,
                           ignore=lambda *found: LEFT_OUT(*found) - {kernels})
    kept = made / "netsim/__pycache__" / kernels
    for source in {file.parent for file in tree.glob("netsim/**/*.py")}:
        code = source.relative_to(tree) / "any.py"
        before, after = (kept / named(str(each / code)) for each in (tree, made))
        if before.is_dir():
            before.rename(after)
    return made


def run_pytest(tree, tests):
    """Run tests in a copy of the checkout, with the same random examples each time."""
    changed = {"PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": "", "CI": "1"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", "-rf", "--color=no", "--tb=short", *tests],
        cwd=tree, env=os.environ | changed, capture_output=True, text=True, check=False,
        timeout=None if tests == WHOLE else 600)


def tried(mutant, tree, whole):
    """Put it in, and run tests; return whether one fails, after how many seconds, and which."""
    began = time.monotonic()
    with TemporaryDirectory(dir=tree.parent) as folder:
        copy = copied(tree, folder, os.link)
        code = (file := copy / mutant.file).read_text("utf-8")
        file.unlink()  # or it would be written in the tree, too
        file.write_text(code.replace(mutant.old, mutant.new), "utf-8")
        try:
            ended = run_pytest(copy, WHOLE if whole else mutant.tests)
        except subprocess.TimeoutExpired:
            return False, 600.0, "its tests hang"
    seconds = time.monotonic() - began
    failed = re.search(r"^FAILED (.*?)(?: - (.*))?$", ended.stdout, re.MULTILINE)
    if ended.returncode == 0:
        return False, seconds, "survives"
    if ended.returncode != 1 or not failed or BREAKS.search(failed[2] or ""):
        return False, seconds, f"breaks its tests:\n{ended.stdout}{ended.stderr}"
    return True, seconds, failed[1]


@click.command(help=__doc__.partition("\n")[0])
@click.option("--only", multiple=True, metavar="NAME", help="Only this mutant; repeatable.")
@click.option("--check", is_flag=True, help="Only check that all mutants can be put in.")
@click.option("--whole", is_flag=True, help="Run all tests against each, not those that it names.")
@click.option("--jobs", default=os.cpu_count(), help="How many mutants to try at a time.")
def main(only, check, whole, jobs):
    """Try mutants; exit with 1 if one of them is not found."""
    listed = mutants()
    faults = [fault for mutant in listed for fault in faults_of(mutant)]
    faults += [f"there is no mutant {name}" for name in {*only} - {each.name for each in listed}]
    if faults:
        raise click.ClickException("\n".join(faults))
    if check:
        return click.echo(f"{len(listed)} mutants can be put in")
    chosen = [mutant for mutant in listed if mutant.name in only or not only]
    found = 0
    with TemporaryDirectory() as folder:
        tree = copied(ROOT, folder)
        tests = WHOLE if whole else sorted({test for mutant in chosen for test in mutant.tests})
        if (ended := run_pytest(tree, tests)).returncode:
            raise click.ClickException(f"tests fail without a mutant:\n{ended.stdout}")
        with ThreadPool(1 if whole else jobs) as pool:
            outcomes = pool.imap(lambda mutant: tried(mutant, tree, whole), chosen)
            for mutant, (fails, seconds, said) in zip(chosen, outcomes, strict=True):
                found += fails
                click.echo(f"{'found' if fails else 'NOT FOUND'} {seconds:4.0f} s  "
                           f"{mutant.name}: {said}")
    click.echo(f"{found} of {len(chosen)} mutants are found")
    return sys.exit(found < len(chosen))


if __name__ == "__main__":
    main()

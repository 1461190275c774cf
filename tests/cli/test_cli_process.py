"""What only a process of its own can show: imports, signals, pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import netsim as api
from tests.pairs import exhaustive

MAIN = "from netsim.cli.main import main; main(prog_name='netsim')"
#: As in a terminal: a test runner in the background has its children ignore Ctrl-C.
HEEDING = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"

STOP = '''\
import os, signal
import netsim

class Stop(netsim.Allocator):
    """Has the process stopped when the first job has finished."""

    def __init__(self, by="SIGINT"):
        self.by = by

    def allocate(self, view):
        if view.now > 20:
            os.kill(os.getpid(), getattr(signal, self.by))
        return netsim.Allocation(view.maxmin())
'''


@pytest.fixture
def python(here: Path):
    """Return a function that runs Python code with arguments in the folder."""
    root = str(Path(api.__file__).parents[1])

    def run(code: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=here, text=True, timeout=120,
            env=os.environ | {"PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"},
            **{"capture_output": True} | options)

    return run


def test_ctrl_c_in_the_middle_leaves_nothing(python, here) -> None:
    (here / "stop.py").write_text(STOP)
    before = sorted(here.rglob("*"))
    done = python(HEEDING, "compare", "fig2.toml", "--allocator", "parrot,stop:Stop", "--out", "r")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == (
        "interrupted: stop:Stop: at 22 s of the simulation 1 of 2 jobs had finished, JCT 20 s on "
        "average, p95 20 s\n  parrot had ended: JCT 40.99 s in total\n"
        "lost: what had ended (parrot), as a comparison keeps nothing before its end; netsim sweep "
        "FILE --vary allocator=... keeps runs that have ended, and goes on after one that fails; "
        "in Python, netsim.sweep(..., allocator=[...], folder=...)\n")
    assert sorted(here.rglob("*")) == before


@exhaustive
def test_sigterm_in_the_middle_leaves_nothing(python, here) -> None:
    (here / "stop.py").write_text(STOP)
    before = sorted(here.rglob("*"))
    done = python(MAIN, "run", "fig2.toml", "--set", "allocator=stop:Stop:by=SIGTERM")
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr == ("terminated: at 22 s of the simulation 1 of 2 jobs had finished, "
                           "JCT 20 s on average, p95 20 s\n")
    assert sorted(here.rglob("*")) == before


@exhaustive
def test_a_sweep_that_is_stopped_keeps_its_runs_and_goes_on(python, here) -> None:
    (here / "stop.py").write_text(STOP)
    command = ("sweep", "fig2.toml", "--vary", "allocator=parrot,lccf,stop:Stop:by=SIGTERM",
               "--out", "s")
    done = python(MAIN, *command)
    assert (done.returncode, done.stdout) == (143, "")
    assert done.stderr == ("terminated: 2 of 3 runs had ended and are kept in s; the same command "
                           "goes on\n")
    assert len(list((here / "s" / "runs").iterdir())) == 2


@exhaustive
def test_a_broken_pipe_is_quiet(python, here) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = python(MAIN, "run", "fig2.toml", "--out", "r", capture_output=False, stdout=write,
                      stderr=subprocess.PIPE)
    finally:
        os.close(write)
    assert done.stderr == ""
    assert (here / "r" / "summary.json").is_file()

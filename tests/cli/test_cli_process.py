"""What only a process of its own can show: imports, signals, pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import netsim as api

MAIN = "from netsim.cli.main import main; main(prog_name='netsim')"
HEAVY = ("numba", "numpy", "pandas", "pydantic", "rich", "networkx", "simpy", "matplotlib")

STOP = '''\
import os, signal
import netsim

class Stop(netsim.Allocator):
    """Has the process interrupted in the middle of the run."""
    decisions = 0

    def allocate(self, view):
        self.decisions += 1
        if self.decisions == 3:
            os.kill(os.getpid(), signal.SIGINT)
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


@pytest.mark.parametrize("command", [[], ["run"], ["compare"], ["list"], ["init"],
                                     ["predict"], ["trace", "check"]])
def test_help_imports_nothing_heavy(python, command) -> None:
    code = (f"import sys\ntry:\n    {MAIN}\nexcept SystemExit as end:\n"
            f"    assert not end.code, end\n"
            f"print('imported:', *[name for name in {HEAVY!r} if name in sys.modules])")
    done = python(code, *command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")
    assert done.stdout.splitlines()[-1] == "imported:"


def test_ctrl_c_in_the_middle_leaves_nothing(python, here) -> None:
    (here / "stop.py").write_text(STOP)
    before = sorted(here.rglob("*"))
    # As in a terminal: a test runner in the background has its children ignore Ctrl-C.
    heeding = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"
    done = python(heeding, "compare", "fig2.toml", "--allocator", "parrot,stop:Stop", "--out", "r")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert sorted(here.rglob("*")) == before


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

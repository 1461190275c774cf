"""Where a person is watching, what takes long says so: on a terminal, and in a notebook."""

import os
import pty
import subprocess
import sys
import tomllib
import types
from contextlib import redirect_stderr
from pathlib import Path

import numba
import pytest

import netsim
from netsim import compiling, watching
from netsim.simulation.progress import show_progress, show_runs

ROOT = Path(netsim.__file__).parent.parent

SAID = "netsim: compiling, once; this may take a minute or two\n"


class Terminal:
    """Standard error of a person."""

    def __init__(self):
        self.said = ""

    def write(self, text):
        self.said += text

    def flush(self):
        pass

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(compiling, "_announced", False)
    monkeypatch.setattr(compiling, "tell_not_kept", lambda _: None)  # kernels are in no file
    return Terminal()


def kernels(count, module="netsim.fabric.kernels.new"):
    """Functions that nobody has compiled, nor will be kept, as they are in no file."""
    made = []
    for number in range(count):
        namespace = {"__name__": module}
        exec(f"def kernel(x):\n    return {number} * x", namespace)
        made.append(compiling.compiled(namespace["kernel"]))
    return made


def test_the_first_kernel_that_is_compiled_says_so_once(terminal):
    first, second = kernels(2)
    assert terminal.said == ""
    with redirect_stderr(terminal):
        assert (first(3), second(3)) == (0, 3)
    assert terminal.said == SAID


def test_nobody_is_told_where_nobody_is_watching(terminal):
    with redirect_stderr(terminal), watching.unwatched():
        kernels(1)[0](3)
    terminal.isatty = lambda: False
    with redirect_stderr(terminal):
        kernels(1)[0](3)
    assert terminal.said == ""


def test_code_of_others_is_compiled_in_silence(terminal):
    with redirect_stderr(terminal):
        numba.njit(lambda x: 2 * x)(3)
        kernels(1, "my_module")[0](3)
    assert terminal.said == ""


def test_of_several_processes_one_says_it(terminal, monkeypatch, tmp_path):
    monkeypatch.setattr(compiling, "_marker", None)
    compiling.tell_once_by(tmp_path / "told")
    with redirect_stderr(terminal):
        kernels(1)[0](3)
        monkeypatch.setattr(compiling, "_announced", False)  # as in another process
        kernels(1)[0](3)
    assert terminal.said == SAID


def said_on_a_terminal(*arguments, **environment):
    """What a process writes whose standard error is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, *arguments], stderr=theirs, stdout=subprocess.DEVNULL,
                          env=os.environ | {"PYTHONPATH": str(ROOT)} | environment) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            said += part
    os.close(ours)
    assert process.returncode == 0, said
    return said.decode().replace("\r\n", "\n")


KERNEL = """
import numpy as np
from netsim.edge.kernels import insert
one = np.zeros(1, np.int64)
insert(one, one, np.zeros((1, 1), np.int64), one.copy(), np.ones(1))
"""


def test_what_is_in_the_cache_is_not_compiled(tmp_path):
    """A process compiles what it needs and says so; a second one finds it compiled."""
    assert said_on_a_terminal("-c", KERNEL, NUMBA_CACHE_DIR=str(tmp_path)) == SAID
    assert said_on_a_terminal("-c", KERNEL, NUMBA_CACHE_DIR=str(tmp_path)) == ""


COMMAND = f"""
import click
from netsim.cli.options import quiet_option

@click.command()
@quiet_option("")
def command(quiet):
    exec('''{KERNEL}''')

command()
"""


@pytest.mark.parametrize(("options", "said"), [([], SAID), (["--quiet"], "")])
def test_a_command_with_quiet_is_quiet_of_this_too(options, said, tmp_path):
    assert said_on_a_terminal("-c", COMMAND, *options, NUMBA_CACHE_DIR=str(tmp_path)) == said


# --- progress ------------------------------------------------------------------------------


@pytest.fixture
def notebook(monkeypatch):
    """The kernel of a notebook, as far as it can be seen from here."""
    module = types.ModuleType("IPython")
    module.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", module)
    there = Terminal()
    there.isatty = lambda: False
    return there


def shown(text):
    """What is left to see of what was written: the last of each line."""
    return [line.split("\r")[-1].rstrip() for line in text.split("\n")]


def test_progress_in_a_notebook(notebook):
    with redirect_stderr(notebook):
        with show_runs(True, 4, 1) as report:
            assert "runs 1/4" in notebook.said
            report(False)
            report(True)
        before = notebook.said
        with show_progress(False, 4) as report:
            report(2, 4)
    assert notebook.said == before
    assert "\n" not in before
    assert shown(before) == [""]


def test_a_sweep_shows_progress_of_itself_where_somebody_is_watching(notebook):
    with redirect_stderr(notebook):
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"])
        before = notebook.said
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"], progress=False)
    assert "runs 0/2" in before
    assert notebook.said == before


def test_a_bar_on_a_terminal():
    """Of Rich; it is gone at the end."""
    code = ("import netsim\nfrom netsim.simulation.progress import show_runs\n"
            "with show_runs(True, 4, 1) as report:\n    report(False)")
    assert "2/4" in said_on_a_terminal("-c", code, TERM="xterm")


def test_a_sweep_is_silent_where_nobody_is(capfd):
    netsim.sweep("parrot-fig2", "parrot-fig2", allocator=["parrot", "lccf"])
    assert capfd.readouterr() == ("", "")


def test_a_shell_that_is_no_notebook(monkeypatch, notebook):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: types.SimpleNamespace())
    assert not watching.watched()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not watching.watched()


def test_the_extra_for_tests_runs_tests():
    """Who writes a policy tests it with pytest and `netsim.testing`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {each.partition(">")[0] for each in project["optional-dependencies"]["test"]}
    assert {"pytest", "hypothesis"} <= names

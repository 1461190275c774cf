"""Where a person is watching, what takes long says so: on a terminal, and in a notebook."""

import os
import pty
import re
import subprocess
import sys
import tomllib
import types
from contextlib import redirect_stderr
from pathlib import Path

import numba
import pytest

import netsim
from netsim.base import compiling, display
from netsim.simulation.progress import show_progress, show_runs

ROOT = Path(netsim.__file__).parent.parent

BEGUN = "netsim: compiling, once; this takes about 30 s\n"


def without_times(said):
    """What was said, without seconds."""
    return re.sub(r"in \d+ s", "in . s", said)


def done(count):
    return f"netsim: compiled {count} functions in . s"


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


@pytest.fixture(autouse=True)
def told(monkeypatch):
    """What other tests do not want to see."""
    monkeypatch.delenv(display.QUIET, raising=False)


@pytest.fixture
def terminal(monkeypatch):
    display.flush()
    monkeypatch.setattr(display, "_marker", None)
    monkeypatch.setattr(compiling, "tell_not_kept", lambda *_: None)  # they are in no file
    return Terminal()


def kernels(count, module="netsim.fabric.kernels.new"):
    """Functions that nobody has compiled, nor will be kept, as they are in no file."""
    made = []
    for number in range(count):
        namespace = {"__name__": module}
        exec(f"def kernel(x):\n    return {number} * x", namespace)
        made.append(compiling.compiled(namespace["kernel"]))
    return made


def test_begin_progress_and_end_are_told(terminal):
    first, second = kernels(2)
    assert terminal.said == ""
    with redirect_stderr(terminal):
        assert (first(3), second(3)) == (0, 3)
        display.flush()
    assert without_times(terminal.said) == BEGUN + "".join(
        f"\r{done(count)}" for count in (1, 2, 2)) + "\n"


def test_a_log_has_a_line_when_it_begins_and_one_when_it_ends(terminal):
    terminal.isatty = lambda: False
    with redirect_stderr(terminal):
        for kernel in kernels(2):
            kernel(3)
        display.flush()
        display.flush()
    assert without_times(terminal.said) == BEGUN + done(2) + "\n"


def test_it_says_for_whom(terminal):
    terminal.isatty = lambda: False
    net, stage = netsim.big_switch(2, "8Gbps"), netsim.Stage("a", [(0, 1, 1e9)])
    jobs = [netsim.JobSpec(0, stages=[stage])]

    def run(listener):
        simulation = netsim.Simulation(net, jobs, allocator="sebf")
        simulation.on("coflow-done", listener)
        simulation.run()
        display.flush()

    with display.unwatched():  # compiles what it needs, of which some is for every allocator
        run(lambda _: None)
    during, after = kernels(2)
    with redirect_stderr(terminal):
        run(lambda _: during(3))
        after(3)
        display.flush()
    said = terminal.said.splitlines()
    assert said[0].startswith("netsim: compiling for allocator SEBF, once")
    assert said[2].startswith("netsim: compiling, once")


def test_nobody_is_told_who_asked_not_to_be(terminal):
    with redirect_stderr(terminal), display.unwatched():
        kernels(1)[0](3)
        display.flush()
    assert terminal.said == ""


def test_a_variable_turns_it_off(terminal, monkeypatch):
    monkeypatch.setenv(display.QUIET, "1")
    with redirect_stderr(terminal):
        kernels(1)[0](3)
        display.flush()
    assert terminal.said == ""


def test_what_follows_a_pause_is_told_again(terminal):
    terminal.isatty = lambda: False
    with redirect_stderr(terminal):
        for _ in range(2):
            kernels(1)[0](3)
            display.flush()  # as after a pause
    assert without_times(terminal.said) == 2 * (BEGUN + done(1) + "\n")


def test_code_of_others_is_compiled_in_silence(terminal):
    with redirect_stderr(terminal):
        numba.njit(lambda x: 2 * x)(3)
        kernels(1, "my_module")[0](3)
        display.flush()
    assert terminal.said == ""


def test_of_several_processes_one_says_it(terminal, tmp_path):
    terminal.isatty = lambda: False
    display.tell_once_by(tmp_path / "told")
    with redirect_stderr(terminal):
        for _ in range(2):  # the second as in another process
            kernels(1)[0](3)
            display.flush()
    assert without_times(terminal.said) == BEGUN + done(1) + "\n"


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
    said = said_on_a_terminal("-c", KERNEL, NUMBA_CACHE_DIR=str(tmp_path))
    assert said.startswith(BEGUN)
    assert said.endswith(" s\n")
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


@pytest.mark.parametrize(("options", "begun"), [([], BEGUN), (["--quiet"], "")])
def test_a_command_with_quiet_is_quiet_of_this_too(options, begun, tmp_path):
    said = said_on_a_terminal("-c", COMMAND, *options, NUMBA_CACHE_DIR=str(tmp_path))
    assert said[:len(BEGUN)] == begun


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
    assert not display.watched()
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert not display.watched()


def test_the_extra_for_tests_runs_tests():
    """Who writes a policy tests it with pytest and `netsim.testing`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {each.partition(">")[0] for each in project["optional-dependencies"]["test"]}
    assert {"pytest", "hypothesis"} <= names

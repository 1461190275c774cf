"""Ctrl-C in real processes, which are signalled once they say that the run has begun."""

import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netsim.allocators import ALLOCATORS
from netsim.base.compiling import Direct
from tests.pairs import but, exhaustive, never_in_the_gate

#: Runs, over and over, a workload that takes many seconds, and says when each has begun.
SCRIPT = """
import sys, netsim
from netsim.errors import Interrupted

def begun(env):
    yield env.timeout(1.0)
    print("begun", flush=True)

work = netsim.read_workload("parrot-60", seed=1, iterations=2000)
name, times = sys.argv[1], int(sys.argv[2])
for _ in range(times):
    sim = netsim.Simulation("big-switch-128-10g", work, allocator=name)
    sim.env.process(begun(sim.env))
    try:
        sim.run()
        print("ended", flush=True)
    except Interrupted:
        print("interrupted", flush=True)
"""

#: Flows that are all there from the beginning, so that a single call of a kernel serves them.
AT_ONCE = """
import numpy as np, netsim

def begun(env):
    yield env.timeout(1e-6)
    print("begun", flush=True)

hosts = np.random.default_rng(0).integers(0, 128, (2, 100_000))
work = netsim.Workload.from_arrays(*hosts, np.linspace(1e6, 2e6, 100_000))
sim = netsim.Simulation(netsim.big_switch(128, "10Gbps"), work, record=("jobs",))
sim.env.process(begun(sim.env))
try:
    sim.run()
    print("ended", flush=True)
except KeyboardInterrupt as stop:
    print(stop, flush=True)
"""

#: A worker of an edge-cloud gets a long queue as its second job, which a single call of a kernel
#: serves.
ON_EDGE = """
import netsim

jobs = [netsim.EdgeJob(id=k, arrival_s=k, chunks=chunks, worker_type="a", compute_s=0.5,
                       chunk_bytes=1.0, upload_s=[0.0]) for k, chunks in enumerate([1, 100_000])]
sim = netsim.Simulation(netsim.EdgeCloud([["a"]], cloud=False), jobs, scheduler="a-online-e")
sim.on("job-done", lambda event: print("begun", flush=True) if event.job == 0 else None)
try:
    sim.run()
    print("ended", flush=True)
except KeyboardInterrupt as stop:
    print(stop, flush=True)
"""

#: Is interrupted while it compiles, and runs again.
COMPILING = """
import signal, netsim
from netsim.base import display

signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command does
began = display.begun

def begun():
    began()
    print("begun", flush=True)

display.begun = begun
for _ in range(8):
    try:
        netsim.simulate("parrot-fig2", "parrot-fig2", allocator="sebf")
    except KeyboardInterrupt as stop:
        print("interrupted", flush=True)
print(netsim.simulate("parrot-fig2", "parrot-fig2", allocator="sebf").jobs.finish_s.tolist())
"""

#: One for each kind of kernel: links shared, coflows served by a rule, by queues, in proportion,
#: flows in order, an order from Python, a user's rule.
KINDS = ["maxmin", "sebf", "aalo", "parrot", "srtf", "sincronia", "own_rules:oldest"]
OTHERS = [*(f"{name}:shares=0.01" if name == "reserved" else name
            for name in ALLOCATORS if name not in KINDS),
          *(f"own_rules:{rule}" for rule in ("in_step", "queued", "even", "weighted", "shortest"))]

#: Where `own_rules` is found.
PLACES = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def hears_ctrl_c():
    """In a new process: do not ignore Ctrl-C, as what is started in the background does."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def process(script, *words, **environment):
    return subprocess.Popen([sys.executable, "-c", script, *words], stdout=subprocess.PIPE,
                            text=True, env={**os.environ, "PYTHONPATH": PLACES, **environment},
                            preexec_fn=hears_ctrl_c)


@pytest.mark.parametrize("name", [*but(KINDS, "sebf"), *never_in_the_gate(OTHERS)])
def test_a_script(name):
    """At whatever instruction it arrives."""
    times = 5
    with process(SCRIPT, name, str(times)) as running:
        for _ in range(times):
            assert running.stdout.readline() == "begun\n"
            running.send_signal(signal.SIGINT)
            assert running.stdout.readline() == "interrupted\n"
        assert running.communicate() == ("", None)
    assert running.returncode == 0


@pytest.mark.parametrize("script", but([AT_ONCE, ON_EDGE], AT_ONCE), ids=["fabric", "edge"])
def test_a_kernel_is_left_at_once(script):
    """Otherwise the kernel would go on until all jobs have finished."""
    with process(script) as running:
        assert running.stdout.readline() == "begun\n"
        running.send_signal(signal.SIGINT)
        said = running.communicate()[0]
    done, total = re.fullmatch(r"at .* of the simulation (.*) of (.*) jobs had finished.*\n",
                               said).groups()
    assert int(done.replace(",", "")) < int(total.replace(",", ""))


@exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_compiler(tmp_path, number):
    """What was interrupted is compiled when it is called again."""
    lines = []
    with process(COMPILING, NUMBA_CACHE_DIR=str(tmp_path)) as running:
        for line in running.stdout:
            lines.append(line)
            if line == "begun\n" and lines.count("interrupted\n") < 3:
                running.send_signal(number)
    assert lines.count("interrupted\n") == 3
    assert lines[-1].startswith("[")
    assert running.returncode == 0


@pytest.mark.parametrize("name", [
    "sebf", *never_in_the_gate(name for name in [*KINDS, *OTHERS] if name != "sebf")])
def test_a_command_on_a_terminal(name, tmp_path):
    """Its bar says that the run has begun, and hides the cursor, which must be seen again."""
    (tmp_path / "e.toml").write_text(
        f'allocator = "{name}"\n[network]\nname = "big-switch-128-10g"\n'
        '[workload]\nname = "parrot-60"\niterations = 2000\n')
    here, there = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "netsim", "run", "e.toml", "--out", "out"], cwd=tmp_path,
        stdin=there, stdout=there, stderr=there,
        env={**os.environ, "PYTHONPATH": PLACES, "TERM": "xterm"},
        preexec_fn=hears_ctrl_c)
    os.close(there)
    shown = ""
    while "\x1b[?25l" not in shown:
        shown += os.read(here, 4096).decode()
    running.send_signal(signal.SIGINT)
    while True:
        try:
            more = os.read(here, 4096)
        except OSError:  # the other end is closed, on Linux
            break
        if not more:
            break
        shown += more.decode()
    os.close(here)
    assert running.wait() == 130
    assert "interrupted: at " in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert not (tmp_path / "out").exists()


def test_an_interrupt_that_numba_loses():
    """Numba unpickles the signature of a rule; its error then is about a missing argument."""
    direct = Direct(None)

    def entry(*args):
        raise TypeError("_get_wrapper_address() missing 1 required positional argument: 'sig'")

    direct._entry = entry
    with pytest.raises(KeyboardInterrupt):
        direct(1)

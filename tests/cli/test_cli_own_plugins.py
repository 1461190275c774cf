"""Patterns and formats of the user's own on the command line, from the current folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

CODE = """\
import netsim
from netsim import Flow, JobSpec, Stage

class Fan:
    def stages(self, ranks, nbytes, rng):
        return [Stage("fan", [Flow(0, rank, nbytes) for rank in range(1, ranks)])]

def pairs(path, *, scale=1.0):
    return netsim.Workload([JobSpec(k, stages=[Stage("all", [Flow(0, 1, float(line) * scale)])])
                            for k, line in enumerate(path.read_text().split())])
"""
EXPERIMENT = """\
[network]
name = "big-switch-128-10g"
[workload]
format = "synthetic"
jobs = 2
"""


@pytest.fixture
def mine(here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current folder, under a name of its own, for modules stay loaded."""
    name = f"mine_{abs(hash(here))}"
    (here / f"{name}.py").write_text(CODE)
    (here / "sizes.dat").write_text("1e6\n2e6\n")
    (here / "e.toml").write_text(EXPERIMENT)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return name


def test_a_pattern(netsim, refused, mine) -> None:
    given = ("run", "e.toml", "--set", f"workload.pattern={mine}:Fan")
    said = refused(*given, "--no-plugins")
    assert said.startswith(f"e.toml: workload.pattern: '{mine}:Fan' names code to load, which is n")
    assert mine not in sys.modules
    done = netsim(*given, "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    assert mine in sys.modules


def test_a_format(netsim, refused, mine) -> None:
    done = netsim("trace", "check", "sizes.dat", "--format", f"{mine}:pairs", "--set", "scale=3")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"sizes.dat: {mine}:pairs, nothing wrong")
    assert "9,000,000" in done.stdout
    done = netsim("trace", "convert", "sizes.dat", "sizes.json", "--format", f"{mine}:pairs",
                  "--network", "parrot-fig2")
    assert done.stdout == "wrote sizes.json: 2 jobs\n"
    given = ("--set", "workload.file=sizes.dat", "--set", f"workload.format={mine}:pairs")
    assert "names code to load" in refused("run", "fig2.toml", *given, "--no-plugins")
    done = netsim("run", "fig2.toml", *given, "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_sweep_over_patterns(netsim, mine) -> None:
    done = netsim("sweep", "e.toml", "--vary", f"workload.pattern=all-to-all,{mine}:Fan", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")

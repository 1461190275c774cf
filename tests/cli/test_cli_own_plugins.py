"""Patterns and formats of the user's own on the command line, from the current folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

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


def test_without_plugins_a_workload_file_names_no_code(netsim, refused, mine, here) -> None:
    """Nor a file outside of its folder; the other files of its folder are read."""
    theirs = here / "theirs"
    theirs.mkdir()
    shutil.copy(here / "sizes.dat", theirs)
    (theirs / "code.toml").write_text(f'file = "sizes.dat"\nformat = "{mine}:pairs"\n')
    (theirs / "pattern.toml").write_text(
        f'format = "synthetic"\njobs = 2\npattern = "{mine}:Fan"\n')
    (here / "jobs.csv").write_text("job,model,iterations\n")
    (theirs / "outside.toml").write_text('file = "../jobs.csv"\n')
    for name, why in (("code", "names code to load, which is not allowed without plug-ins"),
                      ("pattern", "names code to load"), ("outside", "leads out of the folder")):
        file = f"theirs/{name}.toml"
        checked = netsim("trace", "check", file, "--no-plugins")
        assert why in checked.stdout + checked.stderr, checked.stdout
        assert why in refused("trace", "convert", file, "out.json", "--no-plugins")
        assert why in refused("predict", file, "--no-plugins")
    assert "names code" in refused("predict", "pattern", "--predictor", f"{mine}:Fan",
                                   "--no-plugins")
    assert mine not in sys.modules
    shutil.copy(ROOT / "workloads" / "parrot-fig2.json", theirs / "jobs.json")
    (theirs / "inside.toml").write_text('file = "jobs.json"\n')
    done = netsim("trace", "convert", "theirs/inside.toml", "out.json", "--no-plugins")
    assert (done.exit_code, done.stdout) == (0, "wrote out.json: 2 jobs\n")


def test_a_sweep_over_patterns(netsim, mine) -> None:
    done = netsim("sweep", "e.toml", "--vary", f"workload.pattern=all-to-all,{mine}:Fan", "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")

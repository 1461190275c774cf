"""Small things, and mistakes, are told without importing what only runs need."""

import subprocess
import sys

import pytest

from netsim.experiment_file.catalogue import catalogue, details

HEAVY = {"numba", "pandas", "simpy", "matplotlib"}

CODE = """
import sys
from netsim.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, *sorted({heavy} & set(sys.modules)), file=sys.stderr)
"""

FILE = """
name = "mine"
network = {kind = "big-switch", hosts = 4, capacity = "10Gbps"}
workload = {name = "parrot-fig2"}
"""


def imported(folder, *arguments):
    """Run a command; return its exit code and the heavy modules that it imported."""
    done = subprocess.run([sys.executable, "-c", CODE.format(heavy=HEAVY), *arguments],
                          capture_output=True, text=True, check=True, cwd=folder)
    code, *names = done.stderr.splitlines()[-1].split()
    return code, set(names)


@pytest.mark.parametrize("arguments", [
    ["list"], ["list", "allocators"], ["list", "schedulers"], ["list", "allocators", "sebf"],
    ["list", "workloads"], ["init"], ["topo", "show", "big-switch-128-10g"]])
def test_small_things_import_nothing_heavy(arguments, tmp_path):
    assert imported(tmp_path, *arguments) == ("0", set())


@pytest.mark.parametrize("arguments", [
    ["run", "minne.toml"], ["run", "parrot-fig2", "--set", "alocator=sebf"],
    ["run", "parrot-fig2", "--set", "allocator=sefb"], ["run", "file.toml"],
    ["run", "parrot-fig2", "--set", "network.hosts=0"], ["compare", "minne.toml"],
    ["compare", "parrot-fig2", "--allocators", "sebf,sefb"], ["sweep", "minne.toml"],
    ["sweep", "parrot-fig2", "--vary", "network.hsts=1,2"], ["sweep", "file.toml", "--seeds", "2"],
    ["list", "alocators"], ["list", "allocators", "sefb"], ["topo", "show", "minne"]])
def test_mistakes_import_nothing_heavy(arguments, tmp_path):
    (tmp_path / "file.toml").write_text(FILE + "[alocator]\nname = \"sebf\"\n")
    assert imported(tmp_path, *arguments) == ("2", set())


@pytest.mark.parametrize("arguments", [["list"], ["list", "allocators"], ["list", "schedulers"]])
def test_lists_of_policies_need_no_experiment(arguments, tmp_path):
    code = CODE.format(heavy={"netsim.experiment_file.experiment"})
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True,
                          check=True, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "0"


def test_policies_whose_extra_is_missing_are_listed(monkeypatch):
    monkeypatch.setattr("netsim.predictors.forest.find_spec", lambda _: None)
    listed = catalogue("schedulers")
    assert "pip install 'coflow-netsim[predict]'" in listed["a-srpt"]
    assert "install" not in listed["fifo"]
    assert details("schedulers", "fifo")["doc"]

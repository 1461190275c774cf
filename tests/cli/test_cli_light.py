"""Help, small things, and mistakes are told without importing what only runs need."""

import json
import subprocess
import sys

import pytest

from netsim.experiment_file.catalogue import catalogue, details

HEAVY = {"numba", "pandas", "simpy", "matplotlib"}

#: What help needs none of, either.
NOT_SMALL = {"numpy", "pydantic", "rich", "networkx"}

#: What lists of policies need none of.
EXPERIMENT = "netsim.experiment_file.experiment"

HELP = [[*command, "--help"] for command in (
    [], ["run"], ["compare"], ["list"], ["init"], ["schema"], ["predict"], ["trace", "check"])]
LISTS = [["list"], ["list", "allocators"], ["list", "schedulers"]]
SMALL = [["list", "allocators", "sebf"], ["list", "workloads"], ["init"],
         ["topo", "show", "big-switch-128-10g"]]
MISTAKES = [
    ["run", "minne.toml"], ["run", "parrot-fig2", "--set", "alocator=sebf"],
    ["run", "parrot-fig2", "--set", "allocator=sefb"], ["run", "file.toml"],
    ["run", "parrot-fig2", "--set", "network.hosts=0"], ["compare", "minne.toml"],
    ["compare", "parrot-fig2", "--allocators", "sebf,sefb"], ["sweep", "minne.toml"],
    ["sweep", "parrot-fig2", "--vary", "network.hsts=1,2"], ["sweep", "file.toml", "--seeds", "2"],
    ["list", "alocators"], ["list", "allocators", "sefb"], ["topo", "show", "minne"]]

#: Runs one command after the other, and tells of each its exit code and what is imported by then.
CODE = """
import json, sys
from netsim.cli.main import main
said = []
for arguments in json.load(sys.stdin):
    try:
        main(arguments)
    except SystemExit as end:
        said.append([end.code or 0, [name for name in {names} if name in sys.modules]])
print(json.dumps(said))
"""

FILE = """
name = "mine"
network = {kind = "big-switch", hosts = 4, capacity = "10Gbps"}
workload = {name = "parrot-fig2"}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Run all commands in a process, those first that need least; give what is told of each."""
    folder = tmp_path_factory.mktemp("light")
    (folder / "file.toml").write_text(FILE + "[alocator]\nname = \"sebf\"\n")
    commands = [*HELP, *LISTS, *SMALL, *MISTAKES]
    code = CODE.format(names=sorted(HEAVY | NOT_SMALL | {EXPERIMENT}))
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(commands),
                          capture_output=True, text=True, check=True, cwd=folder)
    said = json.loads(done.stdout.splitlines()[-1])
    return {" ".join(command): (code, set(names))
            for command, (code, names) in zip(commands, said, strict=True)}


@pytest.mark.parametrize("command", HELP, ids=" ".join)
def test_help_imports_nothing_heavy(told, command):
    assert told[" ".join(command)] == (0, set())


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_lists_of_policies_need_no_experiment(told, command):
    code, names = told[" ".join(command)]
    assert (code, names & {*HEAVY, EXPERIMENT}) == (0, set())


@pytest.mark.parametrize("command", SMALL, ids=" ".join)
def test_small_things_import_nothing_heavy(told, command):
    code, names = told[" ".join(command)]
    assert (code, names & HEAVY) == (0, set())


@pytest.mark.parametrize("command", MISTAKES, ids=" ".join)
def test_mistakes_import_nothing_heavy(told, command):
    code, names = told[" ".join(command)]
    assert (code, names & HEAVY) == (2, set())


def test_policies_whose_extra_is_missing_are_listed(monkeypatch):
    monkeypatch.setattr("netsim.predictors.forest.find_spec", lambda _: None)
    listed = catalogue("schedulers")
    assert "pip install 'coflow-netsim[predict]'" in listed["a-srpt"]
    assert "install" not in listed["fifo"]
    assert details("schedulers", "fifo")["doc"]

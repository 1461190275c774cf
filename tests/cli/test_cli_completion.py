"""Completion in shells: of names, keys and files, and without what takes long to import."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from netsim.cli.completion import names_of
from netsim.cli.main import main
from netsim.experiment_file.catalogue import CATALOGUES, catalogue
from netsim.experiment_file.load import ready_made_experiments, template
from netsim.plots.pictures import PICTURES
from netsim.reproductions import PAPERS, REPRODUCTIONS
from netsim.traces import PUBLIC_TRACES

SCRIPT = """\
#!/bin/sh
exec {python} -c "from netsim.cli.main import main; main(prog_name='netsim')" "$@"
"""


def completed(line: str, shell: str = "zsh") -> list[str]:
    """Return what the last word of a command line may become, as a shell that keeps words does."""
    words = line.split(" ")
    made = get_completion_class(shell)(main, {}, "netsim", "_NETSIM_COMPLETE")
    return [item.value for item in made.get_completions(words[1:-1], words[-1])]


def in_bash(monkeypatch, *words: str) -> list[str]:
    """Return what is inserted for the last of the words into which bash has split a line."""
    monkeypatch.setenv("COMP_WORDS", " ".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    lines = get_completion_class("bash")(main, {}, "netsim", "_NETSIM_COMPLETE").complete()
    return [line.partition(",")[2] for line in lines.splitlines()]


def test_names_are_those_of_the_registries():
    assert {kind: names_of(kind) for kind in CATALOGUES} == {
        kind: sorted(catalogue(kind)) for kind in CATALOGUES}


def test_other_names_are_all_there():
    assert names_of("experiments") == sorted(ready_made_experiments())
    assert names_of("reproductions") == sorted({*REPRODUCTIONS, *PAPERS})
    assert names_of("public traces") == sorted(PUBLIC_TRACES)
    assert completed("netsim plot r --kind ") == sorted({
        kind for what in ("run", "comparison", "sweep") for kind in PICTURES[what]})
    assert names_of("unknown") == []


@pytest.mark.parametrize(("line", "expected"), [
    ("netsim co", ["collective", "compare"]),
    ("netsim run de", ["demo"]),
    ("netsim run fi", ["fig2.toml"]),
    ("netsim run demo --alloc", ["--allocator"]),
    ("netsim run demo --allocator par", ["parrot"]),
    ("netsim run demo --scheduler las", ["las"]),
    ("netsim compare demo --allocator parrot,aalo-", ["parrot,aalo-lbsf"]),
    ("netsim sweep demo --scheduler fifo,tiresias-", ["fifo,tiresias-g", "fifo,tiresias-l"]),
    ("netsim sweep demo --vary allocator=sebf,parr", ["allocator=sebf,parrot"]),
    ("netsim sweep demo --vary allocator.name=parr", ["allocator.name=parrot"]),
    ("netsim run demo --set network.cap", ["network.capacity="]),
    ("netsim run demo --set network.name=torus", ["network.name=torus-4x4x4-400g"]),
    ("netsim run demo --set observe_interval=", []),
    ("netsim run own.toml --set workload.mine", ["workload.mine="]),
    ("netsim list sched", ["schedulers"]),
    ("netsim list allocators seb", ["sebf"]),
    ("netsim topo show fat-tree-k8", ["fat-tree-k8-10g"]),
    ("netsim topo show n", ["net.graphml"]),
    ("netsim trace check coflow-s", ["coflow-sample"]),
    ("netsim trace check x --format hel", ["helios"]),
    ("netsim predict w --predictor mean,med", ["mean,median"]),
    ("netsim map vgg", ["vgg19"]),
    ("netsim map vgg19 --gpu v1", ["v100"]),
    ("netsim collective all-re", ["all-reduce"]),
    ("netsim collective all-reduce --on gpu", ["gpu-cluster-8x8"]),
    ("netsim data fetch tir", ["tiresias"]),
    ("netsim reproduce parrot-fig1", ["parrot-fig10"]),
])
def test_completion(here, line, expected):
    (here / "net.graphml").touch()
    (here / "own.toml").write_text("[workload]\nmine = 3\n")
    assert completed(line) == expected
    assert completed(line, "fish") == expected


def test_keys_are_those_of_the_templates():
    keys = completed("netsim run demo --set ")
    assert {"seed=", "network.capacity=", "compare.baseline=", "sweep.seeds=", "cluster.servers=",
            "edge_cloud.seed=", "events.0.at="} <= set(keys)
    assert len(set(keys)) == len(keys)
    whole = template() + template("cluster") + template("edge")
    assert [key for key in keys if key.rpartition(".")[2].removesuffix("=") not in whole] == []


def test_the_shell_completes_other_files_and_folders(here):
    made = get_completion_class("zsh")(main, {}, "netsim", "_NETSIM_COMPLETE")
    for args, incomplete, kind in (
            (["run"], "a/fi", "file"), (["plot"], "r", "dir"), (["report"], "", "dir"),
            (["trace", "convert", "x"], "t", "file")):
        assert [item.type for item in made.get_completions(args, incomplete)] == [kind]


def test_bash_splits_words_at_signs(monkeypatch):
    assert in_bash(monkeypatch, "netsim", "run", "demo", "--set", "allocator", "=", "parr"
                   ) == ["parrot"]
    assert in_bash(monkeypatch, "netsim", "run", "demo", "--set", "scheduler", "=")[:2] == [
        "a-online", "a-online-e"]
    assert in_bash(monkeypatch, "netsim", "compare", "demo", "--allocator", "aalo", ":", "queues",
                   "=", "3,parr") == ["3,parrot"]
    assert in_bash(monkeypatch, "netsim", "run", "demo", "--set", "network.cap") == [
        "network.capacity="]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_in_a_real_bash(here):
    script = here / "netsim"
    script.write_text(SCRIPT.format(python=sys.executable))
    script.chmod(0o755)
    said = subprocess.run(
        ["bash", "-c", 'compopt() { echo "$@"; }; eval "$(_NETSIM_COMPLETE=bash_source netsim)"; '
         'COMP_WORDS=(netsim run demo --set allocator = parr); COMP_CWORD=6; '
         '_netsim_completion netsim; echo "${COMPREPLY[@]}"; COMPREPLY=(); '
         'COMP_WORDS=(netsim run demo --set network.cap); COMP_CWORD=4; '
         '_netsim_completion netsim; echo "${COMPREPLY[@]}"'],
        env=os.environ | {"PATH": f"{here}:{os.environ['PATH']}",
                          "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["parrot", "-o nospace", "network.capacity="]


def test_nothing_heavy_is_imported(here):
    """Of each kind of completion."""
    code = ("import sys\nfrom netsim.cli.main import main\n"
            "from click.shell_completion import ZshComplete\n"
            "made = ZshComplete(main, {}, 'netsim', '_NETSIM_COMPLETE')\n"
            "for words in (['run'], ['run', 'demo', '--set'], ['compare', 'x', '--allocator'],\n"
            "              ['list', 'models'], ['topo', 'show'], ['reproduce'], ['plot', 'r',\n"
            "              '--kind'], ['data', 'fetch']):\n"
            "    assert made.get_completions(words, ''), words\n"
            "print([name for name in ('numba', 'numpy', 'pandas', 'simpy', 'pydantic',\n"
            "                         'networkx', 'matplotlib') if name in sys.modules])\n")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(
                              [str(Path(main.callback.__code__.co_filename).parents[2]),
                               *filter(None, sys.path)])})
    assert said.stdout == "[]\n"

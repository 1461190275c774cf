"""Names from files: whatever they hold, it does not get to the terminal as it is."""

import ast
import io
from pathlib import Path

import pytest
from rich.console import Console

import netsim as api
from netsim.cli import printing
from netsim.cli.main import _echo_warning
from netsim.cli.options import echo
from netsim.simulation import progress

EVIL = "\\u001b]0;title\\u0007\\u009b2J[/b]:x:\\rend"  # as TOML has it

NETWORK = f'kind = "big-switch"\nhosts = 4\nname = "{EVIL}"\n'
EXPERIMENT = f"""\
description = "{EVIL}"
[network]
file = "n.toml"
[workload]
name = "{EVIL}"
file = "i.json"
[compare]
allocators = ["parrot", "lccf"]
"""
INSTANCE = f"""{{"hosts": 4, "name": "{EVIL}", "port_capacity_bytes_per_s": 1e6, "jobs": [
    {{"arrival_s": 0, "name": "{EVIL}", "coflows": [[{{"src": 0, "dst": 1, "bytes": 5}}]]}}]}}"""


@pytest.fixture
def evil(here):
    for name, content in (("n.toml", NETWORK), ("e.toml", EXPERIMENT), ("i.json", INSTANCE),
                          ("w.toml", f'format = "json"\nfile = "i.json"\nname = "{EVIL}"\n'),
                          ("bad.toml", EXPERIMENT + f'"{EVIL}" = 1\n["{EVIL}"]\n'),
                          ("bad.json", INSTANCE.replace('"dst"', f'"{EVIL}"')),
                          ("net.toml", f'kind = "{EVIL}"\n'),
                          ("edge.toml", f'kind = "{EVIL}"\n[network]\n')):
        (here / name).write_text(content)
    return here


@pytest.mark.parametrize("arguments", [
    ["run", "e.toml"], ["run", "e.toml", "--quiet"], ["compare", "e.toml"],
    ["compare", "e.toml", "--baseline", "lccf"],
    ["sweep", "e.toml", "--vary", "allocator=parrot,lccf", "--seeds", "2"],
    ["run", "bad.toml"], ["topo", "show", "n.toml"], ["topo", "show", "net.toml"],
    ["trace", "check", "w.toml"], ["trace", "check", "i.json"], ["trace", "check", "bad.json"],
    ["trace", "convert", "w.toml", "o.json", "--network", "n.toml"],
    ["run", "e.toml", "--set", "edge_cloud.file=edge.toml"],
    ["run", "no\x1b]0;such\x07"], ["plot", "no\x1b]0;such\x07"], ["report", "no\x1b]0;such\x07"],
    ["run", "e.toml", "--set", "allocator=no\x1b]0;such\x07"],
    ["predict", "w.toml", "--predictor", "no\x1b]0;such\x07"],
])
def test_no_control_characters_are_printed(evil, netsim, arguments):
    result = netsim(*arguments)
    printed = (result.stdout + result.stderr).replace("\n", "")
    assert printed.isprintable()
    assert printed


def test_the_names_are_shown_escaped(evil, netsim):
    shown = r"\x1b]0;title\x07\x9b2J[/b]:x:\rend"
    assert f"network    {shown}\n" in netsim("run", "e.toml").stdout
    assert f"workload   {shown}: 1 job, " in netsim("run", "e.toml").stdout
    assert f"network           {shown}\n" in netsim("topo", "show", "n.toml").stdout


def test_tables_show_names_as_they_are_but_for_control_characters(capsys):
    printing.print_table({"[b]\x1bname": ["[/b]:x:\n\x1b", "[red]a"], "n": ["1", "2"]})
    assert capsys.readouterr().out.splitlines() == [
        r"[b]\x1bname    n", r"[/b]:x:\n\x1b  1", "[red]a         2"]


def test_labels_of_comparisons_are_shown_escaped(capsys):
    comparison = api.compare("parrot-fig2", "parrot-fig2",
                             {"a\x1b[2Jb\n": "parrot", "[/b]": "lccf"}, baseline="a\x1b[2Jb\n",
                             until="3s")
    printing.print_comparison(comparison, "out\x1b")
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert r"a\x1b[2Jb\n: only" in printed
    assert "[/b]: only" in printed


def test_progress_shows_labels_escaped(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr("netsim.simulation.progress.on_terminal", lambda: True)
    monkeypatch.setattr("rich.console.Console", lambda **options: Console(
        file=shown, force_terminal=True, width=100, **options | {"stderr": False}))
    with progress.show_progress(True, 3, "fits \x1b]0;t\x07[/b]{x}") as report:
        report(1, 3)
    assert r"fits \x1b]0;t\x07[/b]{x}" in shown.getvalue()
    assert "\x1b]0;" not in shown.getvalue()


def test_warnings_are_shown_escaped(capsys):
    for warning in (api.NetsimWarning("a\x1bb", "p\x07"), UserWarning("a\x1bb\nc")):
        _echo_warning(warning, type(warning), "file\x1b.py", 1)
    printed = capsys.readouterr().err
    assert printed.replace("\n", "").isprintable()
    assert r"warning: p\x07: a\x1bb" in printed


def test_lines_are_kept(capsys):
    echo("a\nb\x1b\n")
    assert capsys.readouterr().out == "a\nb\\x1b\n\n"


def test_commands_print_through_one_function():
    """Nothing in the commands prints by itself, but for tables."""
    for path in (Path(api.__file__).parent / "cli").glob("*.py"):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text()))
                 if isinstance(node, ast.Call)]
        names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "")
                 for each in calls}
        if path.name not in ("options.py", "printing.py"):
            assert not names & {"print", "secho", "write", "Console"}, path
        attributes = [each for each in calls if isinstance(each, ast.Attribute)
                      and each.attr == "echo"]
        assert not attributes or path.name == "options.py", path

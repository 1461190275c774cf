"""The commands that simulate nothing: `list`, `init`, `trace check`."""

from __future__ import annotations

import json

import pytest

import netsim as api
from netsim.experiment_file.catalogue import CATALOGUES, catalogue
from netsim.experiment_file.load import template


@pytest.mark.parametrize("kind", CATALOGUES)
def test_list_has_a_line_on_each(netsim, kind) -> None:
    done = netsim("list", kind)
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split("  ", 1) for line in done.stdout.splitlines()]
    assert {name: line.strip() for name, line in lines} == catalogue(kind)


def test_list_alone_has_a_line_on_each_kind(netsim) -> None:
    from netsim.cli.look import KINDS

    assert tuple(KINDS) == CATALOGUES
    done = netsim("list")
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == list(CATALOGUES)
    assert json.loads(netsim("list", "--json").stdout) == KINDS


def test_list_of_a_name_has_its_options_and_what_they_mean(netsim) -> None:
    lines = netsim("list", "allocators", "sebf").stdout.splitlines()
    assert lines[0].startswith("sebf: Smallest effective bottleneck first")
    assert [line.split() for line in lines[3:6]] == [
        ["work_conservation", "maxmin"], ["decisions", "flow"], ["key", "remaining"]]
    assert 'key : {"remaining", "original"}' in lines


@pytest.mark.parametrize(("kind", "name", "options"), [
    ("topologies", "big-switch", {"hosts": "(to be given)", "capacity": "10Gbps"}),
    ("allocators", "coflowsim-sebf", {"work_conservation": "coflowsim"}),
    ("allocators", "netsim.allocators.maxmin:MaxMin", {"decisions": "flow"}),
    ("executions", "fabric", {}),
])
def test_list_of_a_name_as_json(netsim, kind, name, options) -> None:
    """Of a kind of network, a preset, a class of one's own, and what takes no options."""
    found = json.loads(netsim("list", kind, name, "--json").stdout)
    assert (found["kind"], found["name"]) == (kind, name)
    assert options.items() <= found["options"].items()
    assert found["summary"]


def test_list_of_a_ready_made_network_has_its_summary(netsim) -> None:
    assert netsim("list", "topologies", "parrot-fig2").stdout.startswith("parrot-fig2: 2 hosts at")


def test_list_of_an_unknown_name(refused) -> None:
    assert refused("list", "topologies", "nope").startswith(
        "unknown topology 'nope'; choose from: ")
    assert refused("list", "allocator").startswith(
        "unknown kind 'allocator' (did you mean 'allocators'?); choose from: ")


def test_init_writes_the_template_and_says_how_to_run_it(netsim, here) -> None:
    done = netsim("init")
    assert done.stdout == "wrote experiment.toml; run it with: netsim run experiment.toml\n"
    assert (here / "experiment.toml").read_text() == template()
    netsim("init", "other.toml")
    assert netsim("run", "other.toml", "--set", "workload.jobs=2").exit_code == 0


def test_the_schema_is_printed_as_json(netsim) -> None:
    assert json.loads(netsim("schema").stdout)["properties"]["allocator"]["default"] == "maxmin"


def test_init_writes_over_nothing(refused, netsim) -> None:
    netsim("init")
    assert refused("init") == "experiment.toml: exists already, and is left as it is\n"
    assert refused("init", "fig2.toml") == "fig2.toml: exists already, and is left as it is\n"
    assert refused("init", "nowhere/e.toml").startswith("nowhere/e.toml: cannot be written: No su")


def test_trace_check_says_what_there_is(netsim) -> None:
    done = netsim("trace", "check", "parrot-fig2")
    lines = dict(line.strip().rsplit("  ", 1) for line in done.stdout.splitlines()[1:])
    facts = {label.strip(): float(value.replace(",", "")) for label, value in lines.items()}
    assert facts == dict(api.check_trace("parrot-fig2").facts)
    assert done.stdout.splitlines()[0].endswith("parrot-fig2.json: json, nothing wrong")
    assert (done.exit_code, done.stderr) == (0, "")


def test_trace_check_says_all_that_is_wrong_with_lines(netsim, here) -> None:
    (here / "t.csv").write_text(
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
        "1,1,0,5,a,2,3\n1,x,0,5,a,2,3\n1,1,0,5,a,2,3\n2,1,0,-5,a,2,3\n")
    done = netsim("trace", "check", "t.csv")
    assert (done.exit_code, done.stderr) == (2, "")
    assert [line.split(": ")[0] for line in done.stdout.splitlines()] == [
        "t.csv:3", "t.csv:4", "t.csv:5"]


def test_trace_check_says_which_columns_are_read(netsim, here) -> None:
    (here / "mb.csv").write_text("src,dst,MB,start_ms\n0,1,2,0\n1,2,3,5\n")
    done = netsim("trace", "check", "mb.csv", "--format", "flows", "--set", "nbytes=MB")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("mb.csv: notice: the largest MB = 3.0 has no unit and is read as 3")
    assert [line.split(maxsplit=2) for line in lines[2:4]] == [
        ["columns", "read", "src, dst, MB as nbytes; all flows start at 0"],
        ["not", "used", "start_ms"]]


def test_trace_check_of_an_instance_has_lines_too(netsim, here) -> None:
    (here / "t.json").write_text('{"jobs": [\n{"coflows": [[{"src": 0, "dst": 1, "bytes": "5MB"}]]}'
                                 ',\n{"coflows": [[{"src": 0, "dst": 1.5, "bytes": 1}]]}]}')
    done = netsim("trace", "check", "t.json")
    assert (done.exit_code, done.stderr) == (2, "")
    assert done.stdout.splitlines() == [
        "t.json:2: jobs[0].coflows[0][0].bytes must be a number from 0 to 1e+18, not '5MB'",
        "t.json:3: jobs[1].coflows[0][0].dst must be a whole number from 0 to 99999, not 1.5"]


def test_trace_check_takes_a_format(netsim, refused, here) -> None:
    (here / "jobs.dat").write_text('{"jobs": [{"coflows": [[]]}]}')
    assert "no format has the suffix '.dat'" in refused("trace", "check", "jobs.dat")
    assert netsim("trace", "check", "jobs.dat", "--format", "json").exit_code == 0
    assert "unknown workload format 'jso'" in refused("trace", "check", "jobs.dat",
                                                      "--format", "jso")


@pytest.mark.parametrize(("file", "message"), [
    ("nowhere.csv", "nowhere.csv: no such file\n"),
    ("nowhere", "unknown workload 'nowhere'; choose from: coflow-sample, "),
    (".", ".: is a folder, not a file; give one that is in it, such as "),
])
def test_trace_check_of_no_trace(refused, file, message) -> None:
    assert refused("trace", "check", file).startswith(message)


def test_trace_check_of_an_experiment(netsim) -> None:
    done = netsim("trace", "check", "fig2.toml")
    assert done.exit_code == 2
    assert "fig2.toml: an experiment (it has a [network] table), not a workload" in done.stdout


def test_version(netsim) -> None:
    assert netsim("--version").stdout == f"netsim, version {api.__version__}\n"


@pytest.mark.parametrize("command", [[], ["run"], ["compare"], ["list"], ["init"], ["trace"],
                                     ["trace", "check"], ["trace", "convert"], ["plot"]])
def test_help_fits_the_screen(netsim, command) -> None:
    done = netsim(*command, "--help")
    assert done.exit_code == 0
    assert done.stdout.startswith("Usage: netsim")
    assert max(map(len, done.stdout.splitlines())) <= 100


@pytest.mark.parametrize("command", [[], ["data"], ["topo"], ["trace"]])
def test_what_commands_do_is_not_cut_at_80_columns(netsim, command, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = netsim(*command, "--help").stdout.split("Commands:\n")[1]
    lines = listed.splitlines()
    assert len(lines) > 0
    assert all(line.endswith(".") and not line.endswith("...") for line in lines)
    assert max(map(len, lines)) <= 80

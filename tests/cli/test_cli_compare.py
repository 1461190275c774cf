"""`netsim compare`."""

from __future__ import annotations

import sys

import pandas as pd
import pytest

import netsim as api


def test_the_table_is_readable(netsim) -> None:
    done = netsim("compare", "fig2.toml")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == [
        "allocator", "parrot", "lccf (work_conservation=none)", "lower bound"]
    assert lines[4].split() == ["lower", "bound", "28.0", "1.00", "0.683", "14.0", "17.6",
                                "7.00", "18.0"]
    assert lines[5:10] == ["", "Runs allocate leftover bandwidth in different ways, which explains "
                           "part of the", "differences:", "",
                           "allocator                      left over            decided per"]
    assert lines[-1].startswith("results: runs/fig2-")
    assert all(len(line) <= 100 and line.isascii() for line in lines)


def test_a_note_under_a_table_of_unlike_things(netsim) -> None:
    """What is left of the links goes to whole coflows under one, and to flows under the other."""
    done = netsim("compare", "fig2.toml", "--allocator", "srpt,sebf")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.rstrip() for line in lines[5:-1]] == [
        "",
        "Runs allocate leftover bandwidth in different ways, which explains part of the",
        "differences:",
        "",
        "allocator  left over          decided per",
        "srpt       greedy to coflows  coflow",
        "sebf       maxmin to flows    flow",
        ""]
    alike = netsim("compare", "fig2.toml", "--allocator", "fifo,sebf").stdout
    assert "part of the" not in alike


def test_a_network_that_is_changed_says_so(netsim, here) -> None:
    """In what is printed, in the summary and in the experiment that is kept."""
    done = netsim("run", "fig2.toml", "--set", "network.capacity=40Gbps", "--out", "c")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "network    parrot-fig2 (capacity=40Gbps)" in done.stdout.splitlines()
    result = api.load_result(here / "c")
    assert result.run["network"] == "parrot-fig2 (capacity=40Gbps)"
    assert result.spec["network"]["name"] == "parrot-fig2 (capacity=40Gbps)"


@pytest.mark.filterwarnings("always")
def test_a_small_rate_without_a_unit_is_questioned(netsim, here) -> None:
    """Once, and unless it has one, as in what is kept of a run."""
    done = netsim("run", "fig2.toml", "--set", "network.capacity=40")
    assert done.exit_code == 0
    assert done.stderr == (
        'warning: egress capacity = 40 has no unit and is read as 40 bytes/s; write "40B/s" '
        'if this is meant, otherwise add the unit, as in "40Gbps"\n')
    silenced = netsim("run", "fig2.toml", "--set", "network.capacity=40B/s", "--out", "c")
    assert (silenced.exit_code, silenced.stderr) == (0, "")
    assert netsim("run", "c/spec.toml").stderr == ""


def test_the_folder_has_a_result_per_allocator(netsim, here) -> None:
    netsim("compare", "fig2.toml", "--out", "c")
    assert sorted(path.name for path in (here / "c").iterdir()) == [
        "comparison.csv", "lccf-work_conservation=none", "parrot", "spec.toml"]
    labels = pd.read_csv(here / "c" / "comparison.csv")["label"].tolist()
    assert labels == ["parrot", "lccf (work_conservation=none)", "lower bound"]
    assert api.load_result(here / "c" / "parrot").run["observe_interval"] == 0.1


def test_allocators_of_the_command_line_replace_those_of_the_file(netsim, here) -> None:
    netsim("compare", "fig2.toml", "--out", "c", "--seed", "4", "--allocator",
           "maxmin, parrot:theta_max=0.6:work_conservation=uniform", "--allocator", "srpt")
    spec = api.load_experiment(here / "c" / "spec.toml")
    assert spec.seed == 4
    assert [table.given for table in spec.compare.allocators] == [
        {"name": "maxmin", "decisions": "flow", "weights": "equal"},
        {"name": "parrot", "theta_max": 0.6, "work_conservation": "uniform"},
        {"name": "srpt", "work_conservation": "greedy"}]


def test_an_option_of_a_policy_may_be_a_list(netsim, here) -> None:
    """Commas within brackets do not end a name."""
    netsim("compare", "fig2.toml", "--out", "c", "--allocator", "aalo:weights=[3, 1]:queues=2,srpt")
    spec = api.load_experiment(here / "c" / "spec.toml")
    assert [table.name for table in spec.compare.allocators] == ["aalo", "srpt"]
    assert spec.compare.allocators[0].given["weights"] == [3, 1]


def test_a_baseline_has_a_table_of_its_own(netsim, here) -> None:
    """CCTs of max-min: 12 + 16 + 4 + 16 s, 12 of them alone."""
    done = netsim("compare", "fig2.toml", "--allocator", "sebf,maxmin", "--baseline", "maxmin",
                  "--set", "observe_interval=0", "--out", "c")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].split()[:4] == ["allocator", "JCT", "(s)", "bound"]
    assert lines[1].split()[4] == "maxmin"
    assert "Times over those of maxmin; less than 1 is better:" in lines
    bound = next(line for line in lines[lines.index("results: c") - 1:] if "bound" in line)
    assert bound.split() == ["lower", "bound", "0.500", "0.750", "0.583", "0.712", "0.553", "0.583",
                             "4:0"]
    assert all(len(line) <= 100 and line.isascii() for line in lines)
    assert len(pd.read_csv(here / "c" / "ratios.csv")) == 10
    assert api.load_experiment(here / "c" / "spec.toml").compare.baseline == "maxmin"


def test_the_baseline_of_the_file_counts_where_it_is_compared(netsim, here) -> None:
    """That of an option is always one of the allocators of the command line."""
    file = here / "fig2.toml"
    file.write_text(file.read_text() + 'baseline = "lccf:work_conservation=none"\n')
    for number, (given, kept) in enumerate({
            "maxmin,srpt": None, "srpt,lccf:work_conservation=none": "lccf"}.items()):
        done = netsim("compare", "fig2.toml", "--allocator", given, "--out", f"{number}")
        assert (done.exit_code, done.stderr) == (0, "")
        spec = api.load_experiment(here / f"{number}" / "spec.toml")
        assert (spec.compare.baseline or "").partition(":")[0] == (kept or "")
    done = netsim("compare", "fig2.toml", "--allocator", "maxmin", "--set",
                  "compare.baseline=lccf")
    assert "unknown baseline 'lccf'" in done.stderr


def test_a_baseline_where_nothing_can_be_said(netsim) -> None:
    done = netsim("compare", "fig2.toml", "--baseline", "parrot", "--set", "until=14")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Times" not in done.stdout
    assert "parrot: only 1 of 2 jobs finished; its figures cover these" in done.stdout
    jobs = netsim("compare", "fig2.toml", "--baseline", "parrot", "--set", "record=[]").stdout
    assert [line.split() for line in jobs.splitlines()[-5:-3]] == [
        ["total"], ["allocator", "JCT"]]


def test_a_picture_on_request(netsim, here) -> None:
    pytest.importorskip("matplotlib")
    done = netsim("compare", "fig2.toml", "--plot", "p/a.png")
    assert done.stdout.splitlines()[-1] == "picture: p/a.png"
    assert (here / "p" / "a.png").read_bytes().startswith(b"\x89PNG")
    assert netsim("compare", "fig2.toml", "--plot", "p/a.png", "--out", "c", "--quiet"
                  ).stdout == "c\n"


def test_several_pictures_by_kind(netsim, here) -> None:
    pytest.importorskip("matplotlib")
    files = {"jct": "p/a.png", "cct": "b.svg", "classes": "c.pdf", "links": "x=1/d.png",
             "bars": "e.png", "cdf": "f.png", "slowdown": "g.png", "timeline": "h.png",
             "utilisation": "i.png"}
    plots = [word for kind, file in files.items() for word in ("--plot", f"{kind}={file}")]
    done = netsim("compare", "fig2.toml", "--set", 'record=["coflows", "links"]', *plots,
                  "--plot", "p/x=1.png")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-10:] == [
        f"picture: {file}" for file in (*files.values(), "p/x=1.png")]
    assert all((here / file).is_file() for file in (*files.values(), "p/x=1.png"))


def test_jobs_that_did_not_finish_are_said(netsim) -> None:
    lines = netsim("compare", "fig2.toml", "--set", "until=14").stdout.splitlines()
    assert "parrot: only 1 of 2 jobs finished; its figures cover these" in lines
    assert not any(line.startswith("lower bound: only") for line in lines)


@pytest.mark.parametrize(("arguments", "message"), [
    (["--allocator", "parrot,fofi"], "fig2.toml: compare.allocators.1.name: unknown allocator 'fo"),
    (["--allocator", "parrot,,lccf"], "'parrot,,lccf' has a value that is empty"),
    (["--allocator", "lccf:theta_max=0.6"], "fig2.toml: compare.allocators.0.theta_max: unknown "
     "option of allocator 'lccf' 'theta_max'; choose from: work_conservation (set by "),
    (["--allocator", "parrot:theta_max=2"], "fig2.toml: compare.allocators.0.theta_max: theta_max"),
    (["--allocator", "parrot,parrot"], "allocator: two of the values have one label, 'parrot'"),
    (["--baseline", "lccf"], "unknown baseline 'lccf'; choose from: lccf (work_conservation=none), "
     "parrot\n"),
    (["--set", "compare.allocators=[]"], "compare.allocators: is empty"),
    (["--plot", "cdfs=a.png"], "unknown plot 'cdfs' (did you mean 'cdf'?); choose from: bars, "
     "cdf, classes, slowdown, timeline, usage, utilisation\n"),
    (["--plot", "gantt=a.png"], "the plot 'gantt' is for a run, not for a comparison; choose "
     "from: bars, cdf, classes, slowdown, timeline, usage, utilisation\n"),
    (["--plot", "utilisation=a.png"], "the plot 'utilisation' needs links recorded: record = "),
    (["--plot", "links=a.png"], "the plot 'links' needs links recorded: record = [\"jobs\", "
     "\"coflows\", \"links\"]\n"),
    (["--plot", "cct=a.xyz"], "a.xyz: the suffix of a plot must be one of .pdf, .png, .svg\n"),
    (["--plot", "a.xyz"], "a.xyz: the suffix of a plot must be one of .pdf, .png, .svg\n"),
    (["--plot", "fig2.toml/a.png"], "fig2.toml/a.png: cannot be written: "),
    (["--out", "fig2.toml"], "fig2.toml: is a file, not a folder\n"),
])
def test_bad_input(refused, arguments, message) -> None:
    if "--plot" in arguments:
        pytest.importorskip("matplotlib")
    assert refused("compare", "fig2.toml", *arguments).startswith(message)


def test_what_cannot_be_written_is_known_before_the_run(refused, monkeypatch) -> None:
    monkeypatch.setattr("netsim.studies.compare.compare_experiment",
                        lambda *_, **__: pytest.fail("ran"))
    refused("compare", "fig2.toml", "--out", "fig2.toml/x")


def test_a_picture_without_matplotlib_is_refused_before_the_run(refused, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert refused("compare", "fig2.toml", "--plot", "a.png") == (
        "matplotlib is not installed; install it with: pip install 'coflow-netsim[plot]'\n")

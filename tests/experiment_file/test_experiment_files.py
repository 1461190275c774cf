"""Experiment files: where they are, what `--set` changes, and the template."""

from __future__ import annotations

import gzip
import inspect
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim.allocators import ALLOCATORS, make_allocator
from netsim.cluster import Contention
from netsim.errors import OutputError, SpecError, UnknownNameError
from netsim.experiment_file import sources as sources_module
from netsim.experiment_file import tables as tables_module
from netsim.experiment_file.catalogue import CATALOGUES, catalogue
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import (
    Draft,
    ready_made_experiments,
    template,
    write_template,
)
from netsim.jobs.patterns import PATTERNS
from netsim.network import TOPOLOGIES
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.registry import SCHEDULERS
from netsim.traces import FORMATS, Construction, format_of, ready_made

FIG2 = '[network]\nname = "parrot-fig2"\n[workload]\nname = "parrot-fig2"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my experiment.toml"
    path.write_text('allocator = "lccf"\n' + FIG2 +
                    '[[events]]\nat = 1\nlink = 0\ncapacity = 5000\n', encoding="utf-8")
    return path


def test_the_name_is_that_of_the_file_unless_said(file) -> None:
    assert netsim.load_experiment(file).name == "my-experiment"
    assert netsim.load_experiment(str(file), ["name=b"]).name == "b"
    packed = file.with_name("demo2.toml.gz")
    packed.write_bytes(gzip.compress(file.read_bytes(), mtime=0))
    assert netsim.load_experiment(packed).name == "demo2"


@pytest.mark.parametrize(("overrides", "where", "value"), [
    (["seed=3"], ["seed"], 3),
    (["seed = 3", "seed=4"], ["seed"], 4),
    (["until=5s"], ["until"], 5.0),
    (["check=false"], ["check"], False),
    (["network.capacity=40Gbps"], ["network", "capacity"], "40Gbps"),
    (['network.capacity="40Gbps"'], ["network", "capacity"], "40Gbps"),
    (["network.capacity=[1000, 2000]"], ["network", "capacity"], [1000, 2000]),
    (["allocator=parrot"], ["allocator", "name"], "parrot"),
    (["allocator=parrot:theta_max=0.6"], ["allocator", "theta_max"], 0.6),
    (["allocator.work_conservation=none"], ["allocator", "work_conservation"], "none"),
    (["allocator=parrot", "allocator.theta_max=0.6"], ["allocator", "theta_max"], 0.6),
    (["events.0.link=egress-1"], ["events", 0, "link"], "egress-1"),
    (["events=[]"], ["events"], []),
    (['compare.allocators=["lccf"]'], ["compare", "allocators", 0, "name"], "lccf"),
])
def test_settings_replace_those_of_the_file(file, overrides, where, value) -> None:
    found = netsim.load_experiment(file, overrides).resolved()
    for part in where:
        found = found[part]
    assert found == value


@pytest.mark.parametrize(("override", "message"), [
    ("seed", "'seed' is not a setting; write it as key.path=value"),
    ("=3", "'=3' is not a setting"),
    ("network..capacity=3", "'network..capacity=3' is not a setting"),
    ("seed.x=3", "'seed.x=3': 'seed' is not a table, but 0"),
    ("events.1.at=3", "'events.1.at=3': '1' is not the number of an entry; there are 1, numbered"),
    ("events.first.at=3", "'events.first.at=3': 'first' is not the number of an entry"),
])
def test_settings_that_have_no_place(file, override, message) -> None:
    file.write_text("seed = 0\n" + file.read_text())
    with pytest.raises(SpecError, match=re.escape(message)):
        netsim.load_experiment(file, [override])


@pytest.mark.parametrize(("table", "overrides", "name"), [
    ('name = "parrot-fig2"', [], "parrot-fig2"),
    ('name = "parrot-fig2"', ["network.capacity=40Gbps"], "parrot-fig2 (capacity=40Gbps)"),
    ('name = "parrot-fig2"', ["network.capacity=1MB/s"], "parrot-fig2"),
    ('name = "parrot-fig2"\ncapacity = "40Gbps"', [], "parrot-fig2 (capacity=40Gbps)"),
    ('name = "parrot-fig2"\ncapacity = "40Gbps"', ["network.capacity=5Gbps"],
     "parrot-fig2 (capacity=5Gbps)"),
    ('name = "parrot-fig2"', ["network.name=ring-8-100g"], "ring-8-100g"),
    ('kind = "ring"\nhosts = 4', ["network.capacity=40Gbps"], "ring"),
    ('kind = "ring"\nhosts = 4\nname = "small"', [], "small"),
    ('kind = "ring"\nhosts = 4\nname = "small"', ["network.hosts=4"], "small"),
    ('kind = "ring"\nhosts = 4\nname = "small"', ["network.hosts=5"], "small (hosts=5)"),
    ('kind = "ring"\nhosts = 4\nname = "small"', ["network.hosts=5", "network.name=mine"], "mine"),
    ('kind = "ring"\nhosts = 4\nname = "small"',
     ["network.hosts=5", "network.capacity=40Gbps", "network.hosts=6"],
     "small (hosts=6, capacity=40Gbps)"),
])
def test_a_network_that_is_changed_says_so(tmp_path, table, overrides, name) -> None:
    """In results, and in the resolved experiment, which gives the same network under that name."""
    path = tmp_path / "x.toml"
    path.write_text(f'[network]\n{table}\n[workload]\nname = "parrot-fig2"\n')
    found = netsim.load_experiment(path, overrides)
    assert found.network.built.name == name
    again = netsim.Experiment(**found.resolved())
    assert again.resolved() == found.resolved()
    assert again.network.built.name == name


def test_what_a_sweep_varies_is_in_the_name_of_the_network(file) -> None:
    draft = Draft.read(file)
    draft.put("network.capacity", "40Gbps", "network.capacity=40Gbps")
    assert draft.build().network.built.name == "parrot-fig2 (capacity=40Gbps)"


@pytest.mark.parametrize(("line", "said"), [
    ('capacity = "40B/s"', None), ('capacity = "40Gbps"', None), ("capacity = 1000", None),
    ("capacity = 40", "egress capacity = 40 has no unit and is read as 40"),
    ('capacity = "40"', "egress capacity = '40' has no unit and is read as"),
])
def test_small_rates_without_a_unit_are_questioned(tmp_path, line, said, recwarn) -> None:
    """Not again when the experiment is built again for one of its runs."""
    path = tmp_path / "x.toml"
    path.write_text(f'[network]\nkind = "big-switch"\nhosts = 2\n{line}\n'
                    '[workload]\nname = "parrot-fig2"\n')
    if said is None:
        netsim.load_experiment(path)
        assert not recwarn.list
    else:
        with pytest.warns(netsim.NetsimWarning, match=said):
            loaded = netsim.load_experiment(path)
        loaded.single().resolved()


def test_a_small_rate_with_a_unit_keeps_it(file) -> None:
    """Resolved, and read again, it is not questioned either."""
    file.write_text(file.read_text().replace("capacity = 5000\n", 'capacity = "5B/s"\n'))
    found = netsim.load_experiment(file)
    assert found.events[0].capacity == 5
    assert found.resolved()["events"] == [{"at": 1.0, "link": 0, "capacity": "5B/s"}]
    assert Draft(found.resolved()).build().events == found.events


def test_a_file_whose_keys_say_the_unit_is_not_questioned(tmp_path) -> None:
    (tmp_path / "net.json").write_text('{"hosts": 2, "port_capacity_bytes_per_s": 5}')
    path = tmp_path / "x.toml"
    path.write_text('[network]\nfile = "net.json"\n[workload]\nname = "parrot-fig2"\n')
    assert netsim.load_experiment(path).network.built.capacity.tolist() == [5] * 4
    with pytest.warns(netsim.NetsimWarning, match="capacity = 7 has no unit"):
        netsim.load_experiment(path, ["network.egress=7"])


@pytest.mark.parametrize(("overrides", "allocator"), [
    (["allocator.name=sebf"], {"name": "sebf", "decisions": "flow", "key": "remaining",
                               "work_conservation": "maxmin"}),
    (["allocator.name=lccf"], {"name": "lccf", "work_conservation": "greedy"}),
    (["allocator.name=parrot", "allocator.theta_max=0.7"],
     {"name": "parrot", "theta_max": 0.7, "work_conservation": "backfill"}),
    (["allocator.name=parrot:theta_max=0.7"],
     {"name": "parrot", "theta_max": 0.7, "work_conservation": "backfill"}),
    (["allocator.work_conservation=capped", "allocator.name=srtf"], {"name": "srtf"}),
])
def test_the_name_of_an_allocator_brings_its_defaults(file, overrides, allocator) -> None:
    """An option of the one that the file names, ``work_conservation``, does not outlive it."""
    file.write_text(file.read_text().replace('allocator = "lccf"\n', "") + (
        '[allocator]\nname = "lccf"\nwork_conservation = "none"\n'))
    assert netsim.load_experiment(file, overrides).resolved()["allocator"] == allocator


def test_nor_in_a_comparison(file) -> None:
    with file.open("a") as more:
        more.write('[compare]\nallocators = [{name = "parrot", theta_max = 0.6}, "fifo"]\n')
    found = netsim.load_experiment(file, ["compare.allocators.0.name=lccf",
                                          "compare.allocators.1.name=parrot:theta_max=0.7"])
    assert [table.given for table in found.compare.allocators] == [
        {"name": "lccf"}, {"name": "parrot", "theta_max": 0.7}]


@pytest.mark.parametrize(("overrides", "problem"), [
    (["seed=-1"], "seed: must be greater than or equal to 0, not -1 (set by 'seed=-1')"),
    (["seed=-1", " seed = -2"], "not -2 (set by ' seed = -2')"),
    (["seed=1", "network.capacity=-1"],
     "network.capacity: egress capacity must be greater than 0, not -1 "
     "(set by 'network.capacity=-1')"),
    (["events=[{at=1, link=9, capacity=0}]"],
     "events.0.link: network 'parrot-fig2' has no link 9; it has 4, such as 'egress-0' and "
     "'ingress-1' (set by 'events=[{at=1, link=9, capacity=0}]')"),
    (["allocator.name=fofi"], "(set by 'allocator.name=fofi')"),
])
def test_the_file_is_not_blamed_for_a_setting(file, overrides, problem) -> None:
    with pytest.raises(SpecError) as caught:
        netsim.load_experiment(file, overrides)
    assert str(caught.value).endswith(problem)
    assert str(caught.value).count("set by") == 1


def test_a_setting_is_not_blamed_for_the_file(file) -> None:
    file.write_text('observe_interval = "1 parsec"\n' + file.read_text())
    with pytest.raises(SpecError) as caught:
        netsim.load_experiment(file, ["seed=1", "network.capacity=1Gbps"])
    assert "set by" not in str(caught.value)


def test_problems_name_the_file_and_the_key(file) -> None:
    with pytest.raises(SpecError) as caught:
        netsim.load_experiment(file, ["seed=-1", "observe_intervall=1"])
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{file}: 2 problems:"
    assert [line.partition(":")[0] for line in lines[1:]] == ["  - seed", "  - observe_intervall"]


@pytest.mark.parametrize(("more", "overrides", "problems"), [
    ("[compare]\nallocators = [{ name = 'aalo', queues = 0 }]\n", [],
     ["{file}:{end}: compare.allocators.0.queues: queues must "]),
    ("[compare]\nallocators = [\n  'lccf',\n  'fofi']\n", [],
     ["{file}:{end}: compare.allocators.1.name: unknown allocator 'fofi'"]),
    ("[[events]]\nat = 1\nfactor = 0\nlink = 9\n", [], ["{file}:{end}: events.1.link: network "]),
    ("[[events]]\n", [], ["{file}:{end}: events.1.at: is required"]),
    ("[compare]\nbaselin = 'fifo'\n", ["seed=-1", "allocator=fofi"], [
        "{file}: 3 problems:", "  - seed: must be greater than or equal to 0, not -1 (set by 's",
        "  - allocator.name: unknown", "  - line {end}: compare.baselin: unknown key"]),
    ("[sweep]\nvary = {}\nseed = 0\n", ["sweep.vary={until=3}"], [
        "{file}: 2 problems:", "  - sweep.vary.until: must be", "  - line {end}: sweep.seed: "]),
])
def test_problems_name_the_line_of_the_key_if_the_file_has_it(file, more, overrides, problems):
    file.write_text(file.read_text() + more)
    told = {"file": file, "end": file.read_text().count("\n")}
    with pytest.raises(SpecError) as caught:
        netsim.load_experiment(file, overrides)
    said = str(caught.value).splitlines()
    for line, problem in zip(said, problems, strict=True):
        assert line.startswith(problem.format(**told)), said


@pytest.mark.parametrize(("vary", "seeds", "line"), [
    (None, None, ":{}"), ({"until": ["1 parsec"]}, None, ""), (None, 3, ":{}")])
def test_what_replaces_a_table_of_a_sweep_has_no_line(file, vary, seeds, line):
    """The table that stands in the file is not to blame for the values given instead."""
    file.write_text(file.read_text() + "[sweep.vary]\nuntil = 3\n")
    place = line.format(file.read_text().count("\n"))
    with pytest.raises(SpecError) as caught:
        netsim.sweep_experiment(file, vary, seeds=seeds)
    key = "until" if vary else "sweep.vary.until"
    assert str(caught.value).startswith(f"{file}{place}: {key}: ")


@pytest.mark.parametrize(("content", "message"), [
    (b"seed = ", "is not TOML: Invalid value (at end of document)"),
    (b"seed = 1\nseed = 2\n", "is not TOML: Cannot overwrite a value (at line 2"),
    (b"allocator = parrot\n", "is not TOML: Invalid value (at line 1, column 13); quote strings: "
                              'allocator = "parrot"'),
    (b"[network]\ncapacity = 10Gbps # of a port\n",
     "is not TOML: Expected newline or end of document after a statement (at line 2, column 14); "
     'quote strings: capacity = "10Gbps"'),
    (b"name = '\xff'", "is not TOML: 'utf-8' codec can't decode"),
    (b"", "2 problems:\n  - network: is required"),
])
def test_files_that_are_no_experiments(file, content, message) -> None:
    file.write_bytes(content)
    with pytest.raises(SpecError, match=re.escape(f"{file}: {message}")):
        netsim.load_experiment(file)


def test_where_there_is_no_file(tmp_path) -> None:
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        netsim.load_experiment(tmp_path / "a.toml")
    with pytest.raises(SpecError, match="cannot be read: Is a directory"):
        netsim.load_experiment(tmp_path)
    with pytest.raises(UnknownNameError, match=r"'dmo' \(did you mean 'demo'\?\); choose from:"):
        netsim.load_experiment("dmo")


def test_files_are_relative_to_the_experiment(tmp_path, monkeypatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "net.toml").write_text('kind = "big-switch"\nhosts = 40\n')
    (tmp_path / "jobs.toml").write_text('format = "synthetic"\njobs = 2\n')
    (elsewhere / "more.toml").write_text('format = "synthetic"\njobs = 3\n')
    path = tmp_path / "e.toml"
    path.write_text('[network]\nfile = "net.toml"\n[workload]\nfile = "jobs.toml"\n')
    monkeypatch.chdir(elsewhere)
    assert len(netsim.load_experiment("../e.toml").workload.built) == 2
    # The one who types --set is in the current folder.
    assert len(netsim.load_experiment(path, ["workload.file=more.toml"]).workload.built) == 3


@pytest.mark.parametrize(("own", "name"), [
    (["workload.file=mine.csv"], "mine"),
    (["workload.file=mine.toml"], "mine"),
    (["workload.file=rows.csv"], "rows"),
    (["workload.file=mine.csv", "workload.name=theirs"], "theirs"),
    (["workload.format=synthetic"], "parrot-60"),
])
def test_data_in_a_file_have_no_name_of_a_ready_made_workload(own, name, tmp_path, monkeypatch
                                                              ) -> None:
    """The file that ``netsim init`` writes names parrot-60."""
    monkeypatch.chdir(tmp_path)
    Path("mine.csv").write_text("src,dst,bytes\n0,1,5000\n")
    Path("mine.toml").write_text('format = "synthetic"\njobs = 2\n')
    Path("rows.csv").write_text("job_id,num_gpu,submit_time,iterations,model_name,duration,"
                                "interval\n0,2,0,10,vgg19,200,30\n")
    Path("e.toml").write_text('[network]\nname = "big-switch-128-10g"\n'
                              '[workload]\nname = "parrot-60"\n')
    found = netsim.load_experiment("e.toml", own)
    assert found.workload.built.name == found.resolved()["workload"]["name"] == name


# --- what comes with netsim ---------------------------------------------------------------


def test_every_ready_made_experiment_is_one() -> None:
    assert "demo" in ready_made_experiments()
    for name, line in ready_made_experiments().items():
        experiment = netsim.load_experiment(name)
        assert (experiment.name, experiment.description) == (name, line)
        assert line
        assert name not in ready_made()
        with pytest.raises(netsim.TraceError, match="an experiment"):
            netsim.read_workload(name)


def test_the_demo_compares_all_schemes() -> None:
    experiment = netsim.load_experiment("demo")
    assert experiment.observe_interval == 0.01
    named = {(table.name, table.given.get("work_conservation", ""))
             for table in experiment.compare.allocators}
    schemes = ("parrot", "aalo-lbsf", "lccf")
    assert named == {("maxmin", ""), *((name, "") for name in schemes),
                     *((name, "none") for name in schemes)}


def test_catalogues_have_a_line_on_everything() -> None:
    for kind in CATALOGUES:
        entries = catalogue(kind)
        assert entries
        assert all(line and "\n" not in line for line in entries.values()), kind
    assert set(catalogue("allocators")) == {*ALLOCATORS, *ALLOCATORS.presets}
    assert catalogue("allocators")["coflowsim-ncf"].startswith("preset: ncf, key = original, ")
    assert {"big-switch", "parrot-fig2"} <= set(catalogue("topologies"))
    assert catalogue("workloads")["demo"].startswith("experiment: Parrot")
    with pytest.raises(UnknownNameError, match="'networks'; choose from: allocators, execut"):
        catalogue("networks")


# --- the template -------------------------------------------------------------------------


def _options() -> set[str]:
    """Return every key and option that an experiment can have, from the code itself."""
    names = {name for module in (tables_module, sources_module) for kind in vars(module).values()
             if isinstance(kind, type) and issubclass(kind, tables_module.BaseModel)
             for name in kind.model_fields}
    names |= set(Experiment.model_fields)
    for allocator in ALLOCATORS:
        names |= set(ALLOCATORS.options(allocator))
    for registry in (SCHEDULERS, PLACEMENTS, PATTERNS, TOPOLOGIES):
        for name in registry:
            names |= set(registry.options(name))
    names |= {field.name for field in fields(Contention)}
    for name in FORMATS:
        names |= set(format_of(name).options)
    return names


def _commented_out() -> dict[str, dict[str, Any]]:
    """Return the settings that are commented out, by table; of `allocator` the last of a key."""
    found: dict[str, dict[str, Any]] = {"": {}}
    table = ""
    for line in template().splitlines():
        if heading := re.match(r"#?\[+([a-z]+)\]+", line):
            table = heading[1]
            found[table] = {}
        elif re.match(r"#[a-z_0-9]+ = ", line):
            found[table] |= tomllib.loads(line[1:])
    return found


def _commented_policies() -> list[dict[str, Any]]:
    """Return the allocators that the template explains, with the options that it shows."""
    found: list[dict[str, Any]] = []
    names: list[str] = []
    for line in template().partition("[allocator]")[2].partition("[[events]]")[0].splitlines():
        if line.startswith("# name = "):
            names = [name for name in re.findall(r'"([a-z-]+)"', line) if name in ALLOCATORS]
            found += [{"name": name} for name in names]
        elif re.match(r"#[a-z_0-9]+ = ", line):
            option, value = tomllib.loads(line[1:]).popitem()
            for policy in found[len(found) - len(names):]:
                if option in ALLOCATORS.options(policy["name"]):
                    policy[option] = value
    return found


def test_the_templates_have_every_option() -> None:
    text = template() + template("cluster") + template("edge")
    shown = set(re.findall(r"\b([a-z_0-9]+) = ", text))
    tables = {part for heading in re.findall(r"^#?\[+([a-z_.]+)\]+", text, re.MULTILINE)
              for part in heading.split(".")}
    assert _options() - shown - tables == set()


def test_the_template_runs_as_it_is(tmp_path, monkeypatch) -> None:
    path = write_template(tmp_path / "e.toml")
    experiment = netsim.load_experiment(path)
    assert len(netsim.run(experiment).jobs) == 60
    compared = {table.name for table in experiment.compare.allocators}
    for name in ALLOCATORS:  # what needs an extra is commented out
        assert (name in compared) == (make_allocator(name).needs_extra is None)
        assert f'"{name}"' in template()


def test_what_the_template_comments_out_is_accepted() -> None:
    off = _commented_out()
    network = {key: off["network"][key] for key in off["network"] if key not in ("file", "sha256")}
    workload = {key: off["workload"][key] for key in off["workload"]
                if key not in ("file", "sha256", "servers_max")}
    policies = _commented_policies()
    assert {policy["name"] for policy in policies} >= {"aalo", "lccf", "maxmin", "sebf"}
    for policy in policies:
        Experiment(network=network, workload=workload, events=[off["events"]], allocator=policy,
                   **off[""])
    del workload["servers"]
    workload["servers_max"] = off["workload"]["servers_max"]
    assert len(Experiment(network=network, workload=workload).workload.built) == 100


def test_what_the_template_shows_is_the_default_unless_it_says_example() -> None:
    defaults: dict[str, set[str]] = {}
    for make in (*map(TOPOLOGIES.resolve, TOPOLOGIES), Construction, *map(FORMATS.resolve, FORMATS),
                 *(type(make_allocator(name)) for name in ALLOCATORS)):
        for name, parameter in inspect.signature(make).parameters.items():
            defaults.setdefault(name, set()).add(repr(parameter.default))
    checked = []
    for line in template().splitlines():
        setting = re.match(r"#([a-z_0-9]+) = ([^#]*)#? ?(.*)", line)
        if setting and setting[1] in defaults and not setting[3].startswith(("example", "with")):
            assert repr(tomllib.loads(setting[0][1:])[setting[1]]) in defaults[setting[1]], line
            checked.append(setting[1])
    assert {"capacity", "jobs", "length", "ranks_per_gpu", "decisions"} <= set(checked)


def test_the_template_of_a_cluster_runs_as_it_is(tmp_path) -> None:
    experiment = netsim.load_experiment(write_template(tmp_path / "e.toml", "cluster"))
    assert len(netsim.run(experiment).jobs) == 160
    compared = {table.name for table in experiment.compare.schedulers}
    # A-SRPT has no history to learn from, and others are for edge-clouds.
    assert compared == set(SCHEDULERS) - {"a-srpt", "a-online", "a-online-e", "batch", "cloud-only"}


def test_what_the_template_of_a_cluster_comments_out_is_accepted_and_the_default() -> None:
    """Every line that is off can be switched on, but for those that exclude another."""
    lines = template("cluster").splitlines()
    defaults: dict[str, set[str]] = {"u": {"1.0"}}
    makers = [SCHEDULERS.resolve(name) for name in SCHEDULERS]
    for make in (Contention, FORMATS.resolve("ring-jobs"), netsim.simulate, *makers):
        for name, parameter in inspect.signature(make).parameters.items():
            defaults.setdefault(name, set()).add(repr(parameter.default))
    off = {}
    table = ""
    for line in lines:
        if heading := re.match(r"\[+([a-z.]+)\]+$", line.partition(" ")[0]):
            table = heading[1]
        elif setting := re.match(r"#([a-z_0-9]+) = [^#]*#? ?(.*)", line):
            value = tomllib.loads(setting[0][1:])[setting[1]]
            key = setting[1] if setting[1] in Experiment.model_fields else f"{table}.{setting[1]}"
            off[key] = value
            if setting[1] in defaults and not setting[2].startswith("example"):
                shown = tuple(value) if isinstance(value, list) else value
                assert repr(shown) in defaults[setting[1]], line
    assert {"cluster.draw_gpus", "scheduler.kappa", "execution.alpha", "placement"} <= set(off)
    base = tomllib.loads("\n".join(lines))
    example = {"kind": "leaf-spine", **{key: off.pop(f"cluster.{key}") for key in (
        "kind", "leaves", "spines", "hosts_per_leaf", "oversubscription")}}
    Draft(base | {"network": example}).build()
    for key, value in off.items():
        draft = Draft({name: dict(part) if isinstance(part, dict) else part
                       for name, part in base.items()})
        if key == "cluster.draw_gpus":
            del draft.keys["cluster"]["gpus"]
        if key.startswith("workload.poisson"):
            draft.put("workload.poisson_jobs", 10, "")
            draft.put("workload.poisson_mean", "1s", "")
            draft.put("scheduler", "fifo", "")  # plans are for jobs that are all there at 0
        name = {"placement": "fifo", "scheduler.order": "ff",
                "scheduler.servers": "wcs-subtime", "scheduler.backfill": "fifo",
                "scheduler.by": "sjf", "scheduler.quantum_s": "las", "scheduler.service": "las",
                **dict.fromkeys(("scheduler.thresholds", "scheduler.promote_knob",
                                 "scheduler.fifo_by"), "tiresias"),
                "scheduler.history": "tiresias-g",
                "scheduler.delta": "tiresias-g:history=[60,600]"}.get(key)
        option = key.partition(".")[2]
        if option in ("predictor", "retrain"):
            draft.put("scheduler", {"name": "spjf", "predictor": "mean", "retrain": "1h"}, "")
        elif option in ("tau", "comm_heavy", "mapping"):
            name = "a-srpt-perfect"
        if name is not None:
            draft.put("scheduler", name, "")
        draft.put(key, value, f"{key}={value}")
        draft.build()


def test_a_template_is_not_written_over_a_file(tmp_path) -> None:
    path = tmp_path / "e.toml"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists already, and is left as it is"):
        write_template(path)
    assert path.read_text() == "mine"
    with pytest.raises(OutputError, match="cannot be written: No such file or directory"):
        write_template(tmp_path / "nowhere" / "e.toml")

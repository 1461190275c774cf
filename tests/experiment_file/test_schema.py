"""The schema of experiment files: the one that comes with netsim, and what it takes and refuses."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import netsim
from netsim.allocators import ALLOCATORS
from netsim.base.plugins import NO_PLUGINS
from netsim.base.units import parse_bytes, parse_rate, parse_seconds
from netsim.engine.registry import EXECUTIONS
from netsim.errors import InputError
from netsim.experiment_file.load import ready_made_experiments, template, write_template
from netsim.experiment_file.schema import schema, schema_text
from netsim.experiment_file.values import quantity_schema
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.registry import SCHEDULERS

jsonschema = pytest.importorskip("jsonschema")

PACKAGE = Path(netsim.__file__).parent
SHIPPED = PACKAGE / "experiment_file" / "experiment.schema.json"
WORKLOADS = PACKAGE.parent / "workloads"
DOCS = [PACKAGE.parent / "README.md", *(PACKAGE.parent / "docs").rglob("*.md")]

BASE = '[network]\nname = "parrot-fig2"\n[workload]\nname = "parrot-fig2"\n'

CHECK = jsonschema.Draft202012Validator(json.loads(SHIPPED.read_text(encoding="utf-8")))


def wrong(table):
    """The paths of keys that the schema refuses, each with the keyword that does so."""
    return [(".".join(map(str, error.absolute_path)), error.validator)
            for error in CHECK.iter_errors(table)]


def test_the_schema_in_the_package_is_what_the_command_prints(monkeypatch):
    monkeypatch.setenv(NO_PLUGINS, "1")
    assert schema_text() + "\n" == SHIPPED.read_text(encoding="utf-8"), (
        "experiment.schema.json is not up to date; renew it with: "
        "NETSIM_NO_PLUGINS=1 netsim schema > netsim/experiment_file/experiment.schema.json")


def test_it_is_a_schema_of_the_draft_that_it_names():
    assert CHECK.schema["$schema"] == CHECK.META_SCHEMA["$id"]
    CHECK.check_schema(CHECK.schema)


# --- what it takes -------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["network", "cluster", "edge"])
def test_templates_fit_and_name_the_schema_that_is_installed(of, tmp_path):
    path = write_template(tmp_path / "e.toml", of)
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == f"#:schema {SHIPPED.resolve().as_uri()}"
    assert wrong(tomllib.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("of", ["network", "cluster", "edge"])
def test_keys_that_templates_comment_out_fit(of):
    """Those before the first table; options in tables depend on what else stands there."""
    lines = re.split(r"^\[", template(of), maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    shown = [tomllib.loads(line[1:]) for line in lines if re.match(r"#[a-z_]+ = ", line)]
    assert shown
    for setting in shown:
        assert wrong({"workload": {}} | setting) == []


def test_ready_made_experiments_fit_and_so_do_their_resolved_ones():
    for name in ready_made_experiments():
        assert wrong(tomllib.loads((WORKLOADS / f"{name}.toml").read_text())) == [], name
        resolved = netsim.load_experiment(name).resolved()
        assert wrong(json.loads(json.dumps(resolved))) == [], name


def test_experiments_in_the_documentation_fit():
    found = [tomllib.loads(block) for page in DOCS for block in re.findall(
        r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)]
    whole = [table for table in found if "workload" in table]
    assert len(whole) > 5
    for table in whole:
        assert wrong(table) == [], table


@pytest.mark.parametrize("more", [
    'allocator = "mine.policies:Mine"', 'allocator = "mine:Mine:weights=3"',
    'allocator = "dclas:queues=4:weights=strict"', 'allocator = "coflowsim-sebf"',
    'allocator = { name = "mine:Mine", queues = "many", weights = 3 }',
    'scheduler = { name = "spjf", predictor = { name = "mean", scope = "user" } }',
    'scheduler = "spjf:predictor=perfect"', 'placement = "mapped:servers=most:mapping=heavy-edge"',
    '[network]\nkind = "mine:network"\nhosts = "a few"',
    '[network]\nkind = "ring"\nhosts = 4\nlatency = { "*" = "1us" }\nlimits = { hosts = 5 }',
    '[workload]\nformat = "mine:read"\nfile = "x.dat"\njobs = "all"',
    '[workload]\nname = "parrot-60"\niterations = 3\npoisson_jobs = 5\npoisson_mean = "1s"',
    '[workload]\nllm = "llama-7b"\nname = "mine"\ntp = 8',
    '[workload]\npattern = { name = "all-to-all", sizes = "uniform" }\nranks = 3\nnbytes = "1MB"',
    '[workload]\npattern = "mine:Pattern"\nranks = 3\nnbytes = 1e6',
    'workload = [{ llm = "llama-7b", arrival = "1s" }, { format = "synthetic", id_offset = 3 }]',
    '[workload]\nformat = "edge-trace"\nfile = "60_job.csv"\nlimit = 100',
    '[sweep]\nseeds = [1, 2]\npoints = { count = 3, method = "random" }\n[sweep.vary]\n'
    'network.capacity = ["1Gbps", 5e9]\nobserve_interval = { low = "1ms", high = "1s" }'])
def test_it_takes(more):
    assert wrong({"workload": {"name": "parrot-fig2"}} | tomllib.loads(more)) == []


# --- what it refuses -----------------------------------------------------------------------


@pytest.mark.parametrize(("more", "key"), [
    ("sede = 1", ""), ("seed = -1", "seed"), ("until = 0", "until"),
    ('seed = "1"', "seed"), ('until = "1 sec"', "until"),
    ('check = "yes"', "check"), ('record = ["jobs", "coflow"]', "record.1"),
    ('allocator = "fofi"', "allocator"), ('allocator = "aalo:quees=3"', "allocator"),
    ("allocator = 3", "allocator"), ('[allocator]\nqueues = 3', "allocator"),
    ('[allocator]\nname = "aalo"\nquees = 3', "allocator"),
    ('[allocator]\nname = "aalo"\nqueues = "3"', "allocator.queues"),
    ('[allocator]\nname = "aalo"\nweights = "even"', "allocator.weights"),
    ('[allocator]\nname = "aalo"\nfirst_threshold = "10Gbps"', "allocator.first_threshold"),
    ('[allocator]\nname = "fofi"', "allocator.name"),
    ('[compare]\nallocators = ["lccf", "fofi"]', "compare.allocators.1"),
    ('[scheduler]\nname = "spjf"\npredictor = "man"', "scheduler.predictor"),
    ('[network]\nkind = "ring"\nhost = 4\nhosts = 3', "network"),
    ('[network]\nkind = "ring"', "network"), ('[network]\nkind = "rings"', "network.kind"),
    ('[network]\nname = "parrot-fig2"\ncapacty = 3', "network"),
    ('[network]\nkind = "ring"\nhosts = 4\nfile = "x"', "network"),
    ('[network]\nkind = "ring"\nhosts = 4\ncapacity = "40MB"', "network.capacity"),
    ('[workload]\nname = "parrot-60"\narrival = "1s"', "workload.arrival"),
    ('[workload]\nformat = "synthetic"\njob = 3', "workload"),
    ('[workload]\nformat = "tiresias"', "workload"), ("workload = []", "workload"),
    ('[workload]\nformat = "synthetic"\njobs = 3.5', "workload.jobs"),
    ('workload = [{ llm = "llama-7b", tps = 8 }]', "workload.0"),
    ('[[events]]\nat = 1\nkind = "fial"', "events.0.kind"), ("[[events]]\nlink = 1", "events.0"),
    ("[stragglers]\n3 = 0.5", "stragglers.3"), ("[sweep]\nseeds = 0", "sweep.seeds"),
    ("[sweep.points]\ncount = 3\nmethods = 1", "sweep.points"),
    ('[preemption]\nkeep = "all"', "preemption.keep"), ("[cluster]\ngpus = 1.5", "cluster.gpus")])
def test_it_refuses_with_the_key(more, key):
    """As netsim does; the path is that of a value, or of the table with a wrong or missing key."""
    table = tomllib.loads(BASE) | tomllib.loads(more)
    assert {path for path, _ in wrong(table)} == {key}
    with pytest.raises((InputError, TypeError)):
        netsim.Experiment(**table)


# --- options -------------------------------------------------------------------------------


def options():
    """Each option in the schema: the definition around it, its name, and its schema."""
    for name, table in CHECK.schema["$defs"].items():
        for option, own in table.get("properties", {}).items():
            if isinstance(own, dict) and own != {"not": {}}:
                yield name, option, own


def test_every_option_has_a_type_a_meaning_and_a_default_that_fits():
    for name, option, own in options():
        refers = CHECK.schema["$defs"][own["$ref"].rpartition("/")[2]] if "$ref" in own else own
        assert refers["description"].endswith("."), (name, option)
        assert own.keys() & {"type", "enum", "anyOf", "$ref"}, (name, option)
        if "default" in own:
            only = {**own, "$defs": CHECK.schema["$defs"]}
            assert CHECK.evolve(schema=only).is_valid(own["default"]), (name, option)


OF_POLICIES = pytest.mark.parametrize(("prefix", "registry"), [
    ("allocator", ALLOCATORS), ("scheduler", SCHEDULERS), ("placement", PLACEMENTS),
    ("execution", EXECUTIONS)])


@OF_POLICIES
def test_choices_are_those_that_policies_take(prefix, registry):
    for name in registry:
        for option, own in CHECK.schema["$defs"][f"{prefix}-{name}"]["properties"].items():
            for choice in own.get("enum", ()) if isinstance(own, dict) else ():
                registry.make(name, {option: choice})


@OF_POLICIES
@pytest.mark.parametrize("value", [True, 0, 3, 0.5, "1s", "1MB", "1Gbps", "some"])
def test_values_that_policies_take_fit(prefix, registry, value):
    """Types in docstrings are true. Lists are left out, for which some policies take one value."""
    for name in registry:
        own = {**CHECK.schema["$defs"][f"{prefix}-{name}"], "$defs": CHECK.schema["$defs"]}
        for option, known in own["properties"].items():
            if option != "name" and known.get("type") != "array":
                try:
                    registry.make(name, {option: value})
                except InputError:
                    continue
                assert CHECK.evolve(schema=own).is_valid({option: value}), (name, option)


NUMBERS = st.sampled_from(["1", "+2.5", ".5", "1e3", "3.", "1.5E-3", "-1", "e3", "1,5", "inf", ""])
UNITS = st.sampled_from(["", "s", "ms", "µs", "min", "hours", "B", "kB", "KiB", "kiB", "Gbit",
                         "bps", "GB/s", "Mib/s", "Gb", "TB/S", "x"])


@given(NUMBERS, st.sampled_from(["", " ", "  "]), UNITS)
def test_the_pattern_of_a_quantity_is_what_is_parsed(number, blank, unit):
    for base, parse in (("s", parse_seconds), ("B", parse_bytes), ("B/s", parse_rate)):
        try:
            parse(f"{number}{blank}{unit}")
            parsed = True
        except InputError:
            parsed = False
        assert (re.search(quantity_schema(base)["pattern"], f"{number}{blank}{unit}")
                is not None) == parsed, (base, number, unit)


def test_the_schema_has_names_that_packages_add(monkeypatch):
    """With their options, as those of netsim's own."""
    class Added:
        """What another package adds."""

        def __init__(self, much: int = 3):
            self.much = much

    monkeypatch.setitem(ALLOCATORS.places, "added", Added)
    made = schema()["$defs"]
    assert made["allocator-added"]["properties"]["much"] == {"type": "integer", "default": 3}
    assert "added" in made["AllocatorTable"]["anyOf"][0]["enum"]

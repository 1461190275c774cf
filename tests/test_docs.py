"""The documentation is true: its Python runs, its TOML loads, its commands exist."""

import ast
import doctest
import importlib
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import types
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import pytest

import netsim
from netsim import testing
from netsim.allocators.registry import ALLOCATORS
from netsim.cli.main import main as cli
from netsim.edge.registry import TRANSPORTS
from netsim.engine.registry import EXECUTIONS
from netsim.experiment_file.load import load_experiment
from netsim.jobs.patterns import PATTERNS
from netsim.placements.registry import PLACEMENTS
from netsim.reproductions import REPRODUCTIONS
from netsim.schedulers.registry import SCHEDULERS
from tests.offenders import assert_none, check_each
from tests.pairs import but
from tests.test_imports import FILES, ROOMS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [body for found, body in FENCE.findall(page.read_text()) if found == language]


def called(page):
    return page.relative_to(ROOT).as_posix()


def ids(pages):
    return [called(page) for page in pages]


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]


#: What is smaller by default than on a page, so that it takes seconds: what it says, and what is
#: run. In a process of its own a page runs as it is.
SMALLER = {
    "docs/gallery.md": [("seeds=3", "seeds=1"), ("Points(25, ", "Points(3, "),
                        (', "observe_interval": ["1ms", "10ms", "100ms"]',
                         ', "observe_interval": ["10ms", "100ms"]'),
                        ("range(14)", "range(4)"),
                        *((f'"parrot-60", {policies}',
                           f'netsim.read_workload("parrot-60", seed=1, iterations=1), {policies}')
                          for policies in ('["sebf", "aalo", "fifo"]', 'allocator="sebf"'))],
    "docs/sweeps.md": [("seeds=3", "seeds=2"), ("seeds=2)", "seeds=1)"),
                       ('"observe_interval": ["1ms", "10ms", "100ms"]',
                        '"observe_interval": ["1ms", "100ms"]')],
    "docs/tutorial.md": [("range(1, 5)", "range(1, 2)")],
    "docs/systems/a-online.md": [("servers=20, types", "servers=4, types"),
                                 ("system, jobs=20", "system, jobs=3"),
                                 ("chunks=4, minibatches=58, epochs=30,              #",
                                  "chunks=4, minibatches=58, epochs=3,  #")],
    "docs/train-llama.md": [("llama-65b", "llama-7b"),
                            ('"dp": 16, "global_batch": 128', '"dp": 2, "global_batch": 16'),
                            ("servers=128", "servers=16"), ("gpu_cluster(128", "gpu_cluster(16"),
                            ("leaf=16", "leaf=4"), (' == "1.542 s"', "")],
    "docs/write-an-allocator.md": [
        (f"check_allocator({policy})", f"check_allocator({policy}, examples=12)") for policy in (
            "ByPriority", "LeastAttainedTwice", "OnePartEach()")],
    "docs/write-a-scheduler.md": [("examples=20", "examples=5"),
                                  ("check_scheduler(LeastWorkFirst())",
                                   "check_scheduler(LeastWorkFirst(), examples=8)"),
                                  ('placement="least-loaded")',
                                   'placement="least-loaded", examples=8)')],
    "docs/notebooks/link-speed-and-observation.ipynb": [("range(1, 4)", "range(1, 2)")],
    "docs/notebooks/your-own-allocator.ipynb": [
        ("check_allocator(LeastAttainedFirst())",
         "check_allocator(LeastAttainedFirst(), examples=12)")],
}


def made_smaller(page, code):
    """Return the pieces of code of a page, or of a notebook, as the default tier runs them."""
    for says, runs in SMALLER.get(called(page), []):
        assert any(says in body for body in code), f"{called(page)} does not say {says}"
        code = [body.replace(says, runs) for body in code]
    return code


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """Let code run as `__main__` in an empty folder, and leave nothing of it behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setitem(sys.modules, "__main__", main := types.ModuleType("__main__"))
    before = {*sys.modules}
    yield vars(main)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.filterwarnings("ignore:.* is compiled again in each process")  # no file here
@pytest.mark.parametrize("page", WITH_PYTHON, ids=ids(WITH_PYTHON))
def test_python(page, reader):
    """A page's blocks run one after the other, as a reader would type them."""
    for number, body in enumerate(made_smaller(page, blocks(page, "python")), 1):
        exec(compile(body, f"block {number}", "exec"), reader)


#: Runs pieces of code one after the other; a warning is an error, but for those of imports.
TYPED = """
import json, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", ".* is compiled again in each process")  # no file here
for number, body in enumerate(json.load(sys.stdin), 1):
    exec(compile(body, f"block {number}", "exec"), globals())
"""


@pytest.mark.parametrize("page", but(WITH_PYTHON, ROOT / "README.md", slow=[
    ROOT / "docs" / f"{page}.md" for page in (
        "gallery", "sweeps", "systems/a-online", "train-llama", "tutorial")]), ids=ids(WITH_PYTHON))
def test_python_in_a_new_process(page, tmp_path):
    """In one that had loaded some parts of netsim before, a block finds what is not there yet."""
    done = subprocess.run([sys.executable, "-c", TYPED], input=json.dumps(blocks(page, "python")),
                          capture_output=True, text=True, cwd=tmp_path, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"})
    assert done.returncode == 0, done.stderr


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=ids(NOTEBOOKS))
def test_notebooks(path, reader):
    """Cell after cell, as a reader would run them; what they show is there, without an error."""
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells
    for body in made_smaller(path, ["".join(line for line in cell["source"]
                                            if not line.startswith("%")) for cell in cells]):
        exec(compile(body, path.name, "exec"), reader)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)


def test_there_is_one_version():
    assert f"version: {netsim.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{netsim.__version__}}}\n" in (ROOT / "docs" / "cite.md").read_text()


@pytest.mark.parametrize("paper", ["parrot", "sjf-bco", "a-srpt", "a-online"])
def test_a_paper_is_cited_where_its_page_is(paper):
    """Its title is the same on its page, in the citation and on the page on citing."""
    page = " ".join((ROOT / "docs" / "systems" / f"{paper}.md").read_text()[:600].split())
    (title,) = re.findall(r"\*([A-Z][^*]{40,})\*", page)[:1]
    for file in ("CITATION.cff", "docs/cite.md"):
        assert title in " ".join((ROOT / file).read_text().split())


@cache
def api():
    """The pages of the reference, in the order of its contents, one after the other."""
    contents = re.findall(r"^api/\w+$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    return "\n".join((ROOT / "docs" / f"{page}.md").read_text() for page in contents)


@cache
def reference():
    """The names of the reference, after ``netsim.``."""
    return re.findall(r"auto(?:class|function):: netsim\.([\w.]+)\n", api())


def test_the_reference_has_all_of_it():
    """Every public name stands in the API reference once, and nothing else but from further in."""
    public = set(netsim.__all__) - {"__version__", "ALLOCATORS", "PATTERNS"}
    inside = {name for name in reference() if "." in name and not name.startswith("testing.")}
    assert sorted(reference()) == sorted(
        public | {f"testing.{name}" for name in testing.__all__} | inside)
    for name in inside:
        place, _, part = name.rpartition(".")
        module = importlib.import_module(f"netsim.{place}")
        assert part in getattr(module, "__all__", vars(module)), name
        assert not part.startswith("_"), name


def test_the_reference_goes_room_by_room():
    """Its pages are in the order of the tree, and each name is on the page of its room."""
    parts = re.split(r"^In `netsim/(\w+)(?:/|\.py)`", api(), flags=re.MULTILINE)[1:]
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    assert list(sections) == [room for room in ROOMS if room in sections]
    for room, text in sections.items():
        for name in re.findall(r":: netsim\.([\w.]+)\n", text):
            inside = getattr(getattr(netsim, name, None), "__module__", f"netsim.{name}")
            assert inside.split(".")[1] == room, name


def test_the_reference_has_the_functions_that_draw():
    """Those of the table of the page on pictures."""
    page = (ROOT / "docs" / "pictures.md").read_text()
    table = page.partition("## Functions\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.*\)`.*) \| `(\w+)` \|$", table, re.MULTILINE)
    named = [f"plots.{module}.{name}" for functions, module in rows
             for name in re.findall(r"`(\w+)\(", functions)]
    assert len(named) > 20
    assert {*named} <= {*reference()}


def test_the_reference_has_an_entry_per_attribute(tmp_path):
    """Also those of ``src, dst : int``: Sphinx itself would take ``src,`` for the type of `dst`."""
    pytest.importorskip("sphinx")
    pytest.importorskip("latex2mathml")
    (tmp_path / "index.rst").write_text(".. autoclass:: netsim.Flow\n")
    subprocess.run([sys.executable, "-m", "sphinx", "-q", "-b", "text", "-c", ROOT / "docs",
                    "-D", "extensions=sphinx.ext.autodoc,sphinx.ext.napoleon",
                    tmp_path, tmp_path / "built"], check=True)
    entries = re.findall(r"\* \*\*(\w+)\*\* \(\*(\w+)\*\)",
                         (tmp_path / "built" / "index.txt").read_text())
    assert entries == [("src", "int"), ("dst", "int"), ("nbytes", "quantity")]


def imported_on(page):
    """Yield the modules from which the code on a page imports, each with what it imports."""
    for body in blocks(page, "python"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("netsim."):
                yield from ((node.module, alias.name) for alias in node.names)


def test_the_reference_has_what_pages_import():
    """Functions and classes; constants and modules are for their page to explain."""
    assert_none(f"{called(page)}: {module}.{name}" for page in PAGES
                for module, name in imported_on(page)
                if callable(getattr(importlib.import_module(module), name))
                and f"{module}.{name}".removeprefix("netsim.") not in reference())


def test_toml(tmp_path):
    def loads(given):
        _, body = given
        (tmp_path / "mine.toml").write_text(body)
        assert load_experiment(tmp_path / "mine.toml").target is not None

    check_each(loads, [(page, body) for page in PAGES for body in blocks(page, "toml")],
               lambda given: f"{called(given[0])}, {given[1].splitlines()[0]!r}")


def unknown_words(words):
    """Yield the commands and options among the words of a line that netsim does not have."""
    command = cli
    for word in words[1:]:
        if word.startswith("--"):
            if not any(word in (*option.opts, *option.secondary_opts) for option in command.params):
                yield word
        elif hasattr(command, "commands"):
            if word not in command.commands:
                yield word
                return
            command = command.commands[word]


def test_commands_and_their_options_exist():
    lines = [(page, line) for page in PAGES
             for line in "".join(blocks(page, "console")).replace("\\\n", "").splitlines()]
    assert_none(f"{called(page)}: {word} in {line}" for page, line in lines
                if (words := shlex.split(line, comments=True)) and words[0] == "netsim"
                for word in unknown_words(words))


def test_links_lead_somewhere():
    assert_none(f"{called(page)}: {target}" for page in PAGES
                for target in re.findall(r"\]\(([^)#]+)\)", page.read_text())
                if not target.startswith("http") and not (page.parent / target).exists())


def test_paths_exist():
    """What a page says stands in a file does stand there: `netsim/...`, `tests/...`, and so on."""
    named = re.compile(r"`((?:netsim|topologies|workloads|docs|tests)/[^` *]*)`")
    assert_none(f"{called(page)}: {path}" for page in PAGES
                for path in named.findall(page.read_text()) if not (ROOT / path).exists())


def test_the_table_of_policies_names_their_files():
    """Each in the folder that its section names."""
    page = (ROOT / "docs" / "policies.md").read_text()
    named = [Path(folder[1], name) for section in page.split("\n## ")[1:]
             if (folder := re.search(r"are in `(netsim/\w+)/`", section))
             for name in re.findall(r"`(\w+\.py)` \|$", section, re.MULTILINE)]
    assert len(named) > 40
    assert_none(path for path in named if not (ROOT / path).exists())


#: Those of reproductions, and of the sweep of a page.
OF_SEEDS = (*REPRODUCTIONS, "tutorial")


def figures(page):
    """Yield the names of a page's figures, each with the paragraph below it."""
    parts = page.read_text().split("\n\n")
    for figure, below in zip(parts, [*parts[1:], ""], strict=True):
        name = re.fullmatch(r"!\[[^]]*\]\((?:[^)]*/)?img/([\w-]+)\.(?:png|svg)\)", figure.strip())
        if name:
            yield name[1], below


def test_figures_say_what_their_whiskers_are():
    """In brackets below, as do those of several seeds that have none."""
    assert_none(f"{called(page)}: {name}" for page in PAGES for name, below in figures(page)
                if name in OF_SEEDS
                and not (below.startswith("(") and "whiskers" in below.lower()))


def test_the_tree_lists_the_rooms_in_order():
    """The page that says where things are lists every room, and each folder of tests besides."""
    page = (ROOT / "docs" / "developers" / "where.md").read_text()
    tree = page.partition("```text\n")[2].partition("```")[0]
    assert tuple(re.findall(r"^  (\w+)(?:/|\.py) ", tree, re.MULTILINE)) == ROOMS
    others = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {*ROOMS}
    table = page.partition("## The tests\n")[2].partition("\n|")[2]
    assert others - {"__pycache__"} == set(re.findall(r"^\| `tests/(\w+)/`", table, re.MULTILINE))


def test_the_picture_shows_the_rooms():
    """Every room is a box of the picture; the small modules at the bottom are one."""
    picture = (ROOT / "docs" / "img" / "rooms.svg").read_text()
    shown = set(re.findall(r">(\w+)(?: [\d,]+)?</text>", picture))
    folders = {room for room in ROOMS if (ROOT / "netsim" / room).is_dir()}
    assert folders <= shown, "run: python docs/developers/rooms.py"


def page_of_the_fabric():
    return (ROOT / "docs" / "developers" / "fabric.md").read_text()


def kinds_of_rows():
    """Yield the record types of the fabric: the name, the columns, the comment above, and theirs.

    The comment of a column is on its line, or above that.
    """
    for path in sorted((ROOT / "netsim" / "fabric").rglob("*.py")):
        dotted = path.relative_to(ROOT).as_posix().removesuffix(".py").replace("/", ".")
        module = importlib.import_module(dotted.removesuffix(".__init__"))
        for comment, name, rows in re.findall(
                r"((?:^#:.*\n)*)^(\w+) = row_type\(((?:.*\n)*?.*)\]\)", path.read_text(),
                re.MULTILINE):
            beside = re.findall(r'\("(\w+)", "\w+"\),  # \S', rows)
            above = re.findall(r'^ +# .*\n +\("(\w+)", ', rows, re.MULTILINE)
            yield f"{path.name}: {name}", getattr(module, name).names, comment, beside + above


def test_comments_explain_all_columns_of_rows():
    """But those that have the names of `FabricView`, which the reference explains."""
    found = [kind for kind in kinds_of_rows() if "FabricView" not in kind[2]]
    assert len(found) > 20
    assert_none([f"{name}.{column}" for name, columns, comment, own in found for column in columns
                 if column not in {*own, *re.findall(r"\w+", comment)}])


def test_the_page_of_the_fabric_names_all_files():
    """In its last tables; those of an engine as `engine_*.py`."""
    tables = page_of_the_fabric().partition("## Which file")[2].partition("\n## ")[0]
    named = re.findall(r"`([\w*]+\.py)`", tables)
    fabric = ROOT / "netsim" / "fabric"
    files = [path.name for path in (*fabric.glob("*.py"), *fabric.glob("kernels/*.py"))
             if path.name != "__init__.py"]
    for file in files:
        assert any(fnmatch(file, pattern) for pattern in named), file
    for pattern in named:
        assert any(fnmatch(file, pattern) for file in files), pattern


def glossary():
    return (ROOT / "docs" / "glossary.md").read_text()


def in_the_glossary():
    """What the glossary says that things are called in netsim."""
    lines = re.findall(r"^- netsim: (.*)$", glossary(), re.MULTILINE)
    return sorted({name for line in lines for name in re.findall(r"`([^`]+)`", line)})


BY_NAME = {"allocator": [ALLOCATORS], "scheduler": [SCHEDULERS],
           "placement": [PLACEMENTS], "execution": [EXECUTIONS], "pattern": [PATTERNS],
           "transport": [TRANSPORTS]}


def resolved(name):
    """Return what a dotted name stands for, from `netsim` on or from a class of the reference."""
    first, *others = name.removeprefix("netsim.").split(".")
    if hasattr(netsim, first):
        found = getattr(netsim, first)
    else:
        (place,) = [each for each in reference() if each.endswith(f".{first}")]
        found = getattr(importlib.import_module(f"netsim.{place.rpartition('.')[0]}"), first)
    for part in others:
        if inspect.ismodule(found) and not hasattr(found, part):
            found = importlib.import_module(f"{found.__name__}.{part}")
        elif inspect.isclass(found) and not hasattr(found, part):
            assert part in inspect.signature(found).parameters, name
        else:
            found = getattr(found, part)
    return found


@pytest.fixture(scope="session")
def columns():
    """The columns of all tables of results, and the keys of summaries."""
    ring = netsim.JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6)
    system = netsim.draw_edge_cloud(servers=2, seed=0)
    runs = [netsim.simulate("parrot-fig2", "parrot-fig2", record=("coflows", "flows", "links",
                                                                  "decisions")),
            netsim.simulate(netsim.Cluster(servers=2, gpus=1), [ring]),
            netsim.simulate(system, netsim.draw_edge_jobs(2, servers=2, seed=0))]
    found = {"summary()": set()}
    for run in runs:
        found["summary()"] |= run.summary().keys()
        for name in run.recorded:
            found.setdefault(name, set()).update(getattr(run, name).columns)
    return found


def test_the_reference_of_results_names_all_columns(columns):
    entries = dict(re.findall(r"^(\w+) : .*\n((?:(?: .*)?(?:\n|\Z))+)",
                              inspect.getdoc(netsim.Result), re.MULTILINE))
    for table in columns.keys() - {"summary()"}:
        assert columns[table] <= set(re.findall(r"\w+", entries[table])), table


def test_names_of_the_glossary_exist(columns):
    check_each(lambda name: named_somewhere(name, columns), in_the_glossary())


def named_somewhere(name, columns):
    """Check that a name is that of a column, of a policy, of an option or of something else."""
    if column := re.fullmatch(r"([\w()]+)\[\"(\w+)\"\]", name):
        assert column[2] in columns[column[1]]
    elif policy := re.fullmatch(r"(\w+)=\"([\w-]+)\"", name):
        assert any(policy[2] in registry for registry in BY_NAME[policy[1]])
    elif option := re.fullmatch(r"([\w.]+)\((\w+)=\)", name):
        assert option[2] in inspect.signature(resolved(option[1])).parameters
    else:
        resolved(name)


def test_dotted_names_exist():
    """What a page calls by its whole name is there: `netsim.ties.rank`."""
    check_each(lambda given: resolved(given[1]), [
        (called(page), name) for page in PAGES
        for name in re.findall(r"`(netsim(?:\.\w+)+)", page.read_text())], ": ".join)


def test_the_glossary_is_in_order():
    terms = re.findall(r"^## (.*)$", glossary(), re.MULTILINE)
    assert terms == sorted(terms, key=str.casefold)
    assert len(terms) == len(re.findall(r"^- netsim: ", glossary(), re.MULTILINE))


def test_docstring_examples():
    """What differs is in the output of this test."""
    names = [name for name, path in FILES.items() if ">>>" in path.read_text()]
    assert len(names) > 50
    assert_none(name for name in names if doctest.testmod(importlib.import_module(name)).failed)

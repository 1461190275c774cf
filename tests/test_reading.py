"""Every file is read through `netsim.base.files`: what may be opened, and what text is."""

import ast
import codecs
import gzip
import os
import shutil
import socket
from pathlib import Path

import networkx as nx
import pytest

import netsim
from netsim.base import reading
from netsim.base.files import confined, open_text, read_bytes, read_text, refusal
from netsim.edge.files import read_edge_cloud, read_edge_jobs
from netsim.errors import InputError, NetsimError, SpecError, TraceError
from netsim.experiment_file.load import load_experiment
from netsim.studies.comparison import load_comparison, load_folder

PACKAGE = Path(netsim.__file__).parent
WORKLOADS = PACKAGE.parent / "workloads"
CLUSTER = Path(__file__).parent / "traces" / "cluster"

NETWORK = 'kind = "big-switch"\nhosts = 3\n'
INSTANCE = """{"hosts": 3, "port_capacity_bytes_per_s": 1e6,
    "coflows": [{"id": 0, "arrival_s": 0, "flows": [{"src": 0, "dst": 1, "bytes": 5}]}]}"""
EDGE_CLOUD = 'kind = "edge-listed"\nworkers = [["gpu"], ["gpu"]]\n'
EDGE_JOBS = 'format = "edge-listed"\n[[jobs]]\ncompute_s = 1\nworker_type = "gpu"\n'
EXPERIMENT = """\
record = ["jobs", "coflows", "links"]
[network]
name = "parrot-fig2"
[workload]
name = "parrot-fig2"
"""


def network(net):
    return net.hosts, net.link_names, net.capacity.tolist()


def workload(found):
    return [(job.id, job.arrival_s, job.iterations, job.ranks, job.nbytes, job.name, job.group,
             repr(job.pattern), repr(job.model)) for job in found]


def write_graph(folder, suffix):
    graph = nx.Graph()
    graph.add_node("a", host=True)
    graph.add_node("b", host=True)
    graph.add_edge("a", "b", capacity=1e6)
    write = {"graphml": nx.write_graphml, "gml": nx.write_gml}
    if suffix == "json":
        (folder / "g.json").write_text(
            '{"nodes": [{"id": "a", "host": true}, {"id": "b", "host": true}],'
            ' "links": [{"source": "a", "target": "b", "capacity": 1e6}]}')
    else:
        write[suffix](graph, folder / f"g.{suffix}")


def write_trace(folder, *names):
    for name in names:
        source = CLUSTER / name
        for each in ([source] if source.is_file() else source.iterdir()):
            shutil.copy(each, folder)


def text(name, content):
    return lambda folder: (folder / name).write_text(content)


def graph(suffix):
    return lambda folder: write_graph(folder, suffix)


def trace(*names):
    return lambda folder: write_trace(folder, *names)


def of_workloads(name):
    return lambda folder: shutil.copy(WORKLOADS / name, folder)


def run_saved(folder):
    (folder / "e.toml").write_text(EXPERIMENT)
    netsim.run(folder / "e.toml").save(folder / "run")


def compared(folder):
    netsim.compare("parrot-fig2", "parrot-fig2", ["parrot", "lccf"], baseline="parrot"
                   ).save(folder / "compared")


def swept(folder):
    netsim.sweep("parrot-fig2", "parrot-fig2", seed=[1, 2], folder=folder / "swept")


def read(name, **options):
    return lambda folder: workload(netsim.read_workload(folder / name, **options))


def tables(result):
    return [getattr(result, name).to_csv() for name in result.recorded]


#: Format -> what writes files of it to a folder, what reads them, and which of them is read first.
FORMATS = {
    "experiment": (text("e.toml", EXPERIMENT), lambda folder: load_experiment(
        folder / "e.toml").resolved(), "e.toml"),
    "network": (text("n.toml", NETWORK), lambda folder: network(netsim.read_network(
        folder / "n.toml")), "n.toml"),
    "network of an experiment": (text("n.toml", NETWORK), lambda folder: netsim.Experiment(
        network={"file": str(folder / "n.toml")}, workload={"name": "parrot-fig2"}
        ).resolved()["network"], "n.toml"),
    "graphml": (graph("graphml"), lambda folder: network(netsim.read_network(
        folder / "g.graphml")), "g.graphml"),
    "gml": (graph("gml"), lambda folder: network(netsim.read_network(folder / "g.gml")), "g.gml"),
    "node-link": (graph("json"), lambda folder: network(netsim.read_network(
        folder / "g.json")), "g.json"),
    "network of an instance": (text("i.json", INSTANCE), lambda folder: network(
        netsim.read_network(folder / "i.json")), "i.json"),
    "edge-cloud": (text("c.toml", EDGE_CLOUD), lambda folder: read_edge_cloud(
        folder / "c.toml").workers, "c.toml"),
    "edge-jobs": (text("j.toml", EDGE_JOBS), lambda folder: [
        job.worker_type for job in read_edge_jobs(folder / "j.toml")], "j.toml"),
    "workload": (text("w.toml", 'format = "synthetic"\njobs = 3\n'), read("w.toml"), "w.toml"),
    "json": (text("i.json", INSTANCE), read("i.json"), "i.json"),
    "coflow-benchmark": (of_workloads("coflow-sample.txt"), read("coflow-sample.txt"),
                         "coflow-sample.txt"),
    "tiresias": (of_workloads("tiresias-sample.csv"), read("tiresias-sample.csv"),
                 "tiresias-sample.csv"),
    "tiresias-cluster": (of_workloads("tiresias-sample.csv"), read(
        "tiresias-sample.csv", format="tiresias-cluster", train=0), "tiresias-sample.csv"),
    "helios": (of_workloads("helios-sample.csv"), read(
        "helios-sample.csv", format="helios", train=0), "helios-sample.csv"),
    "acme": (trace("acme.csv"), read("acme.csv", format="acme", train=0), "acme.csv"),
    "swf": (trace("jobs.swf"), read("jobs.swf", train=0), "jobs.swf"),
    "pai": (trace("pai"), read("pai_job_table.csv", format="pai", train=0), "pai_job_table.csv"),
    "pai's header": (trace("pai"), read("pai_job_table.csv", format="pai", train=0),
                     "pai_job_table.header"),
    "pai-100k": (trace("pai100k.csv"), read("pai100k.csv", format="pai-100k", train=0),
                 "pai100k.csv"),
    "philly": (trace("philly.json"), read("philly.json", format="philly", train=0), "philly.json"),
    "gpu-v2023": (trace("pods.csv"), read("pods.csv", format="gpu-v2023", train=0), "pods.csv"),
    "result": (run_saved, lambda folder: tables(netsim.load_result(folder / "run")),
               "run/summary.json"),
    "table of a result": (run_saved, lambda folder: tables(netsim.load_result(folder / "run")),
                          "run/coflows.csv"),
    "spec of a result": (run_saved, lambda folder: netsim.load_result(folder / "run").spec,
                         "run/spec.toml"),
    "comparison": (compared, lambda folder: load_comparison(
        folder / "compared").table.to_csv(), "compared/comparison.csv"),
    "sweep": (swept, lambda folder: load_folder(
        folder / "swept").table.to_csv(), "swept/sweep.json"),
}


@pytest.fixture(params=FORMATS)
def format(request, tmp_path):
    write, reader, first = FORMATS[request.param]
    write(tmp_path)
    return tmp_path, reader, tmp_path / first


def test_a_byte_order_mark_changes_nothing(format):
    folder, reader, path = format
    without = reader(folder)
    path.write_bytes(codecs.BOM_UTF8 + path.read_bytes())
    assert reader(folder) == without


def test_gzip_changes_nothing(format):
    folder, reader, path = format
    without = reader(folder)
    path.write_bytes(gzip.compress(codecs.BOM_UTF8 + path.read_bytes(), mtime=0))
    assert reader(folder) == without


@pytest.mark.parametrize(("name", "content", "options"), [
    ("x.cm", "Nodes 2\nConnections 1\n0->1 start 0 size 8\n", {}),
    ("flows.csv", "src,dst,bytes\n0,1,8\n", {}),
    ("w.toml", 'format = "synthetic"\njobs = 3\n', {}),
    ("i.json", INSTANCE, {"format": "json"}),
    *((name, (WORKLOADS / name).read_text(), {}) for name in ("coflow-sample.txt",
                                                              "tiresias-sample.csv")),
    ("jobs.swf", (CLUSTER / "jobs.swf").read_text(), {"train": 0}),
])
def test_gzip_does_not_change_the_name_of_a_workload(tmp_path, name, content, options):
    plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
    plain.write_text(content)
    packed.write_bytes(gzip.compress(content.encode(), mtime=0))
    found = netsim.read_workload(plain, **options)
    assert found.name == plain.stem
    assert workload(netsim.read_workload(packed, **options)) == workload(found)
    assert netsim.read_workload(packed, **options).name == found.name


def test_gzip_does_not_change_the_name_of_jobs_of_an_edge_cloud(tmp_path):
    packed = tmp_path / "j.toml.gz"
    packed.write_bytes(gzip.compress(EDGE_JOBS.encode(), mtime=0))
    assert read_edge_jobs(packed).name == "j"


def test_a_named_pipe_is_refused_and_not_waited_for(format):
    folder, reader, path = format
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(NetsimError, match="named pipe"):
        reader(folder)


def test_a_device_is_refused(format):
    folder, reader, path = format
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(NetsimError, match="device"):
        reader(folder)


def test_what_is_outside_is_refused_where_reading_is_confined(format, tmp_path_factory):
    folder, reader, _ = format
    with confined(folder):
        reader(folder)
    with confined(tmp_path_factory.mktemp("other")), pytest.raises(NetsimError, match="leads out"):
        reader(folder)


def test_a_socket_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
        with pytest.raises(OSError, match="a socket"):
            read_bytes("s")


def test_text_is_utf_8_with_any_line_ends(tmp_path):
    path = tmp_path / "t"
    path.write_bytes(codecs.BOM_UTF8 + "ä\r\nb\rc\n".encode())
    assert read_text(path) == "ä\nb\nc\n"
    with open_text(path, newline="") as file:
        assert file.read() == "ä\r\nb\rc\n"
    path.write_bytes(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        read_text(path)


@pytest.mark.parametrize(("data", "line"), [
    (b"\xff", 1), (b"a\r\nb\xff", 2), (b"a\rb\r\xff", 3), (b"\n" * 20_000 + b"\xff", 20_001)])
def test_the_line_of_what_is_not_utf_8_is_named(tmp_path, data, line):
    """Also of files read in blocks, of which the decoder knows only the place in a block."""
    path = tmp_path / "t"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=f"t:{line}: byte 0xff is not UTF-8"):
        reading.read_text(path)
    with pytest.raises(TraceError, match=f"t:{line}: byte 0xff is not UTF-8"), (
            reading.locating(path)), open_text(path) as file:
        list(file)


def test_a_path_with_a_nul_cannot_be_opened():
    with pytest.raises(OSError, match="null byte"):
        read_text("a\0b")


def test_reading_is_confined_to_folders_and_files(tmp_path):
    inside, outside, other = tmp_path / "in", tmp_path / "out", tmp_path / "in-other"
    for folder in (inside, outside, other):
        folder.mkdir()
        (folder / "f").write_text("text")
    (inside / "link").symlink_to(outside / "f")
    with confined(inside, files=[outside / "f"]):
        assert read_text(inside / "f") == read_text(outside / "f") == "text"
        assert read_text(inside / "link") == "text"
        assert refusal(other / "f") is not None
        with confined(outside), pytest.raises(PermissionError, match="leads out"):
            read_text(other / "f")  # within both
        with confined(other), pytest.raises(PermissionError, match="leads out"):
            read_text(other / "f")
    with confined(inside):
        for path in (inside / "link", inside / ".." / "out" / "f", "/etc/passwd", "a\0b"):
            with pytest.raises(OSError, match="leads out"):
                read_text(path)
        assert "parrot-60" in netsim.traces.ready_made()  # what netsim brings along
    assert refusal(outside / "f") is None


def test_nothing_is_told_of_what_is_outside(tmp_path):
    """Neither whether there is such a file, nor what is in a folder."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "f").write_text("text")
    for path, told in ((inside, "is a folder, .* such as f$"), (inside / "none", "no such file$")):
        with confined(inside), pytest.raises(TraceError, match=told):
            reading.read_text(path)
    for path in (outside, outside / "f", outside / "none"):
        with confined(inside), pytest.raises(TraceError, match=r"leads out of [\w, -]*$"):
            reading.read_text(path)


# --- what others name ----------------------------------------------------------------------

SECRET = "the first line of what is elsewhere"


@pytest.fixture
def given(tmp_path):
    """A folder of somebody else's, and beside it a file that is none of their business."""
    folder = tmp_path / "given"
    folder.mkdir()
    for name in ("secret.txt", "secret.json", "secret.csv", "secret.toml", "secret.gml"):
        (tmp_path / name).write_text(SECRET)
    return folder


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize(("table", "description"), [
    ("workload", 'format = "coflow-benchmark"\nfile = "../secret.txt"'),
    ("workload", 'format = "json"\nfile = "../secret.json"'),
    ("workload", 'format = "tiresias"\nfile = "../secret.csv"'),
    ("workload", 'format = "philly"\nfile = "../secret.json"'),
    ("workload", 'format = "helios"\nfile = "../secret.csv"'),
    ("workload", 'format = "pai"\nfile = "../secret.csv"'),
    ("network", 'kind = "graph"\nfile = "../secret.json"'),
    ("network", 'kind = "graph"\nfile = "../secret.gml"'),
])
def test_no_file_elsewhere_is_opened_without_plugins(given, table, description, mark):
    """What a description names is refused however the description is written."""
    (given / "d.toml").write_bytes(mark + description.encode())
    tables = {"network": 'name = "parrot-fig2"', "workload": 'name = "parrot-fig2"',
              table: 'file = "d.toml"'}
    (given / "e.toml").write_text("".join(
        f"[{name}]\n{content}\n" for name, content in tables.items()))
    with pytest.raises(SpecError, match=rf"{table}\.file: .*leads out of the folder") as caught:
        load_experiment(given / "e.toml", plugins=False)
    assert SECRET not in str(caught.value)


def test_what_the_user_names_may_name_others(given):
    """Of a description that the user vouches for, what it names is read, too; no more is."""
    mine = given.parent / "mine"
    mine.mkdir()
    (mine / "w.toml").write_text('format = "json"\nfile = "data/i.json"\n')
    (mine / "data").mkdir()
    (mine / "data" / "i.json").write_text(INSTANCE)
    (given / "e.toml").write_text(EXPERIMENT)
    loaded = load_experiment(given / "e.toml", [f"workload.file={mine / 'w.toml'}"],
                             plugins=False)
    assert len(loaded.workload.built) == 1
    (given / "n.toml").write_text(f'kind = "graph"\nfile = "{mine}/data/g.json"\n')
    write_graph(mine / "data", "json")
    (given / "e.toml").write_text(EXPERIMENT.replace('name = "parrot-fig2"', 'file = "n.toml"', 1))
    with pytest.raises(SpecError, match="leads out"):
        load_experiment(given / "e.toml", [f"workload.file={mine / 'w.toml'}"], plugins=False)


def test_files_beside_a_trace_are_the_traces(given):
    """A header beside the table of a trace may be a link to what is elsewhere."""
    shutil.copytree(CLUSTER / "pai", given / "pai")
    header = given / "pai" / "pai_task_table.header"
    header.symlink_to(given.parent / "secret.txt")
    (given / "e.toml").write_text('execution = "asrpt"\n[cluster]\nservers = 2\n[workload]\n'
                                  'format = "pai"\ntrain = 0\nfile = "pai/pai_job_table.csv"\n')
    with pytest.raises(SpecError, match="leads out") as caught:
        load_experiment(given / "e.toml", plugins=False)
    assert SECRET not in str(caught.value)


# --- nothing else opens files --------------------------------------------------------------

#: What reads a file by its path, wherever it is defined.
_METHODS = {"read_text", "read_bytes"}
_FUNCTIONS = {"read_csv", "read_json", "read_table", "read_parquet", "read_pickle", "read_excel",
              "read_graphml", "read_gml", "loadtxt", "genfromtxt", "fromfile", "memmap"}
_MODULES = {"gzip", "bz2", "lzma", "fileinput", "zipfile", "tarfile", "linecache"}


def opened(path):
    """Lines of a module that open files to read them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            if {*names, getattr(node, "module", None)} & _MODULES:
                yield node.lineno
        if not isinstance(node, ast.Call):
            continue
        function, name = node.func, ""
        if isinstance(function, ast.Attribute):
            name = function.attr
            if name in _METHODS:
                yield node.lineno
        elif isinstance(function, ast.Name):
            name = function.id
        modes = [each.value for each in (*node.args, *(word.value for word in node.keywords))
                 if isinstance(each, ast.Constant)]
        if name == "open" and not any(mode in ("w", "wb") for mode in modes):
            yield node.lineno
        if name in _FUNCTIONS and isinstance(function, ast.Attribute) and not (
                node.args and isinstance(node.args[0], ast.Name) and node.args[0].id == "file"):
            yield node.lineno  # "file": what `open_text` has opened


def test_nothing_else_opens_files():
    found = [path.relative_to(PACKAGE).as_posix() for path in sorted(PACKAGE.rglob("*.py"))
             if path != PACKAGE / "base" / "files.py" for _ in opened(path)]
    # The cache of kernels, the code of a rule, a temporary file that has no path, and an archive in
    # memory.
    assert found == ["base/compiling.py", "fabric/rule_code.py",
                     "reproductions/accuracy_m3.py", "results/lazy_table.py"]


@pytest.mark.parametrize(("line", "opens"), [
    ("open(path)", True), ("open(path, 'rb')", True), ("path.open()", True),
    ("io.open(path)", True), ("path.read_text()", True), ("pd.read_csv(path)", True),
    ("import gzip", True), ("from gzip import open", True), ("np.loadtxt(path)", True),
    ("path.open('w')", False), ("open(path, mode='w')", False), ("pd.read_csv(file)", False),
    ("read_text(path)", False), ("path.write_text(text)", False)])
def test_what_counts_as_opening(tmp_path, line, opens):
    (tmp_path / "m.py").write_text(line)
    assert bool(list(opened(tmp_path / "m.py"))) == opens


def test_the_same_error_names_a_missing_file(format):
    folder, reader, path = format
    if path.suffix == ".header" or path.name == "spec.toml":
        return  # may be missing
    path.unlink()
    with pytest.raises(InputError, match=path.name):
        reader(folder)

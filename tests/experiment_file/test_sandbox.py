"""Experiments that nobody vouches for: they load no code, and read no files elsewhere."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import netsim
from netsim.errors import SpecError
from netsim.experiment_file.load import Draft, code_named, prepare
from netsim.studies.grid import runs_of_experiment

FIG2 = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}
HERE = """\
[network]
name = "parrot-fig2"
[workload]
"""
CLUSTER = Path(__file__).parents[1] / "traces" / "cluster"


@pytest.mark.parametrize(("keys", "place"), [
    ({"allocator": "evil:P"}, "allocator: 'evil:P'"),
    ({"allocator": {"name": "evil:P:a=1"}}, "allocator.name: 'evil:P:a=1'"),
    ({"scheduler": {"name": "spjf", "predictor": {"name": "evil:P"}}},
     "scheduler.predictor.name: 'evil:P'"),
    ({"scheduler": r'spjf:predictor="evil\u003aP"'},
     r"""scheduler: 'spjf:predictor="evil\\u003aP"'"""),
    ({"placement": "evil:P"}, "placement: 'evil:P'"),
    ({"execution": {"name": "fabric", "degradation": {"name": "evil:f"}}},
     "execution.degradation.name: 'evil:f'"),
    ({"transport": "evil:P"}, "transport: 'evil:P'"),
    ({"compare": {"allocators": ["parrot", "evil:P"]}}, "compare.allocators.1: 'evil:P'"),
    ({"compare": {"schedulers": [{"name": "evil:P"}]}}, "compare.schedulers.0.name: 'evil:P'"),
    ({"compare": {"baseline": "evil:P"}}, "compare.baseline: 'evil:P'"),
    ({"network": {"kind": "evil:net"}}, "network.kind: 'evil:net'"),
    ({"workload": {"file": "w.dat", "format": "evil:read"}}, "workload.format: 'evil:read'"),
    ({"workload": {"format": "edge-trace", "trace": "evil:read"}}, "workload.trace: 'evil:read'"),
    ({"workload": {"format": "synthetic", "pattern": "evil:P"}}, "workload.pattern: 'evil:P'"),
    ({"workload": {"format": "synthetic", "pattern": {"name": "evil:P"}}},
     "workload.pattern.name: 'evil:P'"),
    ({"edge_cloud": {"kind": "evil:cloud"}}, "edge_cloud.kind: 'evil:cloud'"),
    ({"sweep": {"vary": {"workload.pattern": ["evil:P"]}}},
     "sweep.vary.workload.pattern.0: 'evil:P'"),
    ({"sweep": {"vary": {"workload.pattern": [{"name": "evil:P"}]}}},
     "sweep.vary.workload.pattern.0.name: 'evil:P'"),
    ({"sweep": {"vary": {"workload": [{"format": "evil:read"}]}}},
     "sweep.vary.workload.0.format: 'evil:read'"),
    ({"sweep": {"vary": {"network.kind": ["evil:net"]}}}, "sweep.vary.network.kind.0: 'evil:net'"),
    ({"sweep": {"vary": {"allocator": ["parrot", "evil:P"]}}},
     "sweep.vary.allocator.1: 'evil:P'"),
    ({"sweep": {"vary": {" allocator . name": ["evil:P"]}}},
     "sweep.vary.allocator.name.0: 'evil:P'"),
    ({"sweep": {"vary": {"scheduler": [{"predictor": "evil:P"}]}}},
     "sweep.vary.scheduler.0.predictor: 'evil:P'"),
])
def test_code_is_found_wherever_it_is_named(keys: dict[str, Any], place: str) -> None:
    assert code_named(keys) == [place]
    with pytest.raises(SpecError) as caught:
        Draft(FIG2 | keys, plugins=False).build()
    assert caught.value.problems[0].endswith("names code to load, which is not allowed without "
                                             "plug-ins")


@pytest.mark.parametrize("keys", [
    {"allocator": "aalo:queues=3:thresholds=[1, 2]"}, {"scheduler": "spjf:predictor=mean"},
    {"description": "a: b"}, {"events": [{"link": "up:a->b", "at": 1, "capacity": 1}]},
    {"compare": {"allocators": ["parrot:theta_max=0.6"], "baseline": "parrot:theta_max=0.6"}},
    {"workload": {"file": "C:jobs.csv"}}, {"sweep": {"vary": {"workload.file": ["C:a.csv"]}}}])
def test_other_colons_are_none(keys: dict[str, Any]) -> None:
    assert code_named(keys) == []


def test_without_plugins_nothing_is_loaded(tmp_path, monkeypatch) -> None:
    (tmp_path / "loaded_by_a_file.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "e.toml").write_text('allocator = "loaded_by_a_file:P"\n' + HERE
                                     + 'name = "parrot-fig2"\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match=r"e\.toml:1: allocator\.name: 'loaded_by_a_file:P' name"):
        netsim.load_experiment(tmp_path / "e.toml", plugins=False)
    assert "loaded_by_a_file" not in sys.modules
    with pytest.raises(SpecError, match="SystemExit: loaded"):
        netsim.load_experiment(tmp_path / "e.toml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a workload in it, beside it, and linked from it."""
    folder = tmp_path / "given"
    folder.mkdir()
    sample = Path(__file__).parents[2] / "workloads" / "parrot-fig2.json"
    for path in (folder / "w.json", folder / "sub" / "w.json", tmp_path / "w.json"):
        path.parent.mkdir(exist_ok=True)
        shutil.copy(sample, path)
    (folder / "link.json").symlink_to(tmp_path / "w.json")
    (folder / "inside.json").symlink_to(folder / "sub" / "w.json")
    (folder / "named.toml").write_text('format = "json"\nfile = "../w.json"\n')
    (folder / "right.toml").write_text('format = "json"\nfile = "sub/w.json"\n')
    return folder


@pytest.mark.parametrize(("of", "table", "lines"), [
    ("workload", 'file = "mine.toml"', 'format = "loaded_by_a_file:read"'),
    ("workload", 'file = "mine.toml"', 'format = "synthetic"\npattern = "loaded_by_a_file:P"'),
    ("workload", 'file = "mine.toml"',
     'format = "synthetic"\npattern = {name = "loaded_by_a_file:P"}'),
    ("network", 'file = "mine.toml"', 'kind = "loaded_by_a_file:net"'),
    ("edge_cloud", 'file = "mine.toml"', 'kind = "loaded_by_a_file:cloud"'),
])
def test_what_a_file_names_that_is_read_is_not_loaded_either(tmp_path, monkeypatch, of, table,
                                                            lines) -> None:
    (tmp_path / "loaded_by_a_file.py").write_text("raise SystemExit('loaded')")
    (tmp_path / "mine.toml").write_text(lines)
    tables = {"network": 'name = "parrot-fig2"', "workload": 'name = "parrot-fig2"'} | {of: table}
    (tmp_path / "e.toml").write_text("".join(f"[{name}]\n{text}\n"
                                             for name, text in tables.items()))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match=r"'loaded_by_a_file:.*names code to load, which is not"):
        netsim.load_experiment(tmp_path / "e.toml", plugins=False)
    assert "loaded_by_a_file" not in sys.modules
    with pytest.raises(SpecError, match="SystemExit: loaded"):
        netsim.load_experiment(tmp_path / "e.toml")


def read(folder: Path, *lines: str, plugins: bool) -> Draft:
    (folder / "e.toml").write_text("\n".join((HERE, *lines)))
    draft = Draft.read(folder / "e.toml", plugins=plugins)
    draft.build()
    return draft


@pytest.mark.parametrize("file", ["w.json", "sub/w.json", "sub/../w.json", "inside.json",
                                  "right.toml"])
def test_files_of_the_folder_are_read(folder: Path, file: str) -> None:
    draft = read(folder, f"file = {file!r}", plugins=False)
    assert Path(draft.keys["workload"]["file"]).is_relative_to(folder)


@pytest.mark.parametrize("file", ["../w.json", "sub/../../w.json", "link.json", "named.toml",
                                  "{beside}/w.json", "/etc/passwd", "/", "..", "../none.json"])
def test_files_elsewhere_are_not_read_without_plugins(folder: Path, file: str) -> None:
    file = file.format(beside=folder.parent)
    with pytest.raises(SpecError, match=r"workload\.file: .* leads out of the folder"):
        read(folder, f"file = {file!r}", plugins=False)
    if file.endswith(("w.json", "link.json", "named.toml")):
        read(folder, f"file = {file!r}", plugins=True)


def test_a_path_with_a_nul_leads_nowhere(folder: Path) -> None:
    with pytest.raises(SpecError, match="leads out of the folder"):
        read(folder, r'file = "w\u0000.json"', plugins=False)


@pytest.mark.parametrize("file", ["", "."])
def test_a_file_without_a_name_is_refused(file: str) -> None:
    with pytest.raises(SpecError):
        Draft(FIG2 | {"network": {"file": file}}, plugins=False).build()


def test_tables_beside_a_trace_count(folder: Path) -> None:
    shutil.copytree(CLUSTER / "pai", folder / "pai")
    (folder / "e.toml").write_text(
        'execution = "asrpt"\n[cluster]\nservers = 2\n[workload]\nformat = "pai"\ntrain = 0\n'
        'file = "pai/pai_job_table.csv"\n')
    netsim.load_experiment(folder / "e.toml", plugins=False)
    (folder / "pai" / "pai_task_table.csv").rename(folder.parent / "t.csv")
    (folder / "pai" / "pai_task_table.csv").symlink_to(folder.parent / "t.csv")
    netsim.load_experiment(folder / "e.toml")
    with pytest.raises(SpecError, match="leads out"):
        netsim.load_experiment(folder / "e.toml", plugins=False)


def test_files_to_vary_are_beside_the_experiment(folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder.parent)
    other = (folder / "w.json").read_text().replace("6000000", "7000000")
    (folder / "other.json").write_text(other)
    draft = read(folder, 'name = "parrot-fig2"', "[sweep.vary]",
                 '"workload.file" = ["sub/w.json", "other.json"]', plugins=False)
    cells = runs_of_experiment(*prepare(draft, None, 1))
    assert [cell.varied["workload.file"] for cell in cells] == ["sub/w.json", "other.json"]
    with pytest.raises(SpecError, match=r"sweep\.vary\.workload\.file\.0: '\.\./w\.json' leads"):
        read(folder, 'name = "parrot-fig2"', "[sweep.vary]", '"workload.file" = ["../w.json"]',
             plugins=False)


def test_what_the_command_line_names_is_the_users_own(folder: Path) -> None:
    (folder / "e.toml").write_text(HERE + 'file = "w.json"')
    loaded = netsim.load_experiment(
        folder / "e.toml", [f"workload.file={folder.parent / 'w.json'}"], plugins=False)
    assert loaded.workload.file == str(folder.parent / "w.json")


def test_an_experiment_without_plugins_is_swept_without_them(folder: Path) -> None:
    """What is varied from Python counts as the file does."""
    draft = read(folder, 'name = "parrot-fig2"', plugins=False)
    with pytest.raises(SpecError, match=r"sweep\.vary\.allocator\.1: 'evil:P' names code"):
        netsim.sweep_experiment(draft, {"allocator": ["parrot", "evil:P"]})

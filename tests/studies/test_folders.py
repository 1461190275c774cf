"""Folders of results read back, whatever they are of."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

import netsim
from netsim.errors import InputError
from netsim.results.store import folder_names
from netsim.studies.comparison import KINDS, kind_of_folder, load_comparison, load_folder

LABELS = {"a b": "parrot", "a (b)": "lccf", "summary.json": "maxmin", "A b": "srpt"}


@pytest.fixture(scope="module")
def compared():
    return netsim.compare("parrot-fig2", "parrot-fig2", LABELS,
                          record=["coflows", "links", "decisions"])


def test_a_comparison_reads_back(compared, tmp_path) -> None:
    back = netsim.load_comparison(compared.save(tmp_path / "c"))
    assert list(back.results) == list(LABELS)
    pd.testing.assert_frame_equal(back.table.drop(columns="wall_s"),
                                  compared.table.drop(columns="wall_s"))
    for label, result in compared.results.items():
        for table in ("jobs", "coflows", "links", "decisions"):
            pd.testing.assert_frame_equal(getattr(back.results[label], table),
                                          getattr(result, table), check_dtype=False)
    assert (back.spec, back.baseline) == (None, None)


def test_labels_have_folders_of_their_own() -> None:
    """Also on a file system that does not tell capitals, and beside the comparison's files."""
    names = folder_names([*LABELS, "comparison.csv", "..", "()"])
    assert names == ["a-b", "a-b-2", "summary.json", "A-b-3", "comparison.csv-2", "run", "run-2"]
    assert list(map(len, folder_names(["x" * 5000, "x" * 5001]))) == [200, 202]
    assert len(folder_names(["é" * 5000])[0].encode()) == 200
    assert not any("/" in name or name.strip(".") == "" for name in folder_names(
        ["../../x", "/etc/passwd", "..", "a/../b", ".\u0000"]))


def test_the_baseline_is_known_again(tmp_path) -> None:
    saved = netsim.compare("parrot-fig2", "parrot-fig2", ["parrot", "lccf", "maxmin"],
                           baseline="lccf")
    back = load_comparison(saved.save(tmp_path / "c"))
    assert back.baseline == "lccf"
    pd.testing.assert_frame_equal(back.against(), saved.against())


def test_the_experiment_is_known_again(tmp_path) -> None:
    path = tmp_path / "e.toml"
    path.write_text('[network]\nname = "parrot-fig2"\n[workload]\nname = "parrot-fig2"\n'
                    '[compare]\nallocators = ["parrot", "lccf"]\n')
    from netsim.studies.compare import compare_experiment

    saved = compare_experiment(path)
    assert load_comparison(saved.save(tmp_path / "c")).spec == saved.spec


def test_large_tables_are_read_on_demand(compared, tmp_path) -> None:
    folder = compared.save(tmp_path / "c")
    first = load_comparison(folder, tables=["links"]).results["a b"]
    assert first.recorded == ("jobs", "coflows", "links")
    assert netsim.load_result(folder / "a-b", tables=()).recorded == ("jobs", "coflows")
    assert first.summary() == compared.results["a b"].summary()


def test_kinds(compared, tmp_path) -> None:
    folder = compared.save(tmp_path / "c")
    assert kind_of_folder(folder) == "comparison"
    assert isinstance(load_folder(folder), netsim.Comparison)
    assert kind_of_folder(folder / "a-b") == "run"
    assert isinstance(load_folder(folder / "a-b"), netsim.Result)
    from netsim.plots.pictures import PICTURES

    assert {what for what, _ in KINDS.values()} <= set(PICTURES)


def test_folders_that_are_no_results(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    for call in (kind_of_folder, load_folder):
        with pytest.raises(InputError, match="file: is a file, not a folder of results"):
            call(tmp_path / "file")
        with pytest.raises(InputError, match="nowhere: no such folder"):
            call(tmp_path / "nowhere")
        with pytest.raises(InputError, match=r"holds no results: it has none of summary\.json, co"):
            call(tmp_path)
    with pytest.raises(InputError, match=r"not a comparison: it has no comparison\.csv"):
        load_comparison(tmp_path)


@pytest.mark.parametrize(("name", "text", "message"), [
    ("comparison.csv", "", "not a readable comparison: No columns"),
    ("comparison.csv", "a,b\n1,2\n", "comparison.csv has no column 'label'"),
    ("comparison.csv", "label\nlower bound\n", "comparison.csv has no runs"),
    ("comparison.csv", "label\nother\n", "other: not a result: it has no summary.json"),
    ("comparison.csv", b"label\n\xff\n", "not a readable comparison: "),
    ("ratios.csv", "x\n", "ratios.csv has no column 'label'"),
    ("spec.toml", "[", "not a readable comparison: "),
    ("a-b/jobs.csv", "job\n", "a-b: not a readable result: "),
    ("a-b/summary.json", "{", "a-b: not a readable result: "),
    ("a-b", None, "a-b: not a result: it has no summary.json"),
])
def test_damaged_comparisons(compared, tmp_path, name, text, message) -> None:
    folder = compared.save(tmp_path / "c")
    if text is None:
        shutil.rmtree(folder / name)
    else:
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as raised:
        load_comparison(folder)
    assert message in str(raised.value)
    assert str(folder) in str(raised.value)

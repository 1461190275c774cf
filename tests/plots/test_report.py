"""A sweep as one page: whole, true to its tables, and without links to anything else."""

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

import netsim
from netsim.errors import InputError, OutputError
from netsim.plots.report import report_page, save_report

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
               None)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return netsim.sweep_experiment("demo", {"network.capacity": ["10Gbps", "40Gbps"],
                                            "allocator": ["parrot", "lccf"]}, seeds=2,
                                   folder=tmp_path_factory.mktemp("sweeps") / "speeds")


@pytest.fixture(scope="module")
def page(found):
    return report_page(found)


class _Cells(HTMLParser):
    """The texts of the cells of all tables, and whatever a page refers to."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.refers, self._in = [], [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        self._in = tag in ("td", "th")
        self.refers += [value for name, value in attributes
                        if name in ("src", "href", "xlink:href") and not value.startswith("#")]

    def handle_endtag(self, tag):
        self._in = False

    def handle_data(self, data):
        if self._in:
            self.rows[-1].append(data)


def test_the_page_has_the_figures_of_the_sweep(found, page):
    cells = _Cells(page)
    row = found.table.iloc[3]
    assert [row["network.capacity"], row["allocator"], str(row["seed"]),
            str(row["jobs_finished"]), f"{row['jct_total_s']:.6g}",
            f"{row['over_lower_bound']:.6g}", f"{row['makespan_s']:.6g}", row["key"]] in cells.rows
    means = found.means().iloc[0]
    cell = (f"{means['over_lower_bound']:.4g} [{means['over_lower_bound_low']:.4g}, "
            f"{means['over_lower_bound_high']:.4g}]")
    assert any(cell in row for row in cells.rows)
    assert page.count("<svg") == 3
    assert page.count("whiskers and bands show 95 % confidence intervals</figcaption>") == 2
    assert "big-switch-128-10g" in page
    assert f"<li>netsim: {netsim.__version__}</li>" in page


def test_the_page_needs_nothing_else(found, page):
    assert _Cells(page).refers == []
    assert not re.search(r"@import|url\((?!#)|<script", page)
    assert report_page(found) == page


def test_claims_and_failures_and_names_are_shown_as_they_are(found):
    claims = pd.DataFrame([{"claim": "a < b", "paper": "1", "measured": "2 [1, 3]",
                            "holds_on": "3 of 4", "verdict": "holds"}])
    failures = pd.DataFrame([{"network.capacity": "1Gbps", "allocator": "<mine>", "seed": 4,
                              "error": "no & never", "key": "k", "details": ""}])
    page = report_page(replace(found, failures=failures), claims)
    assert ["a < b", "1", "2 [1, 3]", "3 of 4", "holds"] in _Cells(page).rows
    before = report_page(found, claims.drop(columns="holds_on"))  # of an earlier version
    assert ["a < b", "1", "2 [1, 3]", "holds"] in _Cells(before).rows
    assert ["1Gbps", "<mine>", "4", "no & never"] in _Cells(page).rows


def test_where_it_cannot_be_written(found, tmp_path):
    with pytest.raises(OutputError, match="cannot be written"):
        save_report(found, tmp_path / "none" / "r.html")
    with pytest.raises(InputError, match="no run of the sweep is there"):
        report_page(replace(found, table=found.table.iloc[:0]))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_a_browser_draws_it(found, tmp_path):
    path = save_report(found, tmp_path / "report.html")
    shown = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
         f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True).stdout
    cells = _Cells(shown)
    assert len([row for row in cells.rows if "parrot" in row]) == len(
        [row for row in _Cells(path.read_text()).rows if "parrot" in row])
    assert shown.count("<svg") == 3
    assert "</html>" in shown

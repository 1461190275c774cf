"""``netsim reproduce``, ``netsim report`` and ``netsim plot`` of sweeps."""

import json
from dataclasses import replace

import pandas as pd

from netsim.reproductions import PAPERS, REPRODUCTIONS
from tests.examples import ALL


def test_the_list(netsim):
    done = netsim("reproduce", "--list")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "parrot", "sjf-bco", "a-srpt", "a-online",
        *(f"parrot-{name}" for name in ("fig2", "fig4", "inference", "model", "lp", "fig5", "fig6",
                                        "fit", "fig7", "fig8", "fig9", "fig10")),
        *(f"sjf-bco-{name}" for name in ("model", "policies", "contention", "kappa", "servers",
                                         "lambda", "fabric")),
        *(f"a-srpt-{name}" for name in ("testbed", "nic", "single", "jobs", "predictors", "errors",
                                        "mapping", "model", "plans")),
        *(f"a-online-{name}" for name in ("jobs", "servers", "preemptions", "preemptions-servers",
                                          "utilisation", "communication", "ratio-jobs",
                                          "ratio-servers", "ratio-epsilon", "testbed", "gangs",
                                          "outlook", "links", "model")),
         "joint-study", "joint-systems", "preemption-recurrent", "preemption-tiresias",
         "llm-neighbours", "inter-job", "accuracy-m3", "accuracy-htsim", "accuracy-allreduce"]


def test_a_measurement_is_printed_and_drawn_like_a_sweep(netsim, here, monkeypatch):
    monkeypatch.setattr("netsim.reproductions.a_srpt._CASES", 1)
    monkeypatch.setattr("netsim.reproductions.a_srpt._LIMIT_S", 1.0)
    done = netsim("reproduce", "a-srpt-mapping", "--seeds", "1", "--out", "r")
    assert done.exit_code == 0
    assert "For GPT-175B Heavy-Edge finds the optimum" in done.stdout
    assert (here / "r" / "a-srpt-mapping.pdf").stat().st_size > 1000


def test_a_reproduction_prints_its_claims_and_draws_its_figure(netsim, here, monkeypatch):
    whole = REPRODUCTIONS["parrot-fig8"]
    few = replace(whole, keys=whole.keys | {"workload": whole.keys["workload"] | {
        "jobs": 12 if ALL else 3}})
    monkeypatch.setitem(REPRODUCTIONS, "parrot-fig8", few)
    done = netsim("reproduce", "parrot-fig8", "--seeds", "1", "--out", "r")
    assert done.exit_code == 0
    assert "With theta_max below 0.75 the total JCT is smaller" in done.stdout
    assert "holds on" in done.stdout.splitlines()[0]
    assert "measured: mean over seeds, with its 95 % confidence interval; geometric of ratios" in (
        done.stdout)
    assert (here / "r" / "parrot-fig8.pdf").stat().st_size > 1000
    assert len(pd.read_csv(here / "r" / "runs.csv")) == 18
    assert netsim("report", "r").stdout == "report: r/report.html\n"
    assert "With theta_max below 0.75" in (here / "r" / "report.html").read_text()
    assert netsim("plot", "r", "--kind", "sweep", "--of", "jct_p95_s", "--out",
                  "x.svg").exit_code == 0
    assert "theta max" in (here / "x.svg").read_text()


def test_bad_input(refused):
    assert "unknown reproduction 'parrot-fig55' (did you mean 'parrot-fig5'?)" in refused(
        "reproduce", "parrot-fig55")
    assert "--seeds must be a number" in refused("reproduce", "parrot-fig8", "--seeds", "many")
    assert "it has none of summary.json, comparison.csv, sweep.json" in refused("report", ".")


def test_the_statements_of_a_paper(netsim, monkeypatch):
    """By default those of the paper with the fewest runs, for to measure all takes a while."""
    if not ALL:
        for name in {*PAPERS} - {"sjf-bco"}:
            monkeypatch.delitem(PAPERS, name)
    for name, paper in PAPERS.items():
        done = netsim("reproduce", name, "--rows")
        assert done.exit_code == 0
        assert paper.rows[-1].id in done.stdout
    rows = json.loads(netsim("reproduce", "--rows", "--json").stdout)
    assert {row["paper"] for row in rows} == {*PAPERS}
    assert rows[0].keys() >= {"paper", "id", "where", "says", "setting", "measure", "value",
                              "interval", "verdict", "why", "cpu_s"}


def test_one_statement_runs_alone(netsim, here):
    """Parrot and one other scheme of five, which another statement does not run again."""
    done = netsim("reproduce", "parrot", "--row", "parrot-01", "--row", "parrot-42", "--out", "r")
    assert done.exit_code == 0
    assert "40.89" in done.stdout
    assert len(list((here / "r" / "parrot-fig2" / "runs").iterdir())) == 2
    told = netsim("reproduce", "parrot", "--row", "parrot-17")
    assert "cannot be told" in told.stdout


def test_what_is_no_statement(refused):
    assert "unknown row of parrot 'parrot-99'" in refused("reproduce", "parrot", "--row",
                                                         "parrot-99")
    assert "unknown paper 'parrot-fig5'" in refused("reproduce", "parrot-fig5", "--row",
                                                    "parrot-01")
    assert "leave out --row" in refused("reproduce", "parrot", "--row", "parrot-01", "--keep")

"""The example of Section 2.5 of the Parrot paper, with its timeline, exactly."""

import math

import pytest

import netsim

MB = 1e6


@pytest.fixture(scope="module")
def run():
    return netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot",
                           record=("coflows", "decisions"))


def test_timeline_of_parrot(run):
    """Two servers of 1 MB/s per port; all four ports are loaded alike.

    The busiest port, egress 0, carries 6 MB of C1 and 12 of C2 (job 0), 2 of C3 and 8 of C4
    (job 1), so that Gamma = 6, 12, 2 and 8 s, and the jobs alone take 18 and 10 s.

    At 0 both have sent nothing: theta = (1/2)^(1/(ln 1 + 1)) = 1/2. C3 ends at 2/(1/2) = 4,
    when C1 has 6 - 4/2 = 4 s left. Job 1 has then completed a coflow (A finite), job 0 none:
    job 1 is inferred, S = 8 MB > 0 gives theta = 0.9. C4 takes 8/0.9 = 80/9 s and ends at
    4 + 80/9 = 116/9 = 12.888...; C1 advances by 0.1 * 80/9 = 8/9 s, alone from then on with
    4 - 8/9 = 28/9 s left, ends at 116/9 + 28/9 = 16; C2 takes 12 s and ends at 28.
    """
    finish = run.coflows.set_index(["job", "stage"])["finish_s"]
    assert finish[1, "c0"] == pytest.approx(4, rel=1e-12)
    assert finish[1, "c1"] == pytest.approx(116 / 9, rel=1e-12)
    assert finish[0, "c0"] == pytest.approx(16, rel=1e-12)
    assert finish[0, "c1"] == pytest.approx(28, rel=1e-12)
    assert run.summary()["jct_total_s"] == pytest.approx(116 / 9 + 28, rel=1e-12)


def test_inference_of_parrot(run):
    """Theta at each decision: 1/2 at 0, 0.9 at 4 for job 1, then job 0 is alone."""
    decisions = run.decisions.set_index("time_s")
    assert decisions["theta"].tolist() == pytest.approx([0.5, 0.9, 1, 1], rel=1e-12)
    assert decisions["job"].tolist() == [0, 1, 0, 0]
    assert list(decisions.index) == pytest.approx([0, 4, 116 / 9, 16], rel=1e-12)


@pytest.mark.parametrize(("allocator", "total"), [
    ("parrot", 116 / 9 + 28), ("aalo-lbsf", 44), ("lccf", 44), ("maxmin", 48), ("srpt", 38)])
def test_totals_of_the_paper(allocator, total):
    """Total JCT of Fig. 2; knowing the jobs (srpt) gives the JCT-optimal order, 38."""
    result = netsim.simulate("parrot-fig2", "parrot-fig2", allocator=allocator)
    assert result.summary()["jct_total_s"] == pytest.approx(total, rel=1e-12)


def test_occupancy_falls_with_what_was_sent():
    """Eq. 10 at n = 3 and S = 0: (1/3)^(1/(ln 1 + 1)) = 1/3; at S = e - 1: (1/3)^(1/2)."""
    from netsim.allocators.parrot import Parrot
    from netsim.fabric.view import FabricView

    class View(FabricView):
        def __init__(self, attained):
            self._attained = attained

        def __len__(self):
            return 3

        @property
        def job_attained(self):
            import numpy as np
            return np.array([self._attained, 0.0, 0.0])

    assert Parrot().theta(View(0)) == pytest.approx(1 / 3)
    assert Parrot().theta(View(math.e - 1)) == pytest.approx(3**-0.5)
    assert Parrot(theta_max=0.55).theta(View(1e12)) == 0.55

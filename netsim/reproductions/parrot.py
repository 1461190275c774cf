"""The evaluation of Parrot: Figures 5 to 10.

The paper's figures cannot result from the trace's full iteration counts and arrivals. The closest
interpretation has 10 iterations per job, arrivals 20 times as dense, and flows of up to 250 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from netsim.reproductions.claims import (
    LESS,
    MORE,
    PLAIN,
    Claim,
    Runs,
    above_one,
    below_one,
    near,
    positive,
    words,
)
from netsim.reproductions.reproduction import Reproduction
from netsim.studies.sweep_result import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES"]

_SPEEDS = ("10Gbps", "40Gbps")
_SCHEMES = ("parrot", "aalo-lbsf", "lccf")
_VARIANTS = {"parrot": ("uniform", "per_flow", "none"),
             "aalo-lbsf": ("capped", "shared_uniform", "none"),
             "lccf": ("capped", "shared_uniform", "none")}
_NAMES = {"parrot": "Parrot", "aalo-lbsf": "Aalo", "lccf": "LCCF"}

_TRACE = {"iterations": 10, "arrival_scale": 0.05, "length": "250MB"}


def _label(scheme: str, conservation: str = "") -> str:
    return f"{scheme} (work_conservation={conservation})" if conservation else scheme


# --- measured quantities -------------------------------------------------------------------


def _less(scheme: str, other: str, *, conservation: str = "", **where: Any
          ) -> Callable[[Runs], Any]:
    """Return a measure: the relative reduction of a scheme's total JCT from another's."""
    return lambda runs: 1 - runs.ratio({"allocator": scheme, **where},
                                       {"allocator": _label(other, conservation), **where})


def _more(scheme: str, other: str, **where: Any) -> Callable[[Runs], Any]:
    """Return a measure: the relative increase of a scheme's total JCT over another's."""
    return lambda runs: -_less(scheme, other, **where)(runs)


def _grows(key: str, low: Any, high: Any, scheme: str, **where: Any) -> Callable[[Runs], Any]:
    """Return a measure: total JCT at one value of a key over that at another value."""
    return lambda runs: runs.ratio({"allocator": scheme, key: high, **where},
                                   {"allocator": scheme, key: low, **where})


# --- Fig. 5: total JCT of all schemes ------------------------------------------------------


def _fig5_claims() -> Iterator[Claim]:
    yield Claim("Parrot's total JCT over the lower bound, 10 Gbps, is at most 2.75", "<= 2.75",
                lambda runs: runs.of("over_lower_bound", allocator="parrot", capacity="10Gbps"),
                lambda measured: measured <= 2.75)
    for speed in _SPEEDS:
        for scheme, other in (("parrot", "aalo-lbsf"), ("aalo-lbsf", "lccf")):
            yield Claim(f"{_NAMES[scheme]} is below {_NAMES[other]}, {words(speed)}", "> 0",
                        _less(scheme, other, capacity=speed), positive, percent=True,
                        scale=LESS)
    for other, paper in (("aalo-lbsf", 0.584), ("lccf", 0.913)):
        for conservation in ("", "capped", "shared_uniform"):
            yield Claim(f"Parrot is below {_NAMES[other]} ({conservation or 'greedy'}) by as much "
                        "as the paper says, within 5 points, 10 Gbps", f"{paper:.1%}",
                        _less("parrot", other, conservation=conservation, capacity="10Gbps"),
                        near(paper, 0.05), percent=True, scale=LESS)
    for other in ("aalo-lbsf", "lccf"):
        yield Claim(f"The gain on {_NAMES[other]} at 10 Gbps exceeds that at 40 Gbps", "> 0",
                    partial(_gain_lost, other), positive, percent=True, scale=PLAIN)
    for scheme in _SCHEMES:
        yield Claim(f"{_NAMES[scheme]}'s total JCT without work conservation over that with "
                    "it, 10 Gbps", "> 1",
                    partial(_without, scheme), above_one)


def _gain_lost(other: str, runs: Runs) -> Any:
    slow, fast = (_less("parrot", other, capacity=speed)(runs) for speed in _SPEEDS)
    return slow - fast


def _without(scheme: str, runs: Runs) -> Any:
    return runs.ratio({"allocator": _label(scheme, "none"), "capacity": "10Gbps"},
                      {"allocator": scheme, "capacity": "10Gbps"})


def _draw_bars(sweep: Sweep) -> Axes:
    from netsim.plots.facets import bar_facets

    # With the colours that the page's other figures have.
    return bar_facets(sweep.means(["over_lower_bound"]), among={"allocator": _SCHEMES})


# --- Fig. 6: distributions -----------------------------------------------------------------


def _fig6_claims() -> Iterator[Claim]:
    for speed in _SPEEDS:
        for other in ("aalo-lbsf", "lccf"):
            for metric, name in (("jct_p50_s", "median"), ("jct_p95_s", "95th percentile")):
                yield Claim(f"Parrot's {name} of JCTs over {_NAMES[other]}'s is below 1, "
                            f"{words(speed)}", "-", partial(_of_others, metric, other, speed),
                            below_one)


def _of_others(metric: str, other: str, speed: str, runs: Runs) -> Any:
    return runs.ratio({"allocator": "parrot", "capacity": speed},
                      {"allocator": other, "capacity": speed}, metric)


def _draw_distributions(sweep: Sweep) -> Axes:
    from netsim.plots.facets import cdf_facets

    return cdf_facets(sweep, col="network.capacity")


# --- Fig. 7 to 10: one parameter each ------------------------------------------------------


def _fig7_claims() -> Iterator[Claim]:
    for speed in _SPEEDS:
        yield Claim(f"Parrot at an interval of 100 ms over 1 ms, {words(speed)}", "> 1",
                    _grows("observe_interval", "1ms", "100ms", "parrot", capacity=speed),
                    above_one)
    for speed, interval in (("10Gbps", "50ms"), ("40Gbps", "10ms")):
        yield Claim(f"Parrot is above Aalo at an interval of {words(interval)}, {words(speed)}",
                    "> 0", _more("parrot", "aalo-lbsf", capacity=speed,
                                 observe_interval=interval), positive, percent=True,
                    scale=MORE)
    for speed in _SPEEDS:
        yield Claim(f"LCCF does not depend on the interval, within 5 %: 100 ms over 1 "
                    f"ms, {words(speed)}", "flat",
                    _grows("observe_interval", "1ms", "100ms", "lccf", capacity=speed),
                    near(1, 0.05))


def _fig8_claims() -> Iterator[Claim]:
    yield Claim("A theta_max of 0.6 over one of 0.9, 10 Gbps", "< 1",
                _grows("theta_max", 0.9, 0.6, "parrot", capacity="10Gbps"), below_one)
    yield Claim("A theta_max of 0.6 over one of 0.9, 40 Gbps", "-",
                _grows("theta_max", 0.9, 0.6, "parrot", capacity="40Gbps"), below_one)


def _fig9_claims() -> Iterator[Claim]:
    for speed in _SPEEDS:
        for scheme in _SCHEMES:
            yield Claim(f"{_NAMES[scheme]}'s total JCT falls with the time between arrivals: "
                        f"1 s over 0.1 s, {words(speed)}", "< 1",
                        _grows("poisson_mean", "100ms", "1000ms", scheme, capacity=speed),
                        below_one)
    for mean in ("100ms", "500ms", "1000ms"):
        yield Claim(f"Parrot is below Aalo, a mean of {words(mean)}, 10 Gbps", "> 0",
                    _less("parrot", "aalo-lbsf", capacity="10Gbps", poisson_mean=mean),
                    positive, percent=True, scale=LESS)
        yield Claim("Parrot equals Aalo within 2 points: reduction of total JCT, a mean of "
                    f"{words(mean)}, 40 Gbps", "equal",
                    _less("parrot", "aalo-lbsf", capacity="40Gbps", poisson_mean=mean),
                    near(0, 0.02), percent=True, scale=LESS)


def _fig10_claims() -> Iterator[Claim]:
    for speed in _SPEEDS:
        for scheme in _SCHEMES:
            yield Claim(f"{_NAMES[scheme]}'s total JCT rises with the number of servers: up to 16 "
                        f"over up to 2, {words(speed)}", "> 1",
                        _grows("servers_max", 2, 16, scheme, capacity=speed), above_one)
        yield Claim(f"Parrot is below Aalo with up to 16 servers, {words(speed)}", "> 0",
                    _less("parrot", "aalo-lbsf", capacity=speed, servers_max=16), positive,
                    percent=True, scale=LESS)


def _draw_lines(key: str, metric: str, sweep: Sweep) -> Axes:
    from netsim.plots.facets import line_facets

    return line_facets(sweep.means([metric]), metric, x=key, col="network.capacity")


# --- all of them ---------------------------------------------------------------------------


def _figure(number: int, title: str, claims: Iterator[Claim], draw: Callable[[Sweep], Axes],
            vary: dict[str, Sequence[Any]], *, allocators: Sequence[str] = _SCHEMES,
            workload: dict[str, Any] | None = None) -> Reproduction:
    keys = {"network": {"name": "big-switch-128-10g"}, "observe_interval": "10ms",
            "record": ["jobs"], "workload": {"name": "parrot-60", **(workload or {})}}
    return Reproduction(f"parrot-fig{number}", f"Parrot, Fig. {number}: {title}", keys,
                        {"network.capacity": _SPEEDS, "allocator": allocators, **vary},
                        tuple(claims), draw, _TRACE)


def _all_schemes() -> list[str]:
    conserved = [scheme if not conservation else f"{scheme}:work_conservation={conservation}"
                 for scheme in _SCHEMES for conservation in ("", *_VARIANTS[scheme])]
    return [*conserved, "maxmin:decisions=coflow", "srpt"]


FIGURES = (
    _figure(5, "total JCT of all schemes at 10 and 40 Gbps", _fig5_claims(), _draw_bars, {},
            allocators=_all_schemes()),
    _figure(6, "distributions of JCTs", _fig6_claims(), _draw_distributions, {}),
    _figure(7, "total JCT against the observe interval", _fig7_claims(),
            partial(_draw_lines, "observe_interval", "over_lower_bound"),
            {"observe_interval": ["1ms", "2ms", "5ms", "10ms", "20ms", "50ms", "100ms"]}),
    _figure(8, "Parrot's total JCT against theta_max", _fig8_claims(),
            partial(_draw_lines, "allocator.theta_max", "over_lower_bound"),
            {"allocator.theta_max": [0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]},
            allocators=("parrot",)),
    _figure(9, "total JCT against the mean time between Poisson arrivals", _fig9_claims(),
            partial(_draw_lines, "workload.poisson_mean", "jct_total_s"),
            {"workload.poisson_mean": ["100ms", "200ms", "300ms", "500ms", "700ms", "1000ms"]},
            workload={"poisson_jobs": 100, "poisson_mean": "500ms"}),
    _figure(10, "total JCT against the most parameter servers of a job", _fig10_claims(),
            partial(_draw_lines, "workload.servers_max", "jct_total_s"),
            {"workload.servers_max": [2, 4, 8, 16]}, workload={"servers_max": 2}),
)

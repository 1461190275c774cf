"""Workloads of SimAI and AICB as jobs in which all ranks do the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from netsim.base.files import stem_of
from netsim.base.limits import check_limit, most
from netsim.base.reading import as_problems, require_file
from netsim.base.units import Quantity
from netsim.base.values import as_choice, as_flag, as_whole, known_names
from netsim.errors import InputError, NetsimWarning, TraceError
from netsim.traces.files import OF_AICB, first_word
from netsim.traces.training.aicb import aicb_operations, read_aicb_file
from netsim.traces.training.experts import LayerLoads, TraceExpertLoad, load_of
from netsim.traces.training.rank_trace import Exchange, RankNode, RankTrace, one_job
from netsim.traces.training.scaling import (
    KEPT,
    Layout,
    grown_layout,
    join_alike,
    kept_bytes,
)
from netsim.traces.training.simai_file import COLUMNS, POLICIES, SimaiFile, read_simai_file
from netsim.traces.training.simai_tool import Machines, SimaiTimes, analytical_times, fixed_ns
from netsim.workload import Operations, Workload
from netsim.workload.operations import Programs

#: SimAI's event-driven tools send at least this number of bytes in a forward collective.
_LEAST = 4096


@known_names
def read_simai(path: str | Path, *, gpus: int | None = None,
               scale: Mapping[str, int] | None = None, keep: str = "buffer",
               expert_load: Mapping[str, Any] | None = None,
               simai: str = "events", pipeline: str | None = None, gpus_per_server: int = 8,
               nics_per_server: int | None = None, nvlink: Quantity | None = None,
               nic: Quantity | None = None, efficiency: str | Path | None = None,
               busbw: str | Path | None = None,
               overlap: Mapping[str, float] | None = None, strict: bool = False,
               skip_init: bool = True, iterations: int = 1,
               hosts: Sequence[int | str] | None = None, seed: int = 0) -> Workload:
    """Read a workload of SimAI (``.txt``) or AICB (``.csv``) as one job of identical ranks.

    Parameters
    ----------
    path : path-like
    gpus : int, optional
        Number of ranks; by default that of the file, or `gpus_per_server` for measurements. The
        sizes of tensor, expert and pipeline groups do not change.
    scale : mapping of str to int, optional
        Factors by which groups grow. ``"dp"`` adds ranks with the same batch per rank; ``"ep"``
        keeps the number of experts per rank.
    keep : {"buffer", "input"}
        Whether a rank in a growing group keeps the size of the larger one of its two buffers, or
        the size of its input. The two differ in an all-gather.
    expert_load : mapping, optional
        Parameters of `netsim.traces.training.TraceExpertLoad`, by which all-to-alls of experts in a
        ``.txt`` send unequal parts. By default parts are equal.
    simai : {"events", "analytical"}
        Whether collectives are simulated, or take the times of SimAI's analytical tool one after
        the other; see `simai_times`.
    pipeline : {"send", "formula"}, optional
        Whether ranks send activations to the next stage, or wait at the end for the idle time of
        the pipeline by the tool's formula, which needs `nvlink` and `nic`. The default depends on
        `simai`.
    gpus_per_server : int
        A group with several ranks on each server has one ring per rank, each over another NIC.
    nics_per_server : int, optional
        By default one per GPU.
    nvlink, nic : rate, optional
        Rates for the tool's arithmetic; the network has its own rates.
    efficiency : path-like, optional
        A folder with ``nic_ratio.csv``, ``nvlink_ratio.csv`` and ``ata_ratio.csv``; a relative path
        starts at the folder of `path`. Collectives then send more bytes, in proportion to the
        bandwidth that they fail to reach, and collectives below 1 MiB take fixed times, as in the
        tool.
    busbw : path-like, optional
        SimAI's ``busbw.yaml``; a relative path starts at the folder of `path`. The tool's
        arithmetic uses these bandwidths instead of its own, and collectives reach them fully.
    overlap : mapping of str to float, optional
        The fraction of the communication of ``"tp"``, ``"dp"``, ``"ep"`` and ``"pp"`` that the tool
        hides.
    strict : bool
        Whether unknown words and collectives of size 0 are errors. Otherwise the former are
        skipped, and the latter take no time.
    skip_init : bool
        Whether to leave out the rows of a ``.csv`` before its first iteration.
    iterations : int
        Number of iterations.
    hosts : sequence of int or str, optional
        The host of each rank; by default rank r runs on host r.
    seed : int
        Seed of the loads of experts, unless `expert_load` has its own.

    Raises
    ------
    TraceError
        If the file cannot be read, with the line, or its groups contradict each other.
    InputError
        If an option is invalid.

    Warns
    -----
    NetsimWarning
        If words are not collectives, computations have no time, or the bytes that stages send
        contradict the number of stages.
    """
    as_choice(simai, "simai", ("events", "analytical"))
    strict, skip_init = as_flag(strict, "strict"), as_flag(skip_init, "skip_init")
    gpus_per_server = as_whole(gpus_per_server, "gpus_per_server", 1)
    as_choice(keep, "keep", KEPT)
    load = load_of(expert_load, seed)
    path = require_file(path)
    made: Programs | Operations
    with as_problems(path):
        if first_word(path).startswith(OF_AICB):
            wrong = [name for name, value, usual in (
                ("simai", simai, "events"), ("pipeline", pipeline, None),
                ("efficiency", efficiency, None), ("busbw", busbw, None)) if value != usual]
            if wrong:
                raise InputError("a file of AICB has no computations and no stages: simai, "
                                 "pipeline, efficiency and busbw are for those of SimAI (.txt)",
                                 wrong[0])
            if load is not None:
                raise InputError("expert_load is for files of SimAI (.txt), Chakra and Kineto, and "
                                 "the format llm; a file of AICB (.csv) has neither computations "
                                 "nor all-to-alls of backward passes", "expert_load")
            made = aicb_operations(read_aicb_file(path), gpus, scale, keep, gpus_per_server,
                                   skip_init, strict)
        else:
            file = read_simai_file(path)
            _warn(file, strict)
            file, layout = _grown(file, _layout(file, gpus, gpus_per_server), scale, keep)
            pipeline = _pipeline(pipeline, simai)
            machines = None
            if simai == "analytical" or pipeline == "formula" or efficiency is not None:
                machines = Machines.of(path.parent, gpus_per_server, nics_per_server, nvlink, nic,
                                       efficiency, busbw, overlap)
            elif busbw is not None:
                raise InputError('busbw is for the arithmetic of SimAI\'s tool: simai = '
                                 '"analytical" or pipeline = "formula"', "busbw")
            if load is not None and machines is not None:
                raise InputError("expert_load is for what is simulated: it does not go with "
                                 'simai = "analytical", pipeline = "formula" or efficiency',
                                 "expert_load")
            made = join_alike(_simai_trace(file, layout, machines, simai, pipeline, load), layout,
                              gpus_per_server)
    name = stem_of(path)
    return one_job(made, name, name, iterations, hosts, seed)


@known_names
def simai_times(path: str | Path, *, nvlink: Quantity, nic: Quantity, gpus: int | None = None,
                scale: Mapping[str, int] | None = None, keep: str = "buffer",
                gpus_per_server: int = 8, nics_per_server: int | None = None,
                efficiency: str | Path | None = None, busbw: str | Path | None = None,
                overlap: Mapping[str, float] | None = None) -> SimaiTimes:
    """Return the times of an iteration by SimAI's analytical tool, in seconds.

    Parameters
    ----------
    path, nvlink, nic, gpus, scale, keep, gpus_per_server
        See `read_simai`.
    nics_per_server, efficiency, busbw, overlap
        See `read_simai`.

    Returns
    -------
    SimaiTimes

    Raises
    ------
    TraceError
        If the file cannot be read, or its groups contradict each other.
    InputError
        If an option is invalid.
    """
    gpus_per_server = as_whole(gpus_per_server, "gpus_per_server", 1)
    as_choice(keep, "keep", KEPT)
    path = require_file(path)
    with as_problems(path):
        file = read_simai_file(path)
        file, layout = _grown(file, _layout(file, gpus, gpus_per_server), scale, keep)
        return analytical_times(file, layout, Machines.of(
            path.parent, gpus_per_server, nics_per_server, nvlink, nic, efficiency, busbw, overlap))


def _warn(file: SimaiFile, strict: bool) -> None:
    """Warn about the parts of the file that are not run."""
    for number, column, word in file.unknown:
        layer = f"layer {number} ({file.layers[number].name})"
        problem = f"{layer}, {column}: {word!r} is no collective"
        if strict:
            raise TraceError(problem, file.path)
        warnings.warn(NetsimWarning(f"{problem}, and is skipped", file.path), stacklevel=4)
    for number, each in enumerate(file.layers if strict else ()):
        for column, step in zip(COLUMNS, each.steps, strict=True):
            if step.kind and not step.nbytes:
                raise TraceError(f"layer {number} ({each.name}), {column}: size of {step.kind} "
                                 "must be at least 1, not 0", file.path)
    pp, sent = file.header.get("pp", 1), file.header.get("pp_bytes", 0)
    if (pp > 1) != (sent > 0):
        warnings.warn(NetsimWarning(f"pp = {pp}, and pp_comm = {sent}: stages send nothing",
                                    file.path), stacklevel=4)


def _layout(file: SimaiFile, gpus: int | None, gpus_per_server: int) -> Layout:
    """Divide the ranks of a file of SimAI into groups."""
    header = file.header
    measured = file.policy == "MICRO"
    count = header.get("gpus") if gpus is None else as_whole(gpus, "gpus", 1)
    if count is None:
        if not measured:
            raise TraceError("the file does not say all_gpus; give gpus", file.path, 1)
        count = gpus_per_server
    tp, ep, pp = (1, 1, 1) if measured else (header.get(key, 1) for key in ("tp", "ep", "pp"))
    return Layout.dividing(count, tp, ep, pp, file.path)


def _grown(file: SimaiFile, traced: Layout, scale: Mapping[str, int] | None, keep: str
           ) -> tuple[SimaiFile, Layout]:
    """Scale the groups of a file; return it with its buffers, and the layout."""
    layout = grown_layout(traced, scale, file.path)
    layers = tuple(layer._replace(steps=tuple(
        step._replace(nbytes=kept_bytes(step.kind, step.group, step.nbytes, traced, layout, keep))
        for step in layer.steps)) for layer in file.layers)
    return replace(file, layers=layers), layout


def _pipeline(given: str | None, simai: str) -> str:
    if given is not None:
        as_choice(given, "pipeline", ("send", "formula"))
    if simai == "analytical" and given == "send":
        raise InputError('pipeline = "send" is for what is simulated; with simai = "analytical" it '
                         'is "formula"', "pipeline")
    return given or ("formula" if simai == "analytical" else "send")


def _simai_trace(file: SimaiFile, layout: Layout, machines: Machines | None, simai: str,
                 pipeline: str, load: TraceExpertLoad | None) -> RankTrace:
    """Make the trace of rank 0 in a file of SimAI; all others do the same."""
    steps = _Steps(layout)
    if simai == "analytical":
        assert machines is not None
        _added_up(analytical_times(file, layout, machines), steps)
    else:
        bubble = analytical_times(file, layout, machines).bubble_s if (
            pipeline == "formula" and machines is not None) else None
        sent = file.header.get("pp_bytes", 0) if pipeline == "send" else 0
        _LayerPasses(file, layout, steps, machines if machines and machines.efficiencies else None,
                     sent, LayerLoads({}, {}) if load is None else load.on_layers(file, layout.ep)
                     ).run(bubble)
    return steps.trace(file.path)


class _Steps:
    """The nodes of rank 0, step by step; those that block end before later ones begin."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._most = layout, most("steps")
        self._members = cache(partial(layout.members, rank=0))
        self._nodes: list[RankNode] = []
        self._front: tuple[int, ...] = ()
        self._computed: tuple[int, ...] = ()
        self._behind: list[int] = []

    def trace(self, path: Path) -> RankTrace:
        """Return all nodes, with the end of the iteration."""
        self._add("end", "point", (*self._front, *self._behind), stream="end")
        return RankTrace(0, path, tuple(self._nodes))

    def compute(self, name: str, ns: int, exchange: Exchange | None = None) -> None:
        """Add a computation of some nanoseconds, after the previous one; nothing for 0."""
        if ns:
            after = tuple(dict.fromkeys(self._front + self._computed))
            self._front = self._computed = self._add(
                name, "compute", after, seconds=ns / 1e9, stream="compute", exchange=exchange)

    def meet(self, name: str, group: str, kind: str = "", *, late_s: float = 0.0,
             blocks: bool = True, **more: Any) -> None:
        """Let ranks of a group meet in a collective, if there is one, and wait for some time."""
        who = {"group": group, "label": group, "members": self._members(group)}
        last = self._front
        if kind:
            last = self._add(name, "collective", last, collective=kind, **who, **more)
            name += ", update"
        if late_s or not kind:
            last = self._add(name, "collective", last, collective="barrier", seconds=late_s, **who)
        if blocks:
            self._front = last
        else:
            self._behind += last

    def send(self, name: str, stages: int, nbytes: int) -> None:
        """Send to the rank some stages ahead; only the end of the iteration waits."""
        ranks = self._layout.ranks
        other = stages * (ranks // self._layout.pp) % ranks
        self._behind += self._add(name, "send", self._front, collective="send", members=(0, other),
                                  payload=nbytes, group="pp", label=f"pp {stages}")

    def _add(self, name: str, kind: str, after: tuple[int, ...], **more: Any) -> tuple[int]:
        number = len(self._nodes)
        if number == self._most:
            check_limit("steps", number + 1, where="an iteration of a rank")
        self._nodes.append(RankNode(number, name, kind, after, **more))
        return (number,)


def _added_up(times: SimaiTimes, steps: _Steps) -> None:
    """Make an iteration from the times of SimAI's tool, one after the other."""
    steps.compute("compute", round(times.compute_s * 1e9))
    for name, seconds in times._asdict().items():
        if name != "compute_s" and seconds:
            steps.meet(name.removesuffix("_s").replace("_", "-"), "all", late_s=seconds)


class _LayerPasses:
    """Goes through the layers as SimAI's event-driven tools do.

    With `machines`, collectives that reach less of their bandwidth send more bytes, and small ones
    take a fixed time.
    """

    def __init__(self, file: SimaiFile, layout: Layout, steps: _Steps, machines: Machines | None,
                 sent: int, loads: LayerLoads) -> None:
        self._loads = loads
        self._file, self._layout, self._steps, self._machines = file, layout, steps, machines
        self._sent = sent if layout.pp > 1 else 0
        self._batches = file.header.get("ga", 1) * file.header.get("vpp", 1) if self._sent else 0
        check_limit("steps", self._batches, file.path, 1, where="ga x vpp")

    def run(self, bubble: float | None) -> None:
        """Go through an iteration.

        The bubble comes between its passes, so that it hides no gradients.
        """
        layers = range(len(self._file.layers))
        if self._file.policy == "MICRO":
            for number in layers:
                self._step("", number, 2)
            return
        for number in layers:
            self._step("forward/", number, 0)
            self._send("forward", number, 1)
        if bubble is not None:
            self._steps.meet("bubble", "all", late_s=bubble)
        for number in reversed(layers):
            if number in self._file.initiates:
                kept = [each for each in self._file.checkpoints if each <= number]
                for again in range(max(kept, default=number), number):
                    self._step("again/", again, 0)
            self._step("inputs/", number, 1)
            self._step("weights/", number, 2, blocks=False)
            self._send("backward", len(layers) - 1 - number, -1)

    def _step(self, what: str, number: int, column: int, *, blocks: bool = True) -> None:
        """Compute, then begin a collective: a step of a column (`COLUMNS`) of a layer."""
        layer, steps, at = self._file.layers[number], self._steps, (number, column)
        step, name = layer.steps[column], f"{what}{number}.{layer.name}"
        steps.compute(f"{name}/compute", step.compute_ns, self._loads.work.get(at))
        if not step.kind:
            return
        if self._file.policy == "MICRO":  # of all ranks, whichever group the file names
            step = step._replace(group="all")
        if column == 0 and self._file.policy == POLICIES[1] and 0 < step.nbytes < _LEAST:
            step = step._replace(nbytes=_LEAST)
        label = f"{name}/{step.group} {step.kind}"
        ranks, late_ns, part = self._layout.size(step.group), layer.update_ns, 1.0
        fixed = None if self._machines is None else fixed_ns(step, ranks)
        if fixed is not None or ranks == 1 or not step.nbytes:
            steps.meet(label, step.group, late_s=((fixed or 0) + late_ns) / 1e9, blocks=blocks)
            return
        if self._machines is not None:
            part = self._machines.rate(step, self._layout)[1]
        steps.meet(label, step.group, step.kind, late_s=late_ns / 1e9, blocks=blocks,
                   payload=step.nbytes, factor=1 / part, exchange=self._loads.exchanges.get(at))

    def _send(self, what: str, done: int, stages: int) -> None:
        """Send the activations due after some layers, spread evenly over all layers."""
        count, layers = self._batches, len(self._file.layers)
        for batch in range(done * count // layers, (done + 1) * count // layers):
            self._steps.send(f"{what}/send {batch}", stages, self._sent)

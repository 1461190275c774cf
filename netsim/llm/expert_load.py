"""How routers prefer some experts to others: shares of tokens by Zipf, Dirichlet or a file."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from netsim.base.arrays import Floats
from netsim.base.brief import brief
from netsim.base.limits import check_limit
from netsim.base.reading import read_text
from netsim.base.streams import stream
from netsim.base.values import (
    as_flag,
    as_number,
    as_path,
    as_whole,
    check_options,
    convert,
    known_names,
    optional,
    refused,
    same,
)
from netsim.errors import InputError

#: Shares of experts by layer, in one iteration of a file.
_Layers = dict[int, Floats]

#: The largest concentration; shares of a larger one are as good as even.
_MOST_EVEN = 1e9


@known_names
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLoad:
    """How routers spread tokens over the experts of each layer.

    Exactly one of `zipf`, `dirichlet` and `file` is given.

    Parameters
    ----------
    zipf : float, optional
        Exponent s: the k-th most popular expert of a layer is chosen in proportion to ``k**-s``.
        Which expert that is, is drawn for each layer.
    dirichlet : float, optional
        Concentration: the shares of a layer's experts are drawn from a symmetric Dirichlet
        distribution. Shares differ more the smaller it is.
    file : path-like, optional
        A CSV file with a column ``layer``, counted from 0 over all layers of the model, and then a
        column per expert, with tokens or shares of it, whose proportions count. With a column
        ``iteration`` before them, iterations differ; after the last one, they begin anew.
    per_iteration : bool
        Whether `zipf` and `dirichlet` draw the shares for each iteration instead of once.
    capacity_factor : float, optional
        A rank sends each expert at most this multiple of the mean over experts, rounded up, and
        drops the other tokens. By default none are dropped.
    seed : int, optional
        Of all draws; by default that of the workload, or of `netsim.llm_job`.

    Raises
    ------
    InputError
        If values are invalid or contradict each other, or the file does.

    Examples
    --------
    >>> ExpertLoad(zipf=1).shares(experts=4, layer=0).round(2).tolist()
    [1.0, 0.33, 0.25, 0.5]
    """

    zipf: float | None = None
    dirichlet: float | None = None
    file: str | Path | None = None
    per_iteration: bool = False
    capacity_factor: float | None = None
    seed: int | None = None
    #: What the file says, by iteration.
    _table: tuple[_Layers, ...] = field(init=False, default=(), repr=False, compare=False)
    _digest: str = field(init=False, default="", repr=False)  #: of the file

    #: What a load is given as, for messages.
    _GIVEN: ClassVar[str] = "a table such as {zipf = 1.2}, or a netsim.llm.ExpertLoad"

    __repr__ = brief
    __deepcopy__ = same

    def __post_init__(self) -> None:
        convert(self, "expert_load", zipf=optional(partial(as_number, least=0, most=100)),
                dirichlet=optional(partial(as_number, above=0, most=_MOST_EVEN)),
                file=optional(as_path), per_iteration=as_flag,
                capacity_factor=optional(partial(as_number, above=0)), seed=optional(as_whole))
        given = [name for name in ("zipf", "dirichlet", "file") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InputError("expert_load: give exactly one of zipf, dirichlet and file, not "
                             + (" and ".join(given) or "none"), given[-1] if given else "zipf")
        if self.file is not None:
            if self.per_iteration:
                raise InputError("expert_load: per_iteration is for zipf and dirichlet; a file "
                                 "has a column iteration", "per_iteration")
            path = Path(self.file)
            try:
                text = read_text(path)
                object.__setattr__(self, "_table", _read(path, text))
            except csv.Error as error:
                raise InputError(f"{path}: not a table: {error}", "file") from error
            object.__setattr__(self, "_digest", sha256(text.encode()).hexdigest())

    @classmethod
    def of(cls, value: Any, what: str) -> Self:
        """Convert a load, or a table of its parameters."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, Mapping):
            raise refused(what, cls._GIVEN, value)
        check_options(cls, value, "expert_load")
        return cls(**value)

    def seeded(self, seed: int) -> Self:
        """Return the load with this seed of its draws, unless it has one, or draws nothing."""
        return self if self.seed is not None or self._table else replace(self, seed=seed)

    @property
    def period(self) -> int:
        """Number of iterations after which loads repeat; 0 for never."""
        return len(self._table) if self.file is not None else int(not self.per_iteration)

    @property
    def layers(self) -> list[int]:
        """The layers that the file has in all iterations, in order."""
        return sorted(set.intersection(*map(set, self._table))) if self._table else []

    def shares(self, experts: int, layer: int, iteration: int = 0) -> Floats:
        """Return the share of each expert of a layer, in no unit."""
        if self._table:
            return self._table[iteration % len(self._table)][layer]
        rng = stream(self.seed or 0, "experts", layer,
                     *([iteration] if self.per_iteration else []))
        if self.zipf is not None:
            return rng.permutation(np.arange(1.0, experts + 1) ** -self.zipf)
        return rng.dirichlet(np.full(experts, self.dirichlet))

    def problem_of(self, experts: int, layers: range) -> str | None:
        """Say how the file contradicts a model, whose experts are in some layers; None if not."""
        for iteration, table in enumerate(self._table):
            if missing := [layer for layer in layers if layer not in table]:
                return (f"expert_load: {self.file} has no layer {missing[0]} in iteration "
                        f"{iteration}; layers {layers.start} to {layers.stop - 1} have experts")
            count = len(next(iter(table.values())))
            if count != experts:
                return f"expert_load: {self.file} has {count} experts, and the model {experts}"
        return None


def _read(path: Path, text: str) -> tuple[_Layers, ...]:
    """Read the shares of a file by iteration and layer."""
    lines = text.splitlines()
    rows = ((line, row) for line, row in enumerate(csv.reader(lines), 1) if row)
    _, head = next(rows, (1, []))
    keys = ["iteration", "layer"] if head[:1] == ["iteration"] else ["layer"]
    check_limit("cells", len(lines) * len(head), path, where="expert_load")
    found: dict[int, _Layers] = {}
    for line, row in rows if head[:len(keys)] == keys and len(head) > len(keys) else ():
        where = f"expert_load: {path}: line {line}"
        try:
            numbers = [*map(int, row[:len(keys)]), *map(float, row[len(keys):])]
        except ValueError:
            raise InputError(f"{where} must be numbers, not {','.join(row)!r}", "file") from None
        shares = np.array(numbers[len(keys):], float)
        if len(row) != len(head):
            raise InputError(f"{where} has {len(row)} values, and the header {len(head)}", "file")
        if not np.isfinite(shares).all() or (shares < 0).any() or not shares.any():
            raise InputError(f"{where} must have tokens or shares of at least 0, and not only 0",
                             "file")
        iteration, layer = int(numbers[0]) if len(keys) == 2 else 0, int(numbers[len(keys) - 1])
        if layer in found.setdefault(iteration, {}):
            raise InputError(f"{where} repeats layer {layer}", "file")
        shares.setflags(write=False)
        found[iteration][layer] = shares
    if not found:
        raise InputError(f"expert_load: {path} must have a header of layer, or iteration and "
                         "layer, and a column per expert, and rows", "file")
    if sorted(found) != list(range(len(found))):
        raise InputError(f"expert_load: {path} must have the iterations 0, 1, ..., not "
                         f"{', '.join(map(str, sorted(found)[:10]))}", "file")
    return tuple(found[k] for k in range(len(found)))

"""GPUs by name, from which times of computation and the memory for a stage are derived."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from netsim.base.files import read_text
from netsim.base.units import format_bytes, parse_bytes
from netsim.base.values import (
    about,
    as_choice,
    as_number,
    as_share,
    check_options,
    convert,
    known_names,
)
from netsim.errors import InputError

#: Operations per second of a GPU.
as_flops = partial(as_number, above=0, most=1e30)


@known_names
@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU.

    Parameters
    ----------
    flops : float
        Operations per second at most, as published.
    memory : quantity
        Its memory, such as ``"80GB"``.
    utilisation : float
        The share of the operations that training reaches; 0.4 is netsim's assumption.

    Raises
    ------
    InputError
        If a value is not greater than 0, or `utilisation` is greater than 1.

    Examples
    --------
    >>> Gpu(100e12, "24GB").memory
    24000000000.0
    """

    flops: float
    memory: float
    utilisation: float = 0.4

    def __post_init__(self) -> None:
        convert(self, "GPU", flops=as_flops, memory=partial(parse_bytes, least=1),
                utilisation=as_share)

    @property
    def speed(self) -> float:
        """Operations per second that training reaches."""
        return self.flops * self.utilisation


@about("gpu")
def gpu_of(given: str | Mapping[str, Any] | Gpu) -> Gpu:
    """Return a GPU, given its name, its parameters as a mapping, or itself."""
    if isinstance(given, Gpu):
        return given
    if isinstance(given, str):
        return GPUS[as_choice(given, "GPU", GPUS)]
    if not isinstance(given, Mapping):
        raise InputError(f"gpu must be a name, or a table with flops and memory, not {given!r}")
    check_options(Gpu, given, "gpu")
    return Gpu(**given)


def gpu_summaries() -> dict[str, str]:
    """Describe each GPU in a line, by its name."""
    return {name: f"{gpu.flops / 1e12:.4g} TFLOPS, {format_bytes(gpu.memory)}"
            for name, gpu in GPUS.items()}


def _read() -> dict[str, Gpu]:
    facts = tomllib.loads(read_text(Path(__file__).with_name("gpus.toml")))
    return {name: Gpu(one["flops"] if "flops" in one else
                      facts[one["slice_of"]]["flops"] * one["sevenths"] / 7, one["memory"])
            for name, one in facts.items()}


#: The GPUs of ``gpus.toml``.
GPUS: dict[str, Gpu] = _read()

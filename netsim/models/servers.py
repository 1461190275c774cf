"""The properties of servers that determine the time of an iteration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from netsim.base.units import parse_rate
from netsim.base.values import as_whole, convert, known_names


@known_names
@dataclass(frozen=True, slots=True)
class ServerKind:
    """The kind of server of which a cluster consists.

    Parameters
    ----------
    gpus : int
        g, the number of GPUs of a server.
    nic : quantity
        B_inter, the rate of a server's NIC in each direction, such as ``"10Gbps"``.
    intra : quantity
        B_intra, the rate between two GPUs of a server, such as ``"300GB/s"``.

    Raises
    ------
    InputError
        If there are no GPUs, or a rate is not greater than 0.

    Examples
    --------
    >>> ServerKind(4, "8Gbps", "100GB/s").nic
    1000000000.0
    """

    gpus: int = 8
    nic: float = 1.25e9
    intra: float = 300e9

    def __post_init__(self) -> None:
        rate = partial(parse_rate, strict=True)
        convert(self, "server", gpus=partial(as_whole, least=1), nic=rate, intra=rate)

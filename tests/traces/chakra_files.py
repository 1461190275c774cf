"""Execution traces of Chakra, made by hand."""

from netsim.traces.training.chakra_file import ATTRIBUTES, NODE_TYPES, encode, pack

FIELDS = {form: number for number, (form, _) in ATTRIBUTES.items()}
VERSION = encode([(1, "0.0.4")])


def attribute(name, value):
    """An attribute, in the form of its value."""
    form = {bool: "bool", int: "int64", str: "string", float: "double"}[type(value)]
    return encode([(1, name), (FIELDS[form], value)])


def node(number, kind, after=(), us=0, name="", ctrl=(), **attributes):
    """A node, of a type without ``COMM_``."""
    kind = NODE_TYPES.index(kind if kind in NODE_TYPES else f"COMM_{kind}")
    return encode([(1, number), (2, name or f"n{number}"), (3, kind), *((4, each) for each in ctrl),
                   *((5, each) for each in after), (7, us),
                   *((10, attribute(key, value)) for key, value in attributes.items())])


def coll(number, after=(), comm_type=0, comm_size=1000, **attributes):
    """A collective; an all-reduce of 1 kB by default."""
    return node(number, "COLL", after, comm_type=comm_type, comm_size=comm_size, **attributes)


def write(folder, *ranks, prefix="t", metadata=VERSION):
    """Write the nodes of each rank; return the file of the first one."""
    for rank, nodes in enumerate(ranks):
        content = b"".join(pack(len(each)) + each for each in (metadata, *nodes))
        (folder / f"{prefix}.{rank}.et").write_bytes(content)
    return folder / f"{prefix}.0.et"

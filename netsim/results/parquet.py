"""Tables of Arrow, and Parquet files of them; both need pyarrow."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import MissingExtraError
from netsim.late import pd
from netsim.limits import check_limit
from netsim.reading import open_bytes

if TYPE_CHECKING:
    import pyarrow


def check_pyarrow() -> None:
    """Check that pyarrow is installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None


def arrow_table(frame: pd.DataFrame, schema: pyarrow.Schema | None = None) -> pyarrow.Table:
    """Convert a data frame to a table of Arrow, in which missing values are nulls.

    Columns of numbers are shared with the data frame, where Arrow can; texts are copied. Without a
    `schema`, columns keep their types, and all texts are strings.
    """
    check_pyarrow()
    import pyarrow

    columns = {str(name): column.map(str, na_action="ignore") if column.dtype == object else column
               for name, column in frame.items()}
    return pyarrow.Table.from_pandas(pd.DataFrame(columns, copy=False), schema or _schema(frame),
                                     preserve_index=False)


def read_parquet(path: str | Path, *, limit: bool = False) -> pd.DataFrame:
    """Read a table; errors are an `OSError` or a `ValueError`.

    With `limit`, the number of cells is checked first, as a few bytes may stand for many; see
    `netsim.limits`.
    """
    check_pyarrow()
    import pyarrow
    from pyarrow import parquet

    with open_bytes(path) as file:
        try:
            if limit:
                said = parquet.read_metadata(file)
                check_limit("cells", said.num_rows * said.num_columns, path)
            table: pd.DataFrame = parquet.read_table(file).to_pandas()
        except (OSError, pyarrow.ArrowException) as error:
            raise ValueError(f"is not read as Parquet: {error}") from error
    return table


def write_parquet(chunks: Iterable[pd.DataFrame], path: Path) -> None:
    """Write a table given in chunks with the same columns; missing values become nulls."""
    check_pyarrow()
    from pyarrow import parquet

    rest = iter(chunks)
    first = next(rest)
    schema = _schema(first)
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for chunk in chain((first,), rest):
            writer.write_table(arrow_table(chunk, schema))


def _schema(chunk: pd.DataFrame) -> pyarrow.Schema:
    """The types of columns; texts are strings even where there is none."""
    import pyarrow

    def of(column: pd.Series) -> Any:
        if column.dtype.kind in "iufb" or isinstance(column.dtype, pd.CategoricalDtype):
            return pyarrow.Schema.from_pandas(column.to_frame(), preserve_index=False).types[0]
        return pyarrow.string()

    return pyarrow.schema([(name, of(chunk[name])) for name in chunk])

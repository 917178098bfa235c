"""Data made from a seed: the same on every machine."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

DDL = (
    "id BIGINT",
    "at TIMESTAMP",
    "city STRING",
    "amount DOUBLE",
    "quantity INT",
    "returned BOOLEAN",
    "code STRING",
    "note STRING",
)
"""The columns of the generated CSV, as a manifest declares them."""

_BATCH_ROWS = 20_000
_START = 1_767_225_600
"""2026-01-01, in seconds."""

_CITIES = 500
_NULL_SHARE = 0.1


def batches(rows: int, seed: int, first: int = 0) -> Iterator[pa.Table]:
    """Make typed rows, a part at a time: about 90 bytes each as CSV."""
    for start in range(first, first + rows, _BATCH_ROWS):
        count = min(_BATCH_ROWS, first + rows - start)
        yield _batch(start, count, seed * 1_000_003 + start)


def table(rows: int, seed: int) -> pa.Table:
    """Make typed rows at once."""
    return pa.concat_tables(batches(rows, seed))


def write_csv(
    path: Path,
    *,
    seed: int,
    rows: int | None = None,
    size: int | None = None,
    first: int = 0,
    revision: int | None = None,
) -> int:
    """Write a CSV of so many rows, or of at least so many bytes.

    Args:
        path: The file.
        seed: Decides on the values.
        rows: How many.
        size: Or how many bytes.
        first: The `id` of the first row.
        revision: Change every hundredth row, others for each revision.

    Returns:
        The number of its rows.
    """
    written = 0
    # Arrow quotes the names of a header whatever one says, so that line is written by hand.
    options = pa_csv.WriteOptions(include_header=False, quoting_style="none")
    writer: pa_csv.CSVWriter | None = None
    try:
        with path.open("wb") as file:
            for batch in batches(rows if rows is not None else 1 << 40, seed, first):
                text = _as_text(batch if revision is None else _revised(batch, revision))
                if writer is None:
                    file.write(",".join(text.column_names).encode() + b"\n")
                writer = writer or pa_csv.CSVWriter(file, text.schema, write_options=options)
                writer.write_table(text)
                written += len(batch)
                if size is not None and file.tell() >= size:
                    break
    finally:
        if writer is not None:
            writer.close()
    return written


def _revised(rows: pa.Table, revision: int) -> pa.Table:
    ids = rows.column("id")
    rest = pc.subtract(ids, pc.multiply(pc.divide(ids, 100), 100))
    amount = rows.column("amount")
    changed = pc.if_else(pc.equal(rest, revision % 100), pc.add(amount, float(revision)), amount)
    return rows.set_column(rows.schema.get_field_index("amount"), "amount", changed)


def _batch(start: int, count: int, seed: int) -> pa.Table:
    ids = pa.array(range(start, start + count), pa.int64())
    seconds = pc.add(ids, _START)
    code = _text("c", _whole(count, seed + 1, 100_000))
    is_null = pc.less(pc.random(count, initializer=seed + 2), _NULL_SHARE)
    words = [_text("order", _whole(count, seed + n, 1 << 40)) for n in (3, 4)]
    return pa.table(
        {
            "id": ids,
            "at": pc.cast(pc.cast(seconds, pa.timestamp("s", "UTC")), pa.timestamp("ms", "UTC")),
            "city": _text("city", _whole(count, seed + 5, _CITIES)),
            "amount": pc.divide(pc.cast(_whole(count, seed + 6, 10_000_000), pa.float64()), 100.0),
            "quantity": pc.cast(_whole(count, seed + 7, 1_000), pa.int32()),
            "returned": pc.less(pc.random(count, initializer=seed + 8), 0.5),
            "code": pc.if_else(is_null, pa.scalar(None, pa.string()), code),
            "note": pc.binary_join_element_wise(*words, " "),
        }
    )


def _whole(count: int, seed: int, limit: int) -> pa.Array:
    return pc.cast(pc.floor(pc.multiply(pc.random(count, initializer=seed), limit)), pa.int64())


def _text(prefix: str, numbers: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(prefix, pc.cast(numbers, pa.string()), "-")


def _as_text(rows: pa.Table) -> pa.Table:
    """Turn times into the text that all readers take, and leave the rest to the CSV writer."""
    seconds = pc.cast(rows.column("at"), pa.timestamp("s", "UTC"))
    at = pc.strftime(seconds, format="%Y-%m-%dT%H:%M:%SZ")
    return rows.set_column(rows.schema.get_field_index("at"), "at", at)

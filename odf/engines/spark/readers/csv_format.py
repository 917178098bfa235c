"""The options of a `ReadStepCsv`, parsed into what the reader needs (ingest.md §6, design §7)."""

from dataclasses import dataclass

import pyarrow as pa

from odf.data.datatypes import Column, DataType, Kind
from odf.data.read_options import check_csv_type, csv_characters, describe_type, encoding_name
from odf.data.read_schema import declared_columns
from odf.data.types import slice_type, to_arrow
from odf.engines.spark.readers.time_formats import DEFAULT_FORMATS, TimeFormats, time_formats
from odf.metadata.model import ReadStepCsv


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How a CSV file is written.

    Attributes:
        separator: Between fields, one character.
        quote: Around fields, one character, or None if quotes are ordinary characters.
        escape: Makes the next character ordinary, or None: then a doubled quote is a quote.
        header: Whether the first record holds names.
        null_value: A text that means null where it is not quoted, besides the empty one.
        encoding: Name of the character encoding, as Python knows it.
        columns: The declared columns, or None if none are declared.
        times: How dates and timestamps are written.
        infers: Whether the types of columns that are not declared are found out.
    """

    separator: str
    quote: str | None
    escape: str | None
    header: bool
    null_value: str | None
    encoding: str
    columns: tuple[Column, ...] | None
    times: TimeFormats = DEFAULT_FORMATS
    infers: bool = False


@dataclass(frozen=True, slots=True)
class CsvColumn:
    """A column as it is read.

    Attributes:
        name: Its name, as declared or as in the header.
        type: The Arrow type that its values are read into; timestamps in microseconds, UTC.
        stored: The Arrow type that it has in a slice.
        nullable: Whether null is allowed.
        described: The declared type for messages, for example `DECIMAL(18,2)`.
    """

    name: str
    type: pa.DataType
    stored: pa.DataType
    nullable: bool
    described: str


def parse_format(step: ReadStepCsv) -> CsvFormat:
    """Check the options of a read step.

    Raises:
        BadInputError: An option has a value that this release cannot read with.
    """
    columns = declared_columns(step)
    characters = csv_characters(step)
    return CsvFormat(
        separator=characters.separator,
        quote=characters.quote,
        escape=characters.escape,
        header=bool(step.header),
        null_value=step.null_value or None,
        encoding=encoding_name(step.encoding, "CSV"),
        columns=columns,
        times=time_formats(step),
        infers=bool(step.infer_schema) and columns is None,
    )


def typed_columns(declared: tuple[Column, ...]) -> tuple[CsvColumn, ...]:
    """Return how declared columns are read.

    Raises:
        BadInputError: CSV cannot hold a type that is declared.
    """
    return tuple(_typed_column(column) for column in declared)


def text_columns(names: tuple[str, ...]) -> tuple[CsvColumn, ...]:
    """Return columns that hold the texts as they are, for files without a declared schema."""
    return tuple(CsvColumn(name, pa.string(), pa.string(), True, "STRING") for name in names)


def _typed_column(column: Column) -> CsvColumn:
    check_csv_type(column)
    target, stored = read_type(column.type), slice_type(to_arrow(column.type))
    return CsvColumn(column.name, target, stored, column.nullable, describe_type(column.type))


def read_type(declared: DataType) -> pa.DataType:
    """Return the Arrow type that a declared type is read into.

    Timestamps have microseconds; a UUID is its bytes.
    """
    if declared.kind is Kind.TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if declared.kind is Kind.UUID:
        return pa.binary(16)
    return to_arrow(declared)

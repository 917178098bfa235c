"""The types that columns can have, in one table: DDL name, other spellings, Arrow and Spark type.

Pure data: imports neither pyarrow nor Spark, so that manifests can be checked quickly. `types`
turns these into Arrow types, `ddl` reads them from text.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What sort of value a column holds; the value is the canonical DDL name."""

    BOOLEAN = "BOOLEAN"
    INT8 = "TINYINT"
    INT16 = "SMALLINT"
    INT32 = "INT"
    INT64 = "BIGINT"
    UINT8 = "TINYINT UNSIGNED"
    UINT16 = "SMALLINT UNSIGNED"
    UINT32 = "INT UNSIGNED"
    UINT64 = "BIGINT UNSIGNED"
    FLOAT32 = "FLOAT"
    FLOAT64 = "DOUBLE"
    DECIMAL = "DECIMAL"
    STRING = "STRING"
    BINARY = "BINARY"
    FIXED_BINARY = "FIXED_BINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    UUID = "UUID"
    ARRAY = "ARRAY"
    STRUCT = "STRUCT"


@dataclass(frozen=True, slots=True)
class DataType:
    """A column type as declared.

    Args:
        kind: The sort of value.
        precision: Digits of a decimal; fraction digits (0, 3, 6 or 9) of a time or timestamp.
        scale: Fraction digits of a decimal.
        length: Bytes of a fixed-size binary.
        timezone: Zone of a timestamp, `None` for one without zone.
        fields: Fields of a struct; the one element of an array.
    """

    kind: Kind
    precision: int = 0
    scale: int = 0
    length: int = 0
    timezone: str | None = None
    fields: tuple["Column", ...] = ()

    @property
    def element(self) -> "Column":
        """The element of an array."""
        return self.fields[0]


@dataclass(frozen=True, slots=True)
class Column:
    """A named and typed column, or field of a struct.

    Args:
        name: The name as typed.
        type: The declared type.
        nullable: Whether values may be missing; false where `NOT NULL` is declared.
    """

    name: str
    type: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One row of the type table.

    Args:
        kind: The sort of value.
        aliases: Other spellings that DDL accepts, upper case, words separated by one blank.
        arrow: Alias of the Arrow type, for types without parameters.
        spark: Spark SQL type, for types without parameters. Spark has no unsigned integers, so
            these get the next wider type that holds every value.
    """

    kind: Kind
    aliases: tuple[str, ...] = ()
    arrow: str = ""
    spark: str = ""


TYPE_TABLE: Final = (
    TypeRow(Kind.BOOLEAN, ("BOOL",), "bool", "BOOLEAN"),
    TypeRow(Kind.INT8, ("BYTE",), "int8", "TINYINT"),
    TypeRow(Kind.INT16, ("SHORT", "INT2"), "int16", "SMALLINT"),
    TypeRow(Kind.INT32, ("INTEGER", "INT4", "SIGNED"), "int32", "INT"),
    TypeRow(Kind.INT64, ("LONG", "INT8"), "int64", "BIGINT"),
    TypeRow(Kind.UINT8, (), "uint8", "SMALLINT"),
    TypeRow(Kind.UINT16, ("INT2 UNSIGNED",), "uint16", "INT"),
    TypeRow(Kind.UINT32, ("INTEGER UNSIGNED", "INT4 UNSIGNED"), "uint32", "BIGINT"),
    TypeRow(Kind.UINT64, ("INT8 UNSIGNED",), "uint64", "DECIMAL(20,0)"),
    TypeRow(Kind.FLOAT32, ("REAL", "FLOAT4"), "float32", "FLOAT"),
    TypeRow(Kind.FLOAT64, ("DOUBLE PRECISION", "FLOAT8"), "float64", "DOUBLE"),
    TypeRow(Kind.DECIMAL, ("NUMERIC", "DEC")),
    TypeRow(
        Kind.STRING,
        ("TEXT", "VARCHAR", "CHAR", "CHARACTER", "CHARACTER VARYING", "CHAR VARYING"),
        "string",
        "STRING",
    ),
    TypeRow(Kind.BINARY, ("BYTEA", "VARBINARY", "BLOB", "BYTES"), "binary", "BINARY"),
    TypeRow(Kind.FIXED_BINARY, (), "", "BINARY"),
    TypeRow(Kind.DATE, (), "date32", "DATE"),
    TypeRow(Kind.TIME),
    TypeRow(Kind.TIMESTAMP, ("TIMESTAMPTZ", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATETIME")),
    TypeRow(Kind.UUID, (), "", "BINARY"),
    TypeRow(Kind.ARRAY),
    TypeRow(Kind.STRUCT),
)

BY_KIND: Final = {row.kind: row for row in TYPE_TABLE}
"""The row of each kind."""

BY_NAME: Final = {
    name: row.kind
    for row in TYPE_TABLE
    for name in (row.kind.value, *row.aliases)
    if row.kind is not Kind.FIXED_BINARY  # has no DDL name: it is only met in files
}
"""The kind of each DDL name, upper case."""


def describe(dtype: DataType) -> str:
    """Return the type as canonical DDL, for example `DECIMAL(18,2)` or `ARRAY<INT>`."""
    match dtype.kind:
        case Kind.DECIMAL:
            return f"DECIMAL({dtype.precision},{dtype.scale})"
        case Kind.TIME | Kind.TIMESTAMP:
            return f"{dtype.kind.value}({dtype.precision})"
        case Kind.FIXED_BINARY:
            return f"FIXED_BINARY({dtype.length})"
        case Kind.ARRAY:
            return f"ARRAY<{describe(dtype.element.type)}{_not_null(dtype.element)}>"
        case Kind.STRUCT:
            return f"STRUCT<{', '.join(describe_column(f) for f in dtype.fields)}>"
        case kind:
            return kind.value


def describe_column(column: Column) -> str:
    """Return the column as canonical DDL: quoted name, type, `NOT NULL`."""
    name = column.name.replace('"', '""')
    return f'"{name}" {describe(column.type)}{_not_null(column)}'


def _not_null(column: Column) -> str:
    return "" if column.nullable else " NOT NULL"


def to_spark(dtype: DataType) -> str:
    """Return the Spark SQL type that holds the values of a column, for example `DECIMAL(18,2)`.

    A UUID is its 16 bytes there, not its text.
    """
    match dtype.kind:
        case Kind.DECIMAL:
            return f"DECIMAL({dtype.precision},{dtype.scale})"
        case Kind.TIME:
            return "TIME(6)"
        case Kind.TIMESTAMP:
            return "TIMESTAMP" if dtype.timezone is not None else "TIMESTAMP_NTZ"
        case Kind.ARRAY:
            return f"ARRAY<{to_spark(dtype.element.type)}>"
        case Kind.STRUCT:
            return f"STRUCT<{', '.join(_spark_field(f) for f in dtype.fields)}>"
        case kind:
            return BY_KIND[kind].spark


def _spark_field(field: Column) -> str:
    name = field.name.replace("`", "``")
    return f"`{name}`: {to_spark(field.type)}{_not_null(field)}"

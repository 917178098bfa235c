"""The options of the JSON read steps, parsed into what the reader needs (ingest.md §6)."""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

import pyarrow as pa

from odf.data.datatypes import Column, DataType, Kind
from odf.data.read_options import (
    UTF8,
    check_json_type,
    describe_type,
    encoding_name,
    sub_path,
)
from odf.data.read_schema import declared_columns
from odf.data.types import slice_type, to_arrow
from odf.engines.spark.readers.time_formats import DEFAULT_FORMATS, TimeFormats, time_formats
from odf.errors import BadInputError
from odf.metadata.model import (
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
)

JsonStep = (
    ReadStepEsriShapefile | ReadStepGeoJson | ReadStepJson | ReadStepNdGeoJson | ReadStepNdJson
)
"""The steps whose files hold JSON objects, or what is turned into them."""

GEOMETRY: Final = "geometry"
"""Column that holds the geometry of a GeoJSON feature, as GeoJSON text."""

_FEATURES: Final = ("features",)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """How a file of JSON objects is written.

    Attributes:
        lines: Whether each line is a document; otherwise the file is one, which holds an array.
        path: Names of the members that lead to that array from the root.
        geo: Whether the objects are GeoJSON features.
        encoding: Name of the character encoding, as Python knows it.
        times: How dates and timestamps are written.
        columns: The declared columns, or None if they are to be found out.
        shapes: Whether the file is an archive with a shapefile, whose shapes are taken for
            GeoJSON features; `path` is then the name of its member, if any.
    """

    lines: bool
    path: tuple[str, ...]
    geo: bool
    encoding: str
    times: TimeFormats
    columns: tuple[Column, ...] | None
    shapes: bool = False

    @property
    def collection(self) -> str | None:
        """What the member `type` of a document has to be, if that matters."""
        return "FeatureCollection" if self.geo and not self.lines else None


@dataclass(frozen=True, slots=True)
class JsonColumn:
    """A column as it is read.

    Attributes:
        name: Its name, and that of the member of each object that holds it.
        declared: Its type.
        type: The Arrow type that its values are read into.
        stored: The Arrow type that it has in a slice.
        nullable: Whether null is allowed.
        described: The type for messages, for example `DECIMAL(18,2)`.
    """

    name: str
    declared: DataType
    type: pa.DataType
    stored: pa.DataType
    nullable: bool
    described: str


def parse_json_format(step: JsonStep) -> JsonFormat:
    """Check the options of a read step.

    Raises:
        BadInputError: An option has a value that nothing can be read with.
    """
    columns = declared_columns(step)
    match step:
        case ReadStepNdJson() | ReadStepJson():
            encoding, times = encoding_name(step.encoding, "JSON"), time_formats(step)
        case _:
            encoding, times = UTF8, DEFAULT_FORMATS
    lines = isinstance(step, ReadStepNdJson | ReadStepNdGeoJson)
    shapes = isinstance(step, ReadStepEsriShapefile)
    geo = shapes or isinstance(step, ReadStepGeoJson | ReadStepNdGeoJson)
    path: tuple[str, ...] = ()
    if isinstance(step, ReadStepGeoJson):
        path = _FEATURES
    elif isinstance(step, ReadStepJson):
        path = sub_path(step.sub_path)
    elif isinstance(step, ReadStepEsriShapefile):
        _check_shapefile_reader()
        path = (step.sub_path,) if step.sub_path else ()
    return JsonFormat(lines, path, geo, encoding, times, columns, shapes)


def json_columns(columns: tuple[Column, ...]) -> tuple[JsonColumn, ...]:
    """Return how columns are read.

    Raises:
        BadInputError: JSON cannot hold a type.
    """
    return tuple(_column(column) for column in columns)


def read_type(declared: DataType, *, nested: bool = False) -> pa.DataType:
    """Return the Arrow type that a type is read into.

    Timestamps of their own column keep microseconds until they are merged, nested ones have the
    milliseconds of a slice; a UUID is its bytes.
    """
    match declared.kind:
        case Kind.TIMESTAMP:
            return pa.timestamp("ms" if nested else "us", "UTC")
        case Kind.UUID if not nested:
            return pa.binary(16)
        case Kind.ARRAY:
            element = declared.element
            inner = read_type(element.type, nested=True)
            return pa.list_(pa.field(element.name, inner, element.nullable))
        case Kind.STRUCT:
            fields = [
                pa.field(field.name, read_type(field.type, nested=True), field.nullable)
                for field in declared.fields
            ]
            return pa.struct(fields)
    return to_arrow(declared)


def _column(column: Column) -> JsonColumn:
    check_json_type(column)
    return JsonColumn(
        column.name,
        column.type,
        read_type(column.type),
        slice_type(to_arrow(column.type)),
        column.nullable,
        describe_type(column.type),
    )


def _check_shapefile_reader() -> None:
    if find_spec("shapefile") is None:
        raise BadInputError(
            "reading EsriShapefile needs the package pyshp, which is not installed",
            reason="unsupported",
            hint="pip install 'opendatafabric[geo]'",
        )

"""The formats that data can be pushed in, and read steps made for them (ingest.md §8)."""

from dataclasses import fields
from enum import StrEnum
from typing import Any, Final

from odf.metadata.sources import (
    ReadStep,
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepGeoJson,
    ReadStepJson,
    ReadStepNdGeoJson,
    ReadStepNdJson,
    ReadStepParquet,
)


class InputFormat(StrEnum):
    """A format by the short name that people type."""

    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"
    GEOJSON = "geojson"
    NDGEOJSON = "ndgeojson"
    PARQUET = "parquet"
    SHAPEFILE = "shapefile"


_STEPS: Final[dict[InputFormat, type[Any]]] = {
    InputFormat.CSV: ReadStepCsv,
    InputFormat.JSON: ReadStepJson,
    InputFormat.NDJSON: ReadStepNdJson,
    InputFormat.GEOJSON: ReadStepGeoJson,
    InputFormat.NDGEOJSON: ReadStepNdGeoJson,
    InputFormat.PARQUET: ReadStepParquet,
    InputFormat.SHAPEFILE: ReadStepEsriShapefile,
}

_SHARED: Final = frozenset({"schema", "data_schema", "encoding", "date_format", "timestamp_format"})
"""What means the same in every format that has it."""


def read_as(read: ReadStep, wanted: InputFormat) -> ReadStep:
    """Return the read step for data in another format than a source declares.

    The schema and what else means the same in both formats is kept; all other options have their
    defaults. Data as CSV has a header only where no schema names the columns.

    Args:
        read: The declared step; returned as it is if it is of that format.
        wanted: The format of the data.
    """
    step = _STEPS[wanted]
    if type(read) is step:
        return read
    both = {one.name for one in fields(step)} & {one.name for one in fields(read)} & _SHARED
    kept = {name: getattr(read, name) for name in both}
    if wanted is InputFormat.CSV:
        kept["header"] = kept["schema"] is None and kept["data_schema"] is None
    made: ReadStep = step(**kept)
    return made

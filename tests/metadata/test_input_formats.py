"""Read steps for data that is pushed in another format than its source declares."""

import pytest

from odf.cli.commands.ingest import command
from odf.metadata.input_formats import InputFormat, read_as
from odf.metadata.model import (
    ReadStepCsv,
    ReadStepEsriShapefile,
    ReadStepJson,
    ReadStepNdJson,
    ReadStepParquet,
)

SCHEMA = ("id BIGINT",)


@pytest.mark.parametrize("wanted", list(InputFormat))
def test_every_format_keeps_the_schema(wanted: InputFormat) -> None:
    for read in (ReadStepCsv(schema=SCHEMA), ReadStepJson(schema=SCHEMA, sub_path="a")):
        assert read_as(read, wanted).schema == SCHEMA


def test_the_declared_format_is_left_as_it_is() -> None:
    read = ReadStepCsv(schema=SCHEMA, header=True, separator=";", quote="'")
    assert read_as(read, InputFormat.CSV) is read


def test_what_both_formats_have_is_kept_and_the_rest_is_default() -> None:
    read = ReadStepCsv(
        schema=SCHEMA, separator=";", header=True, encoding="latin1", timestamp_format="%d"
    )
    assert read_as(read, InputFormat.NDJSON) == ReadStepNdJson(
        schema=SCHEMA, encoding="latin1", timestamp_format="%d"
    )
    assert read_as(read, InputFormat.PARQUET) == ReadStepParquet(schema=SCHEMA)


def test_paths_inside_files_mean_something_else_in_each_format() -> None:
    read = ReadStepJson(schema=SCHEMA, sub_path="data.rows")
    assert read_as(read, InputFormat.SHAPEFILE) == ReadStepEsriShapefile(schema=SCHEMA)


def test_csv_has_a_header_where_no_schema_names_its_columns() -> None:
    assert read_as(ReadStepNdJson(schema=SCHEMA), InputFormat.CSV) == ReadStepCsv(
        schema=SCHEMA, header=False
    )
    assert read_as(ReadStepNdJson(), InputFormat.CSV) == ReadStepCsv(header=True)


def test_the_command_offers_every_format() -> None:
    option = next(p for p in command.params if p.name == "input_format")
    offered = {choice.removeprefix("esri") for choice in option.type.choices}
    assert offered == set(InputFormat)

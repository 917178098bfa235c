"""ESRI Shapefiles in zip archives."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from odf.engines.host.engine import SourceFile
from odf.engines.spark.readers.json_records import DocumentError
from odf.engines.spark.readers.shapefile_records import _encoding, shapefile_records
from odf.errors import BadInputError
from odf.metadata.model import MergeStrategySnapshot, ReadStepEsriShapefile, ReadStepNdGeoJson
from tests.engines.spark.spark_ingestor import Ingestor

shapefile = pytest.importorskip("shapefile")

Make = Callable[..., Ingestor]


def members(name: str, text: str, encoding: str, *, cpg: str | None) -> dict[str, bytes]:
    """Write a shapefile of a point, a polygon with a hole and nothing."""
    streams = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**streams, encoding=encoding) as writer:
        writer.shapeType = shapefile.POINT
        for field in (("name", "C", 20), ("n", "N", 5, 0), ("f", "N", 10, 3), ("d", "D", 8)):
            writer.field(*field)
        writer.point(1, 2.5)
        writer.record(text, 7, 1.5, "20240131")
        writer.null()
        writer.record("", None, None, None)
    found = {f"{name}.{suffix}": stream.getvalue() for suffix, stream in streams.items()}
    return found if cpg is None else {**found, f"{name}.cpg": cpg.encode()}


def archive(folder: Path, contents: dict[str, bytes]) -> str:
    path = folder / "shapes.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in contents.items():
            target.writestr(name, data)
    return str(path)


@pytest.mark.parametrize(
    ("text", "encoding", "cpg"),
    [
        ("é", "utf-8", "UTF-8"), ("é", "cp1252", "1252"), ("д", "cp1251", "ANSI 1251"),
        ("é", "utf-8", None), ("é", "latin-1", None), ("é", "latin-1", "ISO 88591"),
        ("é", "utf-8", "65001"),
    ],
)  # fmt: skip
def test_encodings(text: str, encoding: str, cpg: str | None, tmp_path: Path) -> None:
    path = archive(tmp_path, members("a", text, encoding, cpg=cpg))
    first = next(shapefile_records(path, None)).value
    assert isinstance(first, dict)
    assert first["properties"]["name"] == text


def test_the_language_of_the_table_counts_where_nothing_else_is_said() -> None:
    header = bytearray(32)
    header[29] = 0xC9
    assert _encoding({"dbf": bytes(header)}) == "cp1251"


@pytest.mark.parametrize(
    ("sub_path", "wanted"),
    [
        ("in/a.shp", "A"), ("in/a.*", "A"), ("*b.shp", "B"),
        (None, "found 2; .shp members there: in/a.shp, b.shp"), ("x.*", "found 0"),
        ("a.*", "A"), ("b.*", "B"), ("**/b.shp", "B"), ("i*/*.shp", "A"),
        ("*", "found 2"), ("*a.shp", "A"), ("/a.shp", "found 0"),
    ],
)  # fmt: skip
def test_members(sub_path: str | None, wanted: str, tmp_path: Path) -> None:
    both = members("in/a", "A", "utf-8", cpg=None) | members("b", "B", "utf-8", cpg=None)
    # As an archive that was made with Finder has them.
    path = archive(tmp_path, both | {"__MACOSX/in/._a.shp": b"", "__MACOSX/._b.shp": b""})
    if len(wanted) > 1:
        with pytest.raises(DocumentError, match="wanted one") as caught:
            list(shapefile_records(path, sub_path))
        assert wanted in caught.value.message
        return
    first = next(shapefile_records(path, sub_path)).value
    assert isinstance(first, dict)
    assert first["properties"]["name"] == wanted


@pytest.mark.spark
def test_rows(ingestor: Make, tmp_path: Path) -> None:
    path = archive(tmp_path, members("a", "x", "utf-8", cpg=None))
    schema = ("n INT", "f DECIMAL(10,3)", "d DATE", "name STRING", "geometry STRING")
    for declared in (schema, None):
        found = ingestor(read=ReadStepEsriShapefile(schema=declared)).files(
            [SourceFile(path, "shapes.zip")]
        )
        first, second = found.rows
        assert (first["n"], float(first["f"]), str(first["d"]), first["name"]) == (
            7, 1.5, "2024-01-31", "x",
        )  # fmt: skip
        assert first["geometry"] == '{"coordinates":[1.0,2.5],"type":"Point"}'
        assert [second[name] for name in ("n", "f", "d", "geometry")] == [None] * 4


@pytest.mark.spark
@pytest.mark.parametrize(
    ("prj", "told"),
    [
        ('PROJCS["NAD_1983_UTM_Zone_10N",GEOGCS["GCS_North', "in 'NAD_1983_UTM_Zone_10N', not"),
        ('GEOGCS["GCS_WGS_1984",DATUM["D_WGS_1984"', None),
        ("no projection", None),
    ],
)
def test_coordinates_that_are_no_degrees_are_told_of(
    prj: str, told: str | None, ingestor: Make, tmp_path: Path
) -> None:
    contents = members("in/a", "x", "utf-8", cpg=None) | {"in/A.PRJ": prj.encode()}
    found = ingestor(read=ReadStepEsriShapefile(sub_path="a.*")).files(
        [SourceFile(archive(tmp_path, contents), "shapes.zip")]
    )
    notes = [text for text in found.warnings if "coordinates" in text]
    assert len(notes) == (told is not None)
    assert told is None or told in notes[0]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (None, "shapes.zip: cannot be read as a zip archive"),
        ({"a.shp": b"x"}, "shapes.zip: a.shp has no .dbf beside it"),
        ({"a.shp": b"x", "a.dbf": b"y"}, "shapes.zip: cannot be read as a shapefile"),
    ],
)
def test_what_cannot_be_read(
    contents: dict[str, bytes] | None, message: str, ingestor: Make, tmp_path: Path
) -> None:
    path = archive(tmp_path, contents or {})
    if contents is None:
        Path(path).write_bytes(b"no archive")
    with pytest.raises(BadInputError) as caught:
        ingestor(read=ReadStepEsriShapefile()).files([SourceFile(path, "shapes.zip")])
    assert message in caught.value.message


@pytest.mark.spark
def test_countries_are_those_of_the_other_forms(
    ingestor: Make, real_data: Callable[[str], Path]
) -> None:
    folder = real_data("c1")
    name = "ne_110m_admin_0_countries"
    dataset = ingestor(read=ReadStepEsriShapefile(), merge=MergeStrategySnapshot(("NE_ID",)))
    found = dataset.files([SourceFile(str(folder / f"{name}.zip"), f"{name}.zip")])
    assert found.ops == (177, 0, 0, 0)
    wanted = {
        feature["properties"]["NE_ID"]: feature
        for feature in map(json.loads, (folder / f"{name}.ndgeojson").read_text().splitlines())
    }
    for row in found.rows:
        feature = wanted[row["NE_ID"]]
        assert json.loads(row["geometry"]) == feature["geometry"]
        assert row["NAME_ZH"] == feature["properties"]["NAME_ZH"]
    dataset.read = ReadStepNdGeoJson()
    again = dataset.files([SourceFile(str(folder / f"{name}.ndgeojson"), "same")])
    assert again.rows == []


def many(folder: Path, **cut: int) -> str:
    """Write a shapefile of ten points; some of its files end early, or are left out by 0."""
    streams = {suffix: io.BytesIO() for suffix in ("shp", "shx", "dbf")}
    with shapefile.Writer(**streams) as writer:
        writer.shapeType = shapefile.POINT
        writer.field("n", "N", 5, 0)
        for n in range(10):
            writer.point(n, n)
            writer.record(n)
    contents = {suffix: stream.getvalue() for suffix, stream in streams.items()}
    for suffix, end in cut.items():
        contents[suffix] = contents[suffix][:end]
    return archive(folder, {f"a.{suffix}": data for suffix, data in contents.items() if data})


RECORD, ENTRY = 28, 8


@pytest.mark.filterwarnings("ignore:Declared file size")
@pytest.mark.parametrize(
    "cut",
    [
        {"shp": 100 + 5 * RECORD},
        {"shp": 100 + 5 * RECORD, "shx": 0},
        {"shp": 100 + 5 * RECORD, "shx": 100 + 5 * ENTRY},
        {"shx": 100 + 5 * ENTRY},
        {"shx": 100 + 5 * ENTRY + 1},
        {"dbf": -12},
        {"shp": 100, "shx": 0},
        {"shp": 3, "shx": 0},
    ],
    ids=str,
)
def test_what_was_cut_off_is_no_shapefile_of_fewer_shapes(
    cut: dict[str, int], tmp_path: Path
) -> None:
    with pytest.raises(DocumentError, match="cut off") as caught:
        list(shapefile_records(many(tmp_path, **cut), None))
    assert "unzip -t" in (caught.value.hint or "")


def test_files_of_different_numbers_do_not_fit(tmp_path: Path) -> None:
    path = many(tmp_path)
    with zipfile.ZipFile(path) as packed:
        contents = {name: bytearray(packed.read(name)) for name in packed.namelist()}
    contents["a.dbf"][4:8] = (9).to_bytes(4, "little")
    fewer = archive(tmp_path, {name: bytes(data) for name, data in contents.items()})
    with pytest.raises(DocumentError, match="10 shapes, and attributes of 9"):
        list(shapefile_records(fewer, None))


@pytest.mark.parametrize("index", [True, False])
def test_shapes_of_deleted_rows_are_deleted(tmp_path: Path, *, index: bool) -> None:
    """Attributes stay with their shapes."""
    path = many(tmp_path, **({} if index else {"shx": 0}))
    with zipfile.ZipFile(path) as packed:
        contents = {name: bytearray(packed.read(name)) for name in packed.namelist()}
    table = contents["a.dbf"]
    header, size = (int.from_bytes(table[at : at + 2], "little") for at in (8, 10))
    for row in (0, 4):
        table[header + row * size] = ord("*")
    path = archive(tmp_path, {name: bytes(data) for name, data in contents.items()})
    found = [record.value for record in shapefile_records(path, None)]
    left = [1, 2, 3, 5, 6, 7, 8, 9]
    assert [value["properties"]["n"] for value in found] == left  # type: ignore[index]
    assert [float(value["geometry"]["coordinates"][0]) for value in found] == left  # type: ignore[index]

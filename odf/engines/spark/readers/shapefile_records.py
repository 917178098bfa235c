"""The records of an ESRI Shapefile in a zip archive, as GeoJSON features.

pyshp reads the format. The members of the archive are read into memory up to a bound and never
written anywhere. Coordinates are those of the file; the `.prj` beside it only says what they are.
"""

import codecs
import io
import re
import struct
import zipfile
from collections.abc import Iterator
from datetime import date
from pathlib import PurePosixPath
from typing import Any, Final

from odf.data.archive_members import matching
from odf.engines.spark.readers.json_records import DocumentError, Record
from odf.engines.spark.readers.json_text import Written
from odf.limits import MAX_LISTED_MEMBERS, MAX_SHAPEFILE_MEMBER

_DAMAGED: Final = "fetch the archive again, and check it with: unzip -t"
_UNREADABLE: Final = (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError)
_PLANE: Final = re.compile(r'\s*PROJ(?:CS|CRS|ECTEDCRS)\s*\[\s*"([ -!#-~]{1,80})"', re.IGNORECASE)
_LONGEST_NAME: Final = 1024
_LANGUAGE_BYTE: Final = 29
_LANGUAGES: Final = {
    0x01: "cp437", 0x02: "cp850", 0x03: "cp1252", 0x57: "cp1252", 0x58: "cp1252", 0x64: "cp852",
    0x65: "cp866", 0x7D: "cp1255", 0x7E: "cp1256", 0xC8: "cp1250", 0xC9: "cp1251", 0xCA: "cp1254",
    0xCB: "cp1253", 0x4D: "cp936", 0x4E: "cp949", 0x4F: "cp950", 0x13: "cp932",
}  # fmt: skip
"""Code pages of the most usual language drivers of dBase."""


def shapefile_records(path: str, sub_path: str | None) -> Iterator[Record]:
    """Read the shapes and attributes of a shapefile.

    Args:
        path: The archive.
        sub_path: Name or pattern of the `.shp` member; needed if there are several.

    Raises:
        DocumentError: The archive has not exactly one such member, or it cannot be read.
    """
    import shapefile  # type: ignore[import-untyped,import-not-found,unused-ignore] # noqa: PLC0415

    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, _choose(archive, sub_path))
    except _UNREADABLE as error:
        raise DocumentError(
            f"cannot be read as a zip archive: {error}",
            "EsriShapefile reads a zip archive with .shp, .dbf and .shx in it; one that is packed "
            "twice is unpacked by prepare",
        ) from None
    streams = {suffix: io.BytesIO(data) for suffix, data in members.items() if suffix != "cpg"}
    try:
        with shapefile.Reader(**streams, encoding=_encoding(members)) as reader:
            for position, (shape, record) in enumerate(_rows(reader), 1):
                geometry = None
                if shape.shapeType != shapefile.NULL:
                    geometry = _as_json(shape.__geo_interface__)
                properties = _as_json(record.as_dict())
                feature = {"type": "Feature", "properties": properties, "geometry": geometry}
                yield Record(position, feature, 64 * len(shape.points) + 1024)
    except (shapefile.ShapefileException, struct.error, LookupError, ValueError) as error:
        raise DocumentError(
            f"cannot be read as a shapefile, it is damaged or cut off: {error}", _DAMAGED
        ) from None


def projection(path: str, sub_path: str | None) -> str | None:
    """Return the name of the plane that coordinates are in, if the `.prj` beside them has one.

    Args:
        path: The archive, which was read.
        sub_path: As for `shapefile_records`.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            stem = PurePosixPath(_choose(archive, sub_path)).with_suffix("")
            wanted = f"{stem}.prj".casefold()
            name = next((one for one in archive.namelist() if one.casefold() == wanted), None)
            if name is None:
                return None
            with archive.open(name) as member:
                text = member.read(_LONGEST_NAME).decode("ascii", "replace")
    except (DocumentError, *_UNREADABLE):
        return None
    found = _PLANE.match(text)
    return found[1] if found else None


def _rows(reader: Any) -> Iterator[tuple[Any, Any]]:
    """Pair shapes with their attributes; pyshp's own way loses step at rows marked as deleted.

    Raises:
        ValueError: There are not as many of both, as when a file was cut off. How long the files
            say that they are is no sign of it: some that are whole are wrong about it.
    """
    rows, shapes = reader.numRecords, 0
    for number, shape in enumerate(reader.iterShapes()):
        shapes = number + 1
        if number < rows and (record := reader.record(number)) is not None:
            yield shape, record
    if shapes != rows:
        raise ValueError(f"it has {shapes} shapes, and attributes of {rows}")


def _choose(archive: zipfile.ZipFile, sub_path: str | None) -> str:
    """Return the name of the one `.shp` member that is meant."""
    # What Finder adds beside each file is nobody's data.
    shapes = [
        name
        for name in archive.namelist()
        if name.casefold().endswith(".shp") and not name.startswith("__MACOSX/")
    ]
    found = shapes
    if sub_path is not None:
        found = [shapes[place] for place in matching(sub_path, shapes)]
    if len(found) == 1:
        return found[0]
    wanted = "one .shp member" if sub_path is None else f"one .shp member that fits {sub_path!r}"
    shown = ", ".join((found or shapes)[:MAX_LISTED_MEMBERS]) or "none"
    raise DocumentError(
        f"wanted {wanted}, found {len(found)}; .shp members there: {shown}",
        "name the member in `subPath`, by its whole path or a pattern like *.shp"
        if shapes
        else "the archive has to hold the .shp, the .dbf and the .shx of one name",
    )


def _members(archive: zipfile.ZipFile, shape: str) -> dict[str, bytes]:
    """Return the contents of the files that belong to a `.shp`, by their suffix."""
    stem = str(PurePosixPath(shape).with_suffix("")).casefold()
    found = {}
    for info in archive.infolist():
        name = PurePosixPath(info.filename)
        suffix = name.suffix.casefold().removeprefix(".")
        if suffix not in ("shp", "dbf", "shx", "cpg"):
            continue
        if str(name.with_suffix("")).casefold() != stem:
            continue
        with archive.open(info) as member:
            found[suffix] = member.read(MAX_SHAPEFILE_MEMBER + 1)
        if len(found[suffix]) > MAX_SHAPEFILE_MEMBER:
            raise DocumentError(
                f"{info.filename} has more than {MAX_SHAPEFILE_MEMBER} bytes",
                "convert it to GeoJSON lines by a Pipe step, and read it by NdGeoJson",
            )
    if "dbf" not in found:
        raise DocumentError(
            f"{shape} has no .dbf beside it, which holds the attributes",
            "the archive has to hold the .shp, the .dbf and the .shx of one name",
        )
    return found


def _encoding(members: dict[str, bytes]) -> str:
    """Return the encoding of texts: of the `.cpg`, else of the `.dbf`, else UTF-8 or Latin 1."""
    named = members.get("cpg", b"").decode("ascii", "replace").strip()
    digits = named.casefold().removeprefix("ansi").removeprefix("oem").strip()
    for guess in (named, "utf-8" if digits == "65001" else f"cp{digits}", f"iso{digits[4:]}"):
        try:
            return codecs.lookup(guess).name
        except LookupError:
            continue
    data = members["dbf"]
    language = data[_LANGUAGE_BYTE] if len(data) > _LANGUAGE_BYTE else 0
    if language in _LANGUAGES:
        return _LANGUAGES[language]
    header = int.from_bytes(data[8:10], "little")
    try:
        data[header:].decode("utf-8")
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"


def _as_json(value: object) -> object:
    """Return what pyshp gives as what the JSON readers work on."""
    if isinstance(value, dict):
        return {str(name): _as_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(part) for part in value]
    if isinstance(value, float):
        return Written(repr(value))
    return value.isoformat() if isinstance(value, date) else value

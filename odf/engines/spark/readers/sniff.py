"""What a file seems to be that is not what its read step says: a next step for error messages."""

import re
from pathlib import Path
from typing import Final

_LOOK: Final = 512
_MANY: Final = 0.4

_BEGINNINGS: Final = (
    (b"\x1f\x8b", "it is packed by gzip: unpack it by prepare: [{kind: Decompress, format: Gzip}]"),
    (b"PAR1", "it is a Parquet file: read it with the read step Parquet"),
    (b"ARROW1", "it is an Arrow file: convert it to Parquet"),
    (b"BZh", "it is packed by bzip2: unpack it by a Pipe step with command: [bzip2, -dc]"),
    (b"\xfd7zXZ\x00", "it is packed by xz: unpack it by a Pipe step with command: [xz, -dc]"),
    (
        b"\x28\xb5\x2f\xfd",
        "it is packed by zstd: unpack it by a Pipe step with command: [zstd, -dc]",
    ),
    (b"\xd0\xcf\x11\xe0", "it is an old Office file: save it as CSV"),
    (b"%PDF", "it is a PDF document"),
    (b"\xff\xfe\x00\x00", "it begins with the mark of UTF-32: set `encoding: utf-32`"),
    (b"\xff\xfe", "it begins with the mark of UTF-16: set `encoding: utf-16`"),
    (b"\xfe\xff", "it begins with the mark of UTF-16: set `encoding: utf-16`"),
)
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_ARRAY_LINE: Final = re.compile(rb"\[.*\][ \t]*\r?\n[ \t]*\[")
_OFFICE: Final = (b"[Content_Types].xml", b"_rels/.rels", b"mimetype", b"docProps/", b"xl/")


def looks_like(path: str, wanted: str) -> str | None:
    """Say what a file seems to be, if that is something else than it should be.

    Args:
        path: The file.
        wanted: What it should be: `CSV`, `JSON`, `JSON lines`, `Shapefile` or `Parquet`.

    Returns:
        A next step for the person who gave it; None if nothing is odd about its beginning.
    """
    with Path(path).open("rb") as file:
        data = file.read(_LOOK)
    for beginning, said in _BEGINNINGS:
        if data.startswith(beginning) and wanted not in said:
            return said
    if data.startswith(_ZIP):
        if wanted == "Shapefile":
            return None
        if any(name in data for name in _OFFICE):
            return "it is an Office file: save it as CSV"
        return "it is a zip archive: unpack it by prepare: [{kind: Decompress, format: Zip}]"
    return _text(data, wanted)


def _text(data: bytes, wanted: str) -> str | None:
    if data.count(0) > 1:
        return None if wanted in ("Shapefile", "Parquet") else _zeros(data)
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    begin = text[:16].lower()
    if begin.startswith((b"<!doctype html", b"<html")):
        return "it is a web page: check the URL, and whether it wants a login"
    if begin.startswith((b"<?xml", b"<")):
        return "it seems to be XML: convert it by a Pipe step"
    if wanted in ("CSV", "Parquet") and text[:1] in (b"{", b"["):
        return "it seems to be JSON: read it with the read step Json, or NdJson for lines"
    if wanted == "JSON" and text[:1] == b"{" and b"}\n{" in data.replace(b"\r", b""):
        return "it seems to have one JSON object a line: read it with the read step NdJson"
    if wanted == "JSON lines" and text[:1] == b"[" and not _ARRAY_LINE.match(text):
        return "it seems to be one JSON array: read it with the read step Json"
    if wanted in ("JSON", "JSON lines") and text[:1] not in (b"{", b"["):
        return "it does not seem to be JSON: check the read step"
    return None


def _zeros(data: bytes) -> str:
    odd, even = data[1::2].count(0), data[0::2].count(0)
    if odd > _MANY * len(data) / 2 > even:
        return "it seems to be UTF-16 without a mark: set `encoding: utf-16-le`"
    if even > _MANY * len(data) / 2 > odd:
        return "it seems to be UTF-16 without a mark: set `encoding: utf-16-be`"
    return "it seems to be no text at all: check the source"

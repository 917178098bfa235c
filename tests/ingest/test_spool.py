"""Streams kept in a file."""

import io
from pathlib import Path

import pytest

from odf.errors import BadInputError, TransportError
from odf.ingest.spool import spool


def test_a_stream_becomes_a_file_of_its_own(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000
    paths = {spool(io.BytesIO(content), "x", tmp_path / "new") for _ in range(2)}
    assert len(paths) == 2
    assert {path.read_bytes() == content for path in paths} == {True}


def test_a_stream_that_does_not_end(tmp_path: Path) -> None:
    assert spool(io.BytesIO(b"12345"), "x", tmp_path, max_size=5).read_bytes() == b"12345"
    with Path("/dev/zero").open("rb") as endless, pytest.raises(BadInputError) as refused:
        spool(endless, "standard input", tmp_path / "other", max_size=5_000_000)
    assert refused.value.message.startswith("standard input: there are more than 5000000 bytes")
    assert list((tmp_path / "other").iterdir()) == []


def test_a_stream_that_cannot_be_read(tmp_path: Path) -> None:
    class Broken(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, _buffer: object) -> int:
            raise OSError(5, "Input/output error")

    with pytest.raises(TransportError, match="x: cannot be copied"):
        spool(io.BufferedReader(Broken()), "x", tmp_path)
    assert list(tmp_path.iterdir()) == []

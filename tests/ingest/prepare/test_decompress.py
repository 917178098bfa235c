"""Archives: what comes out of good ones, and what is said about bad ones."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf import limits
from odf.data.archive_members import matching
from odf.errors import BadInputError, OdfError
from odf.ingest.prepare import Bounds, check_steps, prepare, remove_leftovers
from odf.ingest.prepare.gunzip import GunzipStream
from odf.metadata.model import CompressionFormat, PrepStepDecompress
from tests.ingest.prepare.conftest import GUNZIP, UNZIP, Kitchen, pipe, unzip

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
noise = random.Random(4)
NOISE = noise.randbytes(2000)


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def refused(kitchen: Kitchen, data: bytes, *steps: PrepStepDecompress) -> BadInputError:
    with pytest.raises(BadInputError) as caught:
        kitchen.cook(data, *steps)
    assert caught.value.message.startswith("the-source: prepare[0] (Decompress ")
    assert kitchen.leftovers == []
    return caught.value


class Pieces:
    """A stream that gives its data in pieces of given sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data = data
        self._sizes = iter(sizes)
        self._at = 0

    def read(self) -> bytes:
        size = next(self._sizes, len(self._data) or 1)
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def weight(self) -> int:
        return len(self._data)

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@quick
@given(
    contents=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    factor=st.sampled_from([1, 1000, 5000]),
    sizes=st.lists(st.integers(1, 50), max_size=200),
    padding=st.integers(0, 3),
)
def test_gzip_members_at_any_chunk_boundaries(contents, factor, sizes, padding):
    archive = b"".join(
        gzip.compress(content * factor, mtime=0) + bytes(padding) for content in contents
    )
    stream = GunzipStream(Pieces(archive, sizes), "here", Bounds())
    pieces = list(iter(stream.read, b""))
    assert b"".join(pieces) == b"".join(content * factor for content in contents)
    assert max(map(len, pieces), default=0) <= limits.PREPARE_CHUNK


@pytest.mark.parametrize("size", [0, 1, 2**18 - 1, 2**18, 2**18 + 1, 3_000_000])
def test_sizes_around_the_chunk(kitchen: Kitchen, size: int):
    data = noise.randbytes(size)
    assert kitchen.cook(gzip.compress(data, mtime=0), GUNZIP) == data
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert kitchen.cook(zipped(("x", data), method=method), UNZIP) == data
    assert kitchen.cook(gzip.compress(zipped(("x", data))), GUNZIP, UNZIP) == data
    assert kitchen.leftovers == []


@quick
@given(data=st.data())
def test_a_cut_archive_is_never_taken_for_a_whole_one(data, kitchen: Kitchen):
    content = NOISE[: data.draw(st.integers(0, len(NOISE)))]
    archive, step = data.draw(
        st.sampled_from(
            [(gzip.compress(content, mtime=0), GUNZIP), (zipped(("x", content)), UNZIP)]
        )
    )
    cut = data.draw(st.integers(0, len(archive) - 1))
    refused(kitchen, archive[:cut], step)


@quick
@given(data=st.data())
def test_a_tampered_archive_gives_its_data_or_an_error_of_ours(data, kitchen: Kitchen):
    members = [("a/x.csv", NOISE[:500]), ("b.csv", b"y" * 500)]
    archive = bytearray(zipped(*members))
    for _ in range(data.draw(st.integers(1, 6))):
        archive[data.draw(st.integers(0, len(archive) - 1))] = data.draw(st.integers(0, 255))
    try:
        result = kitchen.cook(bytes(archive), unzip("b.csv"))
    except OdfError:
        assert kitchen.leftovers == []
    else:
        assert result in (members[1][1], members[0][1])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b"PK\3\4 is a zip", "no gzip data: it begins with 50 4b 03 04"),
        (
            gzip.compress(b"abc", mtime=0) + b"rest",
            "something else than gzip follows 3 unpacked bytes",
        ),
        (
            gzip.compress(b"abc", mtime=0)[:-4] + b"1234",
            "damaged somewhere after 0 unpacked bytes: incorrect length",
        ),
        (gzip.compress(b"abc" * 9, mtime=0)[:-9], "ends in the middle"),
        (gzip.compress(b"abc", mtime=0) + gzip.compress(b"def", mtime=0)[:7], "ends in the middle"),
    ],
)
def test_what_is_wrong_with_gzip_is_said(kitchen: Kitchen, data: bytes, said: str):
    assert said in refused(kitchen, data, GUNZIP).message


def test_members_are_chosen(kitchen: Kitchen):
    archive = zipped(("readme.txt", b"r"), ("data/a.csv", b"a"), ("data/old/b.csv", b"b"))
    assert kitchen.cook(archive, unzip("data/a.csv")) == b"a"
    assert kitchen.cook(archive, unzip("data/*.csv")) == b"a"
    assert kitchen.cook(archive, unzip("*.txt")) == b"r"
    assert kitchen.cook(archive, unzip("b.*")) == b"b"
    assert kitchen.cook(archive, unzip("**/old/*")) == b"b"
    several = refused(kitchen, archive, unzip("*.csv"))
    assert "matches 2 members" in several.message
    assert several.problems == ("data/a.csv (1 bytes)", "data/old/b.csv (1 bytes)")
    none = refused(kitchen, archive, unzip("c.csv"))
    assert "no member matches subPath 'c.csv'" in none.message
    assert len(none.problems) == 3
    assert "the archive has 3 members" in refused(kitchen, archive, UNZIP).message


def test_folders_and_droppings_of_finder_are_no_members(kitchen: Kitchen):
    archive = zipped(("data/", b""), ("data/a.csv", b"a"), ("__MACOSX/data/._a.csv", b"?"))
    assert kitchen.cook(archive, UNZIP) == b"a"
    assert "no members" in refused(kitchen, zipped(("data/", b"")), UNZIP).message


def test_many_candidates_are_cut(kitchen: Kitchen):
    error = refused(kitchen, zipped(*((f"{n}.csv", b"") for n in range(30))), UNZIP)
    assert error.problems[-1] == "and 20 more"


def test_members_never_become_files(kitchen: Kitchen, tmp_path: Path):
    names = ("../../out.csv", "/etc/out.csv", "a\\..\\out.csv")
    for name in names:
        assert kitchen.cook(zipped((name, b"x")), UNZIP) == b"x"
    assert [path for path in tmp_path.rglob("*") if path.name.endswith("out.csv")] == []


@quick
@given(
    names=st.lists(st.text("ab/*.", min_size=1, max_size=8), max_size=5),
    sub_path=st.text("ab/*.?[", min_size=1, max_size=8),
)
def test_globs_agree_with_a_plain_definition(names, sub_path):
    from fnmatch import fnmatchcase

    def matches(pattern: list[str], parts: list[str]) -> bool:
        if not pattern:
            return not parts
        if pattern[0] == "**":
            return any(matches(pattern[1:], parts[n:]) for n in range(len(parts) + 1))
        return bool(parts) and fnmatchcase(parts[0], pattern[0]) and matches(pattern[1:], parts[1:])

    pattern = sub_path.split("/") if "/" in sub_path else ["**", sub_path]
    wanted = [n for n, name in enumerate(names) if name == sub_path] or [
        n for n, name in enumerate(names) if matches(pattern, name.split("/"))
    ]
    assert matching(sub_path, names) == wanted


def test_encrypted_members_are_refused(kitchen: Kitchen):
    archive = bytearray(zipped(("secret.csv", b"x")))
    for signature, flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
        archive[archive.index(signature) + flags] |= 1
    assert "'secret.csv' is encrypted" in refused(kitchen, bytes(archive), UNZIP).message


def test_other_methods_are_refused_by_name(kitchen: Kitchen):
    archive = zipped(("x", b"x"), method=zipfile.ZIP_BZIP2)
    assert "method bzip2" in refused(kitchen, archive, UNZIP).message


@pytest.mark.parametrize("kind", ["gzip", "zip", "gzip in zip"])
def test_bombs_end_early(tmp_path: Path, kind: str):
    kitchen = Kitchen(tmp_path, bounds=Bounds(ratio_from=1 << 20))
    content = bytes(40 << 20)
    match kind:
        case "gzip":
            archive, steps = gzip.compress(content, mtime=0), [GUNZIP]
        case "zip":
            archive, steps = zipped(("x", content)), [UNZIP]
        case _:
            # Neither step alone is out of proportion to what it reads.
            archive, steps = zipped(("x", gzip.compress(content, mtime=0))), [UNZIP, GUNZIP]
    with pytest.raises(BadInputError) as caught:
        kitchen.cook(archive, *steps)
    assert caught.value.reason == "archive_bomb"
    assert kitchen.leftovers == []


def test_what_compresses_well_is_no_bomb(kitchen: Kitchen):
    content = b"1,2\n" * 2_000_000
    assert kitchen.cook(gzip.compress(content, mtime=0), GUNZIP) == content


def test_absolute_size_is_bounded(tmp_path: Path):
    kitchen = Kitchen(tmp_path, bounds=Bounds(max_size=1000))
    assert len(kitchen.cook(gzip.compress(bytes(1000)), GUNZIP)) == 1000
    assert refused(kitchen, gzip.compress(bytes(1001)), GUNZIP).reason == "too_large"
    with pytest.raises(BadInputError, match="more than 1000 bytes come out"):
        kitchen.cook(b"", pipe("head", "-c", "1001", "/dev/zero"))


def test_a_large_table_of_contents_is_not_read(kitchen: Kitchen, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("odf.ingest.prepare.unzip._TOO_MUCH", 70_000)
    assert kitchen.cook(zipped(("x" * 9, b"y")), UNZIP) == b"y"
    archive = zipped(*((f"{n:060}", b"") for n in range(1000)))
    assert refused(kitchen, archive, UNZIP).reason == "too_large"


def test_leftovers_of_a_killed_pull_are_removed(kitchen: Kitchen):
    left = prepare([GUNZIP], kitchen.file(gzip.compress(b"x", mtime=0)), "x", kitchen.context())
    other = left.with_name("download")
    other.touch()
    remove_leftovers(kitchen.folder)
    assert kitchen.leftovers == [other]


def test_steps_are_checked_without_data():
    assert check_steps([GUNZIP, unzip("a/*.csv"), pipe("cat")]) == ()
    gzip_with_path = PrepStepDecompress(format=CompressionFormat.GZIP, sub_path="x")
    assert "prepare[1] (Decompress gzip): subPath" in check_steps([UNZIP, gzip_with_path])[0]
    for step in (pipe(), pipe(""), unzip("")):
        with pytest.raises(BadInputError, match=r"prepare\[0\]"):
            check_steps([step])


@pytest.mark.parametrize(
    ("file", "step"),
    [
        ("countries.csv.gz", GUNZIP),
        ("chinese.csv.gz", GUNZIP),
        ("countries.zip", UNZIP),
        ("countries.zip", unzip("*.csv")),
        ("two-members.zip", unzip("countries.csv")),
        ("two-members.zip", unzip("count*")),
        ("countries.csv.bz2", pipe("bzip2", "-dc")),
    ],
)
def test_real_archives(file: str, step, kitchen: Kitchen, real_data: Callable[[str], Path]):
    import csv

    folder = real_data("f1")
    content = kitchen.cook(folder / file, step).decode("utf-8")
    canonical = (folder / "canonical" / f"{file}.utf8.csv").read_text("utf-8")
    rows = list(csv.reader(io.StringIO(content)))
    assert rows == list(csv.reader(io.StringIO(canonical)))
    assert len(rows) - 1 == json.loads((folder / "expected.json").read_text())[file]["rows"]


def test_a_real_archive_with_more_members_lists_them(
    kitchen: Kitchen, real_data: Callable[[str], Path]
):
    with pytest.raises(BadInputError) as caught:
        kitchen.cook(real_data("f1") / "two-members.zip", UNZIP)
    assert "the archive has 3 members; wanted one" in caught.value.message
    assert "countries.csv (24583 bytes)" in caught.value.problems

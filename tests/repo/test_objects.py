"""Staged files: hashed again before they are placed, unless nothing has touched them since."""

import os
from pathlib import Path

import pytest

from odf.errors import IntegrityError
from odf.metadata.multiformats import Multihash
from odf.repo.objects import FileStamp, StagedObject, place
from odf.store.local import LocalObjectStore

BYTES = bytes(range(256)) * 40


@pytest.fixture
def store(tmp_path: Path) -> LocalObjectStore:
    return LocalObjectStore(tmp_path / "data")


@pytest.fixture
def staged(tmp_path: Path) -> StagedObject:
    path = tmp_path / "slice"
    path.write_bytes(BYTES)
    return StagedObject("data", path, Multihash.sha3_256(BYTES), FileStamp.settled(path))


def overwrite(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(b"!")


def test_an_untouched_file_is_moved_to_its_name(
    staged: StagedObject, store: LocalObjectStore
) -> None:
    ref = place(store, staged)
    assert (ref.hash, ref.size) == (staged.hash, len(BYTES))
    assert store.get(str(staged.hash), len(BYTES)) == BYTES
    assert not staged.path.exists()


def test_who_hashed_an_untouched_file_is_believed(tmp_path: Path, store: LocalObjectStore) -> None:
    path = tmp_path / "slice"
    path.write_bytes(BYTES)
    other = Multihash.sha3_256(b"other bytes")
    place(store, StagedObject("data", path, other, FileStamp.settled(path)))
    assert store.get(str(other), len(BYTES)) == BYTES


@pytest.mark.parametrize("how", ["in place", "other file", "longer", "with its old times"])
def test_what_changed_since_is_refused(
    staged: StagedObject, store: LocalObjectStore, how: str
) -> None:
    before = staged.path.stat()
    if how == "other file":
        staged.path.unlink()
        staged.path.write_bytes(BYTES[::-1])
    elif how == "longer":
        staged.path.write_bytes(BYTES + b"!")
    else:
        overwrite(staged.path, 1000)
    if how == "with its old times":
        os.utime(staged.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(IntegrityError, match="not the object that it was announced as"):
        place(store, staged)
    assert list(store.keys()) == []


def test_a_file_that_nobody_stamped_is_hashed(tmp_path: Path, store: LocalObjectStore) -> None:
    path = tmp_path / "slice"
    path.write_bytes(BYTES)
    with pytest.raises(IntegrityError, match="not the object that it was announced as"):
        place(store, StagedObject("data", path, Multihash.sha3_256(b"other bytes")))

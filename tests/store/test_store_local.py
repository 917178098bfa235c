"""What only files can do wrong."""

import os
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from odf.errors import AuthError, ConflictError, IntegrityError, TransportError
from odf.store.files import move_file
from odf.store.local import LocalObjectStore, LocalReferenceStore


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_reference_has_no_newline_and_is_read_with_one(tmp_path):
    references = LocalReferenceStore(tmp_path)
    references.set("head", "f1620aa", None)
    assert (tmp_path / "head").read_bytes() == b"f1620aa"
    (tmp_path / "head").write_bytes(b" f1620aa\r\n")
    assert references.get("head") == "f1620aa"


def test_no_staging_file_is_left_or_listed(tmp_path):
    store = LocalObjectStore(tmp_path)
    store.put("a", b"x")
    (tmp_path / ".pending-1234").write_bytes(b"crashed")
    assert list(store.keys()) == ["a"]
    assert names(tmp_path) == [".pending-1234", "a"]


def test_a_write_that_fails_leaves_nothing(tmp_path):
    store = LocalObjectStore(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(TransportError, match="cannot write"):
        store.put("a", b"x")
    assert names(tmp_path) == ["a"]


def test_links_and_pipes_are_not_followed(tmp_path):
    store = LocalObjectStore(tmp_path / "s")
    store.put("plain", b"x")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "s" / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "s" / "pipe")
    assert not store.has("link")
    assert not store.has("pipe")
    assert list(store.keys()) == ["plain"]
    for key in ("link", "pipe"):
        with pytest.raises(IntegrityError, match="plain file"):
            store.get(key, 100)


def test_writing_over_a_link_replaces_the_link(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    store = LocalObjectStore(tmp_path / "s")
    store.put("a", b"x")
    (tmp_path / "s" / "b").symlink_to(outside)
    store.put("b", b"y")
    assert outside.read_text() == "mine"
    assert store.get("b", 1) == b"y"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_named(tmp_path):
    store = LocalObjectStore(tmp_path)
    store.put("a", b"x")
    (tmp_path / "a").chmod(0)
    with pytest.raises(AuthError, match="not allowed to read"):
        store.get("a", 1)


def test_moves_between_file_systems(tmp_path):
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("only one file system here")
    with TemporaryDirectory(dir=other) as folder:
        source = Path(folder) / "made"
        source.write_bytes(b"x" * 1_000_000)
        move_file(source, tmp_path / "a")
        assert not source.exists()
    assert (tmp_path / "a").read_bytes() == b"x" * 1_000_000
    assert names(tmp_path) == ["a"]


def test_only_one_of_many_threads_wins_a_swap(tmp_path):
    references = LocalReferenceStore(tmp_path)
    references.set("head", "start", None)
    won: list[int] = []
    gate = threading.Barrier(8)

    def swap(number: int) -> None:
        gate.wait()
        try:
            references.set("head", f"by-{number}", "start")
        except ConflictError:
            return
        won.append(number)

    threads = [threading.Thread(target=swap, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert references.get("head") == f"by-{won[0]}"

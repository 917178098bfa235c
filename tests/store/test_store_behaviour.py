"""One behaviour for every store: what is written here is promised by `odf.store.base`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odf.errors import ConflictError, IntegrityError, NotFoundError, UsageError
from odf.store.base import InvalidKeyError, ObjectStore, ReferenceStore
from odf.store.http import HttpClient, HttpObjectStore, HttpReferenceStore
from odf.store.local import LocalObjectStore, LocalReferenceStore
from odf.store.memory import MemoryObjectStore, MemoryReferenceStore

BAD_KEYS = ["", ".", "..", ".hidden", "a/b", "../x", "a\\b", "a b", "é", "a\n", "x" * 201, "\0"]


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path) -> ObjectStore:
    if request.param == "local":
        return LocalObjectStore(tmp_path / "objects")
    return MemoryObjectStore()


@pytest.fixture(params=["local", "memory", "http"])
def filled(request, tmp_path, serve, client) -> ObjectStore:
    """A store that holds `small` and `large`; over HTTP it can only be read."""
    objects = {"small": b"hello", "large": bytes(range(256)) * 4096}
    if request.param == "memory":
        memory = MemoryObjectStore()
        memory.put_many(iter(objects.items()))
        return memory
    local = LocalObjectStore(tmp_path / "objects")
    local.put_many(iter(objects.items()))
    if request.param == "local":
        return local
    return HttpObjectStore(serve(tmp_path / "objects"), client)


@pytest.fixture(params=["local", "memory"])
def references(request, tmp_path) -> ReferenceStore:
    if request.param == "local":
        return LocalReferenceStore(tmp_path / "refs")
    return MemoryReferenceStore()


def test_reads_what_is_there(filled):
    assert filled.has("small")
    assert filled.size("small") == 5
    assert filled.get("small", 5) == b"hello"
    assert b"".join(filled.chunks("large", 2**20)) == bytes(range(256)) * 4096
    with filled.open("large") as file:
        assert file.read(3) == b"\0\1\2"
        assert len(file.read()) == 2**20 - 3


def test_says_what_is_not_there(filled):
    assert not filled.has("other")
    for read in (
        lambda: filled.size("other"),
        lambda: filled.get("other", 10),
        lambda: list(filled.chunks("other", 10)),
        lambda: filled.open("other").read(),
    ):
        with pytest.raises(NotFoundError, match="other"):
            read()


def test_reads_no_more_than_was_asked_for(filled):
    with pytest.raises(IntegrityError, match="4 bytes"):
        filled.get("small", 4)
    with pytest.raises(IntegrityError, match="1048575 bytes"):
        list(filled.chunks("large", 2**20 - 1))


@pytest.mark.parametrize("key", BAD_KEYS)
def test_refuses_keys_that_are_not_names(filled, key):
    reads: list[Callable[[], object]] = [
        lambda: filled.has(key),
        lambda: filled.size(key),
        lambda: filled.get(key, 1),
        lambda: list(filled.chunks(key, 1)),
        lambda: filled.open(key).read(),
        lambda: filled.local_path(key),
        lambda: filled.put(key, b""),
        lambda: filled.put_chunks(key, iter([b""])),
        lambda: filled.put_many(iter([(key, b"")])),
        lambda: filled.put_file(key, Path(__file__)),
        lambda: filled.delete(key),
    ]
    for read in reads:
        with pytest.raises(InvalidKeyError):
            read()


def test_writes_replaces_lists_and_deletes(store):
    assert list(store.keys()) == []
    store.put("a", b"1")
    store.put("a", b"2")
    store.put_many(iter([("b", b"3"), ("c", b"")]))
    assert sorted(store.keys()) == ["a", "b", "c"]
    assert [store.get(key, 1) for key in "abc"] == [b"2", b"3", b""]
    store.delete("a")
    store.delete("a")
    assert not store.has("a")
    assert sorted(store.keys()) == ["b", "c"]


@pytest.mark.parametrize("move", [True, False])
def test_takes_a_file(store, tmp_path, move):
    path = tmp_path / "made"
    path.write_bytes(b"slice" * 100_000)
    store.put_file("slice", path, move=move)
    assert b"".join(store.chunks("slice", 500_000)) == b"slice" * 100_000
    assert path.exists() is not move


def test_takes_pieces(store):
    store.put_chunks("a", iter([b"one", b"", b"two"]))
    assert store.get("a", 6) == b"onetwo"


def test_pieces_that_end_in_an_error_write_nothing(store):
    def pieces():
        yield b"half"
        raise IntegrityError("wrong hash")

    store.put("old", b"old")
    for key in ("old", "new"):
        with pytest.raises(IntegrityError, match="wrong hash"):
            store.put_chunks(key, pieces())
    assert list(store.keys()) == ["old"]
    assert store.get("old", 3) == b"old"


def test_a_failed_write_leaves_what_was_there(store):
    store.put("a", b"old")

    def items():
        yield "b", b"new"
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        store.put_many(items())
    assert store.get("a", 3) == b"old"


def test_references_change_only_from_what_was_expected(references):
    assert references.get("head") is None
    assert references.names() == ()
    references.set("head", "one", None)
    references.set("head", "two", "one")
    for expected in (None, "one", "three"):
        with pytest.raises(ConflictError, match="two"):
            references.set("head", "four", expected)
    references.set("backup-1", "one", None)
    assert references.get("head") == "two"
    assert references.names() == ("backup-1", "head")


def test_references_go_only_from_what_was_expected(references):
    with pytest.raises(ConflictError, match="got no reference"):
        references.delete("staged", "one")
    references.set("staged", "one", None)
    references.set("head", "one", None)
    with pytest.raises(ConflictError, match="wanted two, got one"):
        references.delete("staged", "two")
    references.delete("staged", "one")
    assert references.get("staged") is None
    assert references.names() == ("head",)
    references.set("staged", "three", None)
    assert references.get("staged") == "three"


@pytest.mark.parametrize("key", BAD_KEYS)
def test_references_are_names_too(references, key):
    with pytest.raises(InvalidKeyError):
        references.delete(key, "x")
    with pytest.raises(InvalidKeyError):
        references.get(key)
    with pytest.raises(InvalidKeyError):
        references.set(key, "x", None)


def test_reference_over_http(tmp_path, serve, client):
    local = LocalReferenceStore(tmp_path)
    remote = HttpReferenceStore(serve(tmp_path), client)
    assert remote.get("head") is None
    assert remote.names() == ()
    local.set("head", "f1620", None)
    (tmp_path / "long").write_text("x" * 1000)
    assert remote.get("head") == "f1620"
    assert remote.names() == ("head",)
    with pytest.raises(IntegrityError, match="256"):
        remote.get("long")
    with pytest.raises(UsageError, match="not written"):
        remote.set("head", "f1621", "f1620")
    with pytest.raises(UsageError, match="not written"):
        remote.delete("head", "f1620")
    assert local.get("head") == "f1620"


def test_http_is_read_only(serve, tmp_path, client: HttpClient):
    store = HttpObjectStore(serve(tmp_path), client)
    writes: list[Callable[[], object]] = [
        lambda: store.put("a", b""),
        lambda: store.put_chunks("a", iter([b""])),
        lambda: store.put_many(iter([("a", b"")])),
        lambda: store.put_file("a", Path(__file__)),
        lambda: store.delete("a"),
        lambda: list(store.keys()),
    ]
    for write in writes:
        with pytest.raises(UsageError):
            write()

"""Files on their way to an engine and back, with an engine that cheats."""

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from odf.errors import EngineError, NotFoundError
from odf.runtimes.exchange import Exchange, Operation


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path / "in", tmp_path / "out", "/odf/in", "/odf/out", link=True)


@pytest.fixture
def operation(exchange: Exchange) -> Iterator[Operation]:
    with exchange.operation() as opened:
        yield opened


def out_folder(operation: Operation) -> Path:
    return operation.output("x")[0].parent


def test_inputs_are_linked_where_the_engine_cannot_write(
    exchange: Exchange, operation: Operation, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text("rows")
    inside = operation.add_input(source, "slice-1")
    shown = exchange.host_in / Path(inside).relative_to("/odf/in")
    assert shown.samefile(source)
    operation.close()
    assert source.read_text() == "rows"
    assert not shown.exists()


def test_inputs_are_copied_where_it_could(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("rows")
    exchange = Exchange(tmp_path / "in", tmp_path / "out", "a", "b", link=False)
    with exchange.operation() as operation:
        operation.add_input(source, "slice-1")
        (shown,) = (tmp_path / "in").glob("*/slice-1")
        assert not shown.samefile(source)
        shown.write_text("changed")
    assert source.read_text() == "rows"


def test_inputs_are_copied_where_links_do_not_work(
    operation: Operation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "other file system")

    monkeypatch.setattr(os, "link", no_link)
    source = tmp_path / "source"
    source.write_text("rows")
    operation.add_input(source, "slice-1")
    (shown,) = (tmp_path / "in").glob("*/slice-1")
    assert shown.read_text() == "rows"
    assert shown.stat().st_nlink == 1


def test_a_linked_input_is_shown_as_the_file_itself(operation: Operation, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("rows")
    link = tmp_path / "link"
    link.symlink_to(source)
    operation.add_input(link, "slice-1")
    (shown,) = (tmp_path / "in").glob("*/slice-1")
    assert not shown.is_symlink()


def test_a_missing_input(operation: Operation, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="gone"):
        operation.add_input(tmp_path / "gone", "slice-1")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "/etc/passwd", "-rf", "a\0b", ".x"])
def test_names_are_plain(operation: Operation, tmp_path: Path, name: str) -> None:
    with pytest.raises(EngineError, match="cannot be the name"):
        operation.add_input(tmp_path, name)
    with pytest.raises(EngineError, match="cannot be the name"):
        operation.output(name)
    with pytest.raises(EngineError, match="cannot be the name"):
        operation.take_output(name, tmp_path / "to")


def test_an_output_is_moved_away(operation: Operation, tmp_path: Path) -> None:
    here, inside = operation.output("data")
    assert inside == f"/odf/out/{here.parent.name}/data"
    here.write_text("rows")
    assert operation.take_output("data", tmp_path / "to")
    assert (tmp_path / "to").read_text() == "rows"
    assert not here.exists()
    assert not operation.take_output("data", tmp_path / "again")


def test_the_place_of_an_output_must_be_free(operation: Operation, tmp_path: Path) -> None:
    operation.output("data")[0].write_text("rows")
    (tmp_path / "to").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EngineError, match="is taken"):
        operation.take_output("data", tmp_path / "to")


@pytest.fixture(params=["by the system", "by hand"])
def far(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy outputs as this file system can, and as others have to."""
    if request.param == "by hand":

        def no_copy(*_: object) -> int:
            raise OSError(errno.EXDEV, "other file system")

        monkeypatch.setattr(os, "copy_file_range", no_copy)


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize("what", ["symbolic link", "folder", "special file", "2 names"])
def test_only_plain_files_are_taken(operation: Operation, tmp_path: Path, what: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("not yours")
    here = operation.output("data")[0]
    match what:
        case "symbolic link":
            here.symlink_to(victim)
        case "folder":
            (here / "inner").mkdir(parents=True)
        case "special file":
            os.mkfifo(here)
        case _:
            here.hardlink_to(victim)
    with pytest.raises(EngineError, match=f"left a.* {what}|left a {what}"):
        operation.take_output("data", tmp_path / "to")
    assert not os.path.lexists(tmp_path / "to")
    assert victim.read_text() == "not yours"


@pytest.mark.usefixtures("far")
def test_what_the_engine_still_holds_is_not_what_was_taken(
    operation: Operation, tmp_path: Path
) -> None:
    here = operation.output("data")[0]
    here.write_bytes(b"rows" * 100_000)
    with here.open("r+b") as held, mmap.mmap(held.fileno(), 0) as mapped:
        assert operation.take_output("data", tmp_path / "to")
        mapped[:4] = b"evil"
        mapped.flush()
        held.write(b"evil")
        held.truncate(8)
    assert (tmp_path / "to").read_bytes() == b"rows" * 100_000


@pytest.mark.usefixtures("far")
def test_plain_files_are_taken_in_both_ways(operation: Operation, tmp_path: Path) -> None:
    here = operation.output("data")[0]
    here.write_text("rows")
    assert operation.take_output("data", tmp_path / "to")
    assert (tmp_path / "to").read_text() == "rows"
    assert not here.exists()
    assert not operation.take_output("data", tmp_path / "again")


def test_an_exchanged_folder_leads_nowhere(operation: Operation, tmp_path: Path) -> None:
    """The engine owns the folder above its own and can put a link in its place."""
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "data").write_text("not yours")
    folder = out_folder(operation)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(victim)

    assert not operation.take_output("data", tmp_path / "to")
    operation.scratch()
    operation.close()

    assert (victim / "data").read_text() == "not yours"
    assert sorted(path.name for path in victim.iterdir()) == ["data"]


def test_operations_do_not_share_folders(exchange: Exchange) -> None:
    with exchange.operation() as one, exchange.operation() as two:
        assert out_folder(one) != out_folder(two)
        assert out_folder(one).stat().st_mode & 0o777 == 0o700


def test_closing_removes_everything(exchange: Exchange, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_text("rows")
    with exchange.operation() as operation:
        operation.add_input(source, "a")
        scratch = operation.scratch()
        assert operation.scratch() == scratch
        (out_folder(operation) / "scratch" / "deep").mkdir()
    assert list(exchange.host_in.iterdir()) == list(exchange.host_out.iterdir()) == []
    operation.close()
    exchange.close()
    assert not exchange.host_in.exists()

"""Every kind of corruption is found, and the report says where."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from odf.errors import NotFoundError
from odf.metadata.flatbuffers import encode_block
from odf.metadata.model import AddData, MetadataBlock, OffsetInterval, SetInfo, Timestamp
from odf.metadata.multiformats import Multihash
from odf.repo.dataset import Dataset
from odf.repo.layout import DatasetStores
from odf.repo.urls import source_at
from odf.repo.verify import IntegrityReport, Severity, verify_integrity

NOW = Timestamp.parse("2026-06-01T00:00:00Z")


@pytest.fixture
def dataset(local, maker) -> Dataset:
    made = maker.full(local)
    maker.add_rows(made, checkpoint=b"state of an engine")
    return made


def check(dataset: Dataset) -> IntegrityReport:
    return verify_integrity(Dataset(dataset.stores), now=NOW)


def errors(report: IntegrityReport) -> list[str]:
    return [one.message for one in report.findings if one.severity is Severity.ERROR]


def forge(dataset: Dataset, event, time=NOW, number=None) -> Multihash:
    head = dataset.head()
    assert head is not None
    number = dataset.block(head).sequence_number + 1 if number is None else number
    data = encode_block(MetadataBlock(time, head, number, event))
    at = Multihash.sha3_256(data)
    dataset.stores.blocks.put(str(at), data)
    dataset.stores.refs.set("head", str(at), dataset.stores.refs.get("head"))
    return at


def test_a_sound_dataset(dataset, stores, maker):
    report = check(dataset)
    assert report == IntegrityReport(dataset.head(), 5, 4, ())
    assert report.valid
    assert check(maker.full(stores) if stores.refs.get("head") is None else dataset).valid


@pytest.mark.usefixtures("dataset")
def test_over_http(tmp_path, serve, client):
    stores = source_at(serve(tmp_path / "dataset")[0], client)
    assert verify_integrity(Dataset(stores), now=NOW).findings == ()


def test_nothing_there(local):
    with pytest.raises(NotFoundError):
        verify_integrity(Dataset(local))


def test_what_is_remembered_is_not_read(dataset, tmp_path):
    head = tmp_path / "dataset" / "blocks" / str(dataset.head())
    head.write_bytes(head.read_bytes() + b"x")
    assert not check(dataset).valid


def test_every_flipped_bit_of_every_block_and_object_is_found(dataset, tmp_path):
    """One bit in each byte of blocks and checkpoints, and at many places of slices."""
    folder = tmp_path / "dataset"
    tried = 0
    for name in ("blocks", "checkpoints", "data"):
        for path in sorted((folder / name).iterdir()):
            good = path.read_bytes()
            step = {"blocks": 23, "checkpoints": 1, "data": 97}[name]
            for place in range(0, len(good), step):
                bit = 1 << (place % 8)
                path.write_bytes(good[:place] + bytes([good[place] ^ bit]) + good[place + 1 :])
                found = check(dataset).findings
                assert any(
                    one.severity is Severity.ERROR
                    and path.name in (str(one.block), (one.object or "").partition("/")[2])
                    for one in found
                ), f"{name}/{path.name} byte {place}"
                tried += 1
            path.write_bytes(good)
    assert check(dataset).valid
    assert tried > 150


@pytest.mark.parametrize("folder", ["blocks", "data", "checkpoints"])
@pytest.mark.parametrize("how", ["missing", "truncated", "empty", "longer", "swapped"])
def test_damaged_files(dataset, tmp_path, folder, how):
    paths = sorted((tmp_path / "dataset" / folder).iterdir())
    path = paths[0]
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "swapped":
        path.write_bytes(paths[-1].read_bytes() if len(paths) > 1 else bytes(len(data)))
    else:
        path.write_bytes({"truncated": data[:-1], "empty": b"", "longer": data + b"\0"}[how])
    report = check(dataset)
    assert not report.valid
    assert any(
        path.name in (str(one.block), (one.object or "").partition("/")[2])
        for one in report.findings
        if one.severity is Severity.ERROR
    )


@pytest.mark.parametrize("text", ["", "x", "f1620" + "0" * 64])
def test_a_damaged_head(dataset, tmp_path, text):
    (tmp_path / "dataset" / "refs" / "head").write_text(text)
    assert not check(dataset).valid


def test_a_finding_names_block_number_object_wanted_and_got(dataset, tmp_path):
    hashes = [at for at, _ in dataset.blocks()]
    event = dataset.block(hashes[1]).event
    assert isinstance(event, AddData)
    assert event.new_data is not None
    ref = event.new_data.physical_hash
    path = tmp_path / "dataset" / "data" / str(ref)
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    got = Multihash.sha3_256(path.read_bytes())
    (finding,) = check(dataset).findings
    assert (finding.block, finding.sequence_number) == (hashes[1], 3)
    assert finding.object == f"data/{ref}"
    assert finding.message == (f"the slice is corrupt: wanted bytes that hash to {ref}, got {got}")


def test_it_goes_on_after_a_finding(dataset, tmp_path):
    blocks = [at for at, _ in dataset.blocks()]
    for at in blocks[1:4:2]:
        path = tmp_path / "dataset" / "blocks" / str(at)
        path.write_bytes(path.read_bytes() + b"\0\0\0\0")
    for path in (tmp_path / "dataset" / "data").iterdir():
        path.unlink()
    report = check(dataset)
    assert report.blocks == 5
    assert [one.sequence_number for one in report.findings] == [1, 2, 3, 3, 4]
    assert [one.object is not None for one in report.findings] == [False, True, False, True, True]


def test_what_is_above_a_hole_is_still_checked(dataset, tmp_path):
    blocks = [at for at, _ in dataset.blocks()]
    (tmp_path / "dataset" / "blocks" / str(blocks[3])).unlink()
    for path in (tmp_path / "dataset" / "checkpoints").iterdir():
        path.unlink()
    report = check(dataset)
    assert report.blocks == 4
    assert errors(report) == ["the block is missing", "the checkpoint is missing"]
    assert report.findings[-1].severity is Severity.UNCHECKED


def test_broken_rules_and_rules_of_ours(dataset):
    at = forge(dataset, AddData())
    forge(dataset, SetInfo("same"))
    forge(dataset, SetInfo("same"))
    report = check(dataset)
    broken = [one for one in report.findings if one.severity is Severity.ERROR]
    assert {one.block for one in broken} == {at}
    assert "breaks the rule empty-add-data" in broken[0].message
    (warning,) = [one for one in report.findings if one.severity is Severity.WARNING]
    assert warning.sequence_number == 7


def test_times(dataset):
    forge(dataset, SetInfo("future"), Timestamp(NOW.epoch_ns + 3600 * 10**9))
    forge(dataset, SetInfo("past"), Timestamp.parse("2020-01-01T00:00:00Z"))
    found = errors(check(dataset))
    assert len(found) == 2
    assert "from the future" in found[0]
    assert "time goes back" in found[1]


def test_wrong_numbers(dataset):
    forge(dataset, SetInfo("x"), number=9)
    assert any("sequence number" in message for message in errors(check(dataset)))


def _forge_slice(dataset: Dataset, maker, change=None, **recorded) -> list[str]:
    """Add a slice whose block or whose content is not as it should be; return what is found."""
    import pyarrow as pa

    start = dataset.state().next_offset
    columns = [
        [start, start + 1],
        [0, 0],
        [0, 0],
        [1_600_000_000_000] * 2,
        ["Bonn", "Kyiv"],
        [3, 4],
    ]
    table = pa.table(
        [pa.array(v, f.type) for v, f in zip(columns, maker.schema(), strict=True)],
        schema=maker.schema(),
    )
    event, (staged,) = maker.proposal(dataset, change(table) if change else table)
    dataset.stores.data.put_file(str(staged.hash), staged.path)
    assert event.new_data is not None
    event = replace(event, prev_checkpoint=dataset.state().checkpoint.physical_hash)
    forge(dataset, replace(event, new_data=replace(event.new_data, **recorded)))
    found = [one for one in check(dataset).findings if one.severity is Severity.ERROR]
    assert {one.object for one in found} <= {f"data/{staged.hash}", None}
    return [one.message for one in found]


def test_a_sound_forgery_is_no_finding(dataset, maker):
    assert _forge_slice(dataset, maker) == []


def test_a_wrong_logical_hash(dataset, maker):
    other = dataset.state().last_add_data.new_data.logical_hash
    (message,) = _forge_slice(dataset, maker, logical_hash=other)
    assert message.startswith(f"wrong logical hash: wanted {other}, got f9680c0")


def test_wrong_offsets(dataset, maker):
    found = _forge_slice(dataset, maker, offset_interval=OffsetInterval(6, 8))
    assert found == [
        "wrong last offset: wanted 8, got 7",
        "wrong number of rows: wanted 3, got 2",
    ]


def test_a_wrong_size(dataset, maker):
    (message,) = _forge_slice(dataset, maker, size=5)
    assert "wanted 5 bytes, got" in message


def test_a_column_of_another_type(dataset, maker):
    import pyarrow as pa

    def change(table):
        return table.set_column(5, "population", table["population"].cast(pa.int32()))

    (message,) = _forge_slice(dataset, maker, change)
    assert "differs from the recorded schema" in message
    assert "population" in message


def test_a_slice_that_breaks_its_contract(dataset, maker):
    import pyarrow as pa

    def change(table):
        return table.set_column(1, table.schema.field("op"), pa.array([0, 9], pa.int32()))

    (message,) = _forge_slice(dataset, maker, change)
    assert "breaks its contract" in message
    assert "9" in message


def test_bytes_that_are_no_slice(dataset, maker):
    junk = maker.staged("data", b"junk")
    dataset.stores.data.put_file(str(junk.hash), junk.path)
    last = dataset.state().last_add_data
    data = replace(
        last.new_data, physical_hash=junk.hash, size=4, offset_interval=OffsetInterval(6, 7)
    )
    forge(
        dataset,
        AddData(
            prev_checkpoint=dataset.state().checkpoint.physical_hash,
            prev_offset=5,
            new_data=data,
            new_watermark=last.new_watermark,
        ),
    )
    (message,) = errors(check(dataset))
    assert message.startswith("the slice cannot be read")


def test_a_chain_that_is_not_understood(dataset, maker):
    maker.add_unknown_event(dataset)
    report = check(dataset)
    assert report.valid
    assert [one.severity for one in report.findings] == [Severity.UNCHECKED]
    assert "does not understand" in report.findings[0].message


def test_a_block_that_points_up_does_not_trap(dataset, tmp_path):
    """A damaged block whose link leads back above it."""
    blocks = [at for at, _ in dataset.blocks()]
    path = tmp_path / "dataset" / "blocks" / str(blocks[2])
    data = path.read_bytes()
    path.write_bytes(data.replace(blocks[3].to_bytes(), blocks[0].to_bytes()))
    report = check(dataset)
    assert any("which is above it" in message for message in errors(report))


def test_verification_leaves_the_dataset_alone(dataset, tmp_path):
    folder = tmp_path / "dataset"
    shutil.copytree(folder, tmp_path / "copy")
    check(dataset)
    for path in folder.rglob("*"):
        if path.is_file():
            twin = tmp_path / "copy" / path.relative_to(folder)
            assert path.read_bytes() == twin.read_bytes()


def test_from_memory(maker):
    stores = DatasetStores.memory()
    dataset = maker.full(stores)
    assert check(dataset).valid
    key = next(stores.data.keys())
    stores.data.put(key, stores.data.get(key, 2**20)[:-1])
    assert not check(dataset).valid


def test_scratch_is_left_nowhere(maker, tmp_path, monkeypatch):
    import tempfile

    scratch = tmp_path / "temp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    check(maker.full(DatasetStores.memory()))
    assert list(Path(scratch).iterdir()) == []

"""Blocks and tables as FlatBuffers: exact bytes, round trips, hostile bytes."""

import contextlib

import flatbuffers
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odf.errors import OdfError
from odf.limits import MAX_BLOCK_SIZE
from odf.metadata.buffers import BufferReader, BufferWriter, MalformedBufferError
from odf.metadata.flatbuffers import (
    LAYOUTS,
    MalformedBlockError,
    UnwritableError,
    block_hash,
    block_layout,
    decode_block,
    decode_link,
    decode_table,
    encode_block,
    encode_table,
)
from odf.metadata.json import from_json
from odf.metadata.model import (
    AddPushSource,
    DatasetVocabulary,
    DataTypeList,
    DataTypeNull,
    DataTypeOption,
    MergeStrategyAppend,
    MetadataBlock,
    OffsetInterval,
    ReadStepCsv,
    SetInfo,
    SetPollingSource,
    TemporalTable,
    TransformSql,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.timestamp import Timestamp
from tests.metadata.model_strategies import EVENT_TYPES, blocks, tables

slow = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


@pytest.fixture(scope="module")
def golden(vectors):
    return vectors("metadata-blocks")["vectors"]


def test_golden_blocks_are_written_byte_for_byte(golden):
    for vector in golden:
        block = from_json(MetadataBlock, vector["block"])
        for layout in (2, 3):
            data = encode_block(block, layout)
            assert data.hex() == vector[f"v{layout}"]["bytesHex"], vector["name"]
            assert str(block_hash(data)) == vector[f"v{layout}"]["multihash"]


def test_golden_blocks_are_read_and_written_back(golden):
    for vector in golden:
        for layout in (2, 3):
            data = bytes.fromhex(vector[f"v{layout}"]["bytesHex"])
            assert decode_block(data) == from_json(MetadataBlock, vector["block"])
            assert block_layout(data) == layout
            assert encode_block(decode_block(data), layout) == data


def test_the_annotated_example_of_the_wire_format():
    block = MetadataBlock(Timestamp.parse("2050-01-01T12:00:00Z"), None, 0, SetInfo("foo"))
    data = encode_block(block)
    assert len(data) == 112
    assert str(block_hash(data)) == (
        "f16205603b882241c71351baf996d6dba7e3ddbd571457e93c1cd282bdc61f9fed5f2"
    )
    assert len(encode_block(block, 3)) == 120


def test_the_writer_agrees_with_the_flatbuffers_library():
    """One table with every kind of slot, written by both."""
    theirs = flatbuffers.Builder()
    text = theirs.CreateString("häß")
    blob = theirs.CreateByteVector(b"12345")
    theirs.StartVector(4, 2, 4)
    theirs.PrependUOffsetTRelative(text)
    theirs.PrependUOffsetTRelative(blob)
    vector = theirs.EndVector()
    theirs.StartObject(7)
    theirs.PrependUint64Slot(1, 7, None)
    theirs.PrependUint8Slot(0, 1, 0)
    theirs.PrependUOffsetTRelativeSlot(5, vector, 0)
    theirs.PrependInt32Slot(3, -1, 0)
    theirs.Finish(theirs.EndObject())

    from odf.metadata.declare import INT32, UINT64

    ours = BufferWriter()
    text = ours.text("häß".encode())
    blob = ours.blob(b"12345")
    vector = ours.vector([blob, text])
    table = ours.start()
    table.scalar(1, UINT64, 7)
    table.byte(0, 1)
    table.offset(5, vector)
    table.scalar(3, INT32, -1)
    assert ours.finish(table.end()) == bytes(theirs.Output())


@pytest.mark.parametrize("cls", EVENT_TYPES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("layout", [2, 3])
def test_every_event_comes_back(cls, layout):
    @slow
    @given(blocks([cls]))
    def check(block):
        data = encode_block(block, layout)
        assert decode_block(data) == block
        assert encode_block(decode_block(data), layout) == data

    check()


@slow
@given(tables(DatasetVocabulary))
def test_plain_tables_come_back(vocab):
    assert decode_table(DatasetVocabulary, encode_table(vocab)) == vocab


@slow
@given(blocks(), st.data())
def test_mutated_blocks_end_in_a_value_or_an_error(block, data):
    mutated = bytearray(encode_block(block))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(mutated)))
    for candidate in (bytes(mutated), bytes(mutated[:cut])):
        with contextlib.suppress(OdfError):
            decode_block(candidate)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_end_in_a_value_or_an_error(data):
    with pytest.raises(OdfError):
        decode_block(data)


def test_every_flipped_bit_of_a_block_is_survived(golden):
    for vector in golden[:3]:
        data = bytes.fromhex(vector["v2"]["bytesHex"])
        for bit in range(8 * len(data)):
            flipped = bytearray(data)
            flipped[bit // 8] ^= 1 << bit % 8
            with contextlib.suppress(OdfError):
                decode_block(bytes(flipped))


def _with_event_tag(tag):
    """A block whose event has another tag: the tag byte is found by writing two blocks."""
    data = encode_block(MetadataBlock(Timestamp(0), None, 5, SetInfo("x")))
    places = [at for at, byte in enumerate(data) if byte == 8]
    for at in places:
        changed = data[:at] + bytes((tag,)) + data[at + 1 :]
        try:
            block = decode_block(changed)
        except MalformedBlockError:
            continue
        if isinstance(block.event, UnknownEvent):
            return changed
    raise AssertionError("the tag was not found")


def test_an_event_of_a_later_version_is_unknown_and_its_header_is_usable():
    block = decode_block(_with_event_tag(14))
    assert block.sequence_number == 5
    assert block.event.tag == 14
    assert "later ODF version" in block.event.reason


def test_an_unknown_event_is_not_written():
    block = decode_block(_with_event_tag(200))
    with pytest.raises(UnwritableError, match="cannot be written"):
        encode_block(block)


def test_other_manifest_versions_are_refused(golden):
    data = bytearray.fromhex(golden[0]["v2"]["bytesHex"])
    assert data[28] == 2
    for version in (1, 4):
        data[28] = version
        with pytest.raises(MalformedBlockError, match=f"version {version}.*2 to 3"):
            decode_block(bytes(data))


def test_a_block_that_is_too_large_is_not_looked_at():
    with pytest.raises(MalformedBlockError, match="at most"):
        decode_block(bytes(MAX_BLOCK_SIZE + 1))


def test_tables_nested_too_deep_are_refused_on_both_sides():
    kind = DataTypeNull()
    for _ in range(20):
        kind = DataTypeOption(DataTypeList(kind))
    with pytest.raises(UnwritableError, match="16 deep"):
        encode_table(kind)

    out = BufferWriter()
    at = out.start().end()
    for _ in range(20):
        table = out.start()
        table.offset(0, at)
        at = table.end()
    reader = BufferReader(out.finish(at), MAX_BLOCK_SIZE).root()
    for _ in range(15):
        reader = reader.table(0)
    with pytest.raises(MalformedBufferError, match="16 deep"):
        reader.table(0)


def test_shared_children_exhaust_the_budget():
    """A vector that refers to one large text a thousand times."""
    out = BufferWriter()
    text = out.text(b"x" * 10_000)
    vector = out.vector([text] * 1000)
    table = out.start()
    table.offset(1, vector)
    data = out.finish(table.end())
    with pytest.raises(MalformedBufferError, match="over and over"):
        decode_table(SetInfo, data)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_numbers_out_of_range_are_not_written(number):
    with pytest.raises(UnwritableError, match=r"OffsetInterval\.end"):
        encode_table(OffsetInterval(0, number))


def test_text_that_is_not_unicode_is_not_written():
    with pytest.raises(UnwritableError, match="not Unicode"):
        encode_table(SetInfo("\ud800"))


def test_missing_required_fields_are_not_written():
    with pytest.raises(UnwritableError, match="fetch is missing"):
        encode_table(SetPollingSource(fetch=None, read=ReadStepCsv(), merge=MergeStrategyAppend()))


def test_missing_required_fields_are_malformed():
    data = encode_table(SetInfo("x"))
    with pytest.raises(MalformedBufferError, match="read is missing"):
        decode_table(AddPushSource, data)


def test_a_time_that_is_none_is_malformed(golden):
    data = bytes.fromhex(golden[0]["v2"]["bytesHex"])
    at = data.index(bytes.fromhex("e407000001000000"))
    for bad in ("e407000000000000", "e40700006f010000", "0000000001000000"):
        changed = data[:at] + bytes.fromhex(bad) + data[at + 8 :]
        with pytest.raises(MalformedBlockError, match="not a time"):
            decode_block(changed)


def test_equal_vtables_are_written_once():
    def size(count):
        tables = (TemporalTable("a", ()),) * count
        return len(encode_table(TransformSql("e", temporal_tables=tables)))

    # Another table: itself (12), its name (8), an empty key (4), its place in the list (4).
    assert size(4) - size(2) == 2 * (12 + 8 + 4 + 4)


@slow
@given(blocks(), st.sampled_from(LAYOUTS))
def test_the_place_of_a_block_is_read_alone(block, layout):
    link = decode_link(encode_block(block, layout))
    assert (link.prev_block_hash, link.sequence_number) == (
        block.prev_block_hash,
        block.sequence_number,
    )


def test_the_place_of_a_block_with_an_event_that_is_not_known():
    data = encode_block(MetadataBlock(Timestamp(0), Multihash.sha3_256(b"x"), 7, SetInfo("x")))
    for place in range(len(data)):
        changed = bytes([*data[:place], 200, *data[place + 1 :]])
        with contextlib.suppress(OdfError):
            if isinstance(decode_block(changed).event, UnknownEvent):
                assert decode_link(changed) == decode_link(data)
                return
    raise AssertionError("no byte is the tag")


@pytest.mark.parametrize("data", [b"", b"\0" * 64, b"\xff" * 64])
def test_the_place_of_what_is_no_block(data):
    with pytest.raises(MalformedBlockError, match=r"not a metadata block|manifest of kind"):
        decode_link(data)

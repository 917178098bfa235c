import pytest

from odf.coordinator.summaries import event_kind, summarize
from odf.metadata.arrow_schema import ArrowField, ArrowType, encode_schema
from odf.metadata.identity import DatasetID
from odf.metadata.model import (
    AddData,
    AddPushSource,
    AttachmentEmbedded,
    AttachmentsEmbedded,
    DatasetKind,
    DataSlice,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    ExecuteTransformInput,
    OffsetInterval,
    Seed,
    SetAttachments,
    SetDataSchema,
    SetInfo,
    SetLicense,
    SetPollingSource,
    SetTransform,
    SetVocab,
    Timestamp,
    TransformInput,
    UnknownEvent,
)
from odf.metadata.multiformats import Multihash
from odf.metadata.sources import (
    FetchStepContainer,
    FetchStepFilesGlob,
    FetchStepUrl,
    MergeStrategyAppend,
    MergeStrategyLedger,
    ReadStepCsv,
    ReadStepNdJson,
    TransformSql,
)

ID = DatasetID(bytes(32))
HASH = Multihash.sha3_256(b"x")
ROWS = DataSlice(HASH, HASH, OffsetInterval(10, 1213), 5000)
ONE = DataSlice(HASH, HASH, OffsetInterval(0, 0), 500)
NOON = Timestamp.parse("2024-05-01T12:00:00Z")
SQL = TransformSql(engine="spark", version="odf-spark/1.0.0")
COLUMN = ArrowField(name="a", type=ArrowType(kind="Utf8"), nullable=True)


@pytest.mark.parametrize(
    ("event", "summary"),
    [
        (Seed(ID, DatasetKind.ROOT), f"root {ID}"),
        (AddData(new_data=ROWS), "1,204 rows (10 to 1213)"),
        (
            AddData(new_data=ONE, new_watermark=NOON),
            "1 row (0 to 0), watermark 2024-05-01T12:00:00Z",
        ),
        (AddData(), "no rows"),
        (
            ExecuteTransform(
                (ExecuteTransformInput(ID, None, HASH), ExecuteTransformInput(ID, HASH))
            ),
            "no rows, 1 of 2 inputs moved",
        ),
        (
            SetPollingSource(
                FetchStepUrl("https://example.org/x.csv"),
                ReadStepCsv(),
                MergeStrategyLedger(("a",)),
            ),
            "https://example.org/x.csv → Csv → Ledger",
        ),
        (
            SetPollingSource(
                FetchStepFilesGlob("data/*.json"),
                ReadStepNdJson(),
                MergeStrategyAppend(),
                preprocess=SQL,
            ),
            "data/*.json → NdJson → SQL → Append",
        ),
        (
            SetPollingSource(FetchStepContainer("image"), ReadStepCsv(), MergeStrategyAppend()),
            "Container → Csv → Append",
        ),
        (AddPushSource("app", ReadStepNdJson(), MergeStrategyAppend()), "app → NdJson → Append"),
        (DisablePushSource("app"), "app"),
        (DisablePollingSource(), ""),
        (SetTransform((TransformInput(str(ID), "a"),), SQL), "a → spark odf-spark/1.0.0"),
        (SetDataSchema(encode_schema((COLUMN,))), "1 column: a"),
        (SetInfo(description="Prices", keywords=("a",)), "Prices"),
        (SetInfo(keywords=("a", "b")), "a, b"),
        (SetLicense("CC0", "Zero", website_url="https://example.org"), "CC0"),
        (SetVocab(event_time_column="day"), "event time: day"),
        (
            SetAttachments(AttachmentsEmbedded((AttachmentEmbedded("README.md", "x"),))),
            "README.md",
        ),
        (UnknownEvent(99, "tag 99 of a later version"), "tag 99 of a later version"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_event_is_said_in_words(event, summary):
    assert summarize(event) == summary


def test_a_schema_that_cannot_be_read_is_still_shown():
    assert summarize(SetDataSchema(b"\xff\xff\xff\xff"))


def test_kinds_are_named_as_in_the_specification():
    assert event_kind(Seed(ID, DatasetKind.ROOT)) == "Seed"
    assert event_kind(UnknownEvent(99, "")) == "Unknown"

"""What manifests of other times wrote, and what to write today.

The pre-0.1 metadata reference, and names that tutorials on the net still show.
"""

from typing import Final

_OP_COLUMN: Final = "leave it out, the operation type column (`op`) says it now"
_CSV_GONE: Final = (
    "this option of old releases is gone; leave it out, or shape the data in preprocess"
)

_KEYS: Final[dict[tuple[str, str], str]] = {
    ("Manifest", "apiVersion"): "write `version: 1`",
    ("DatasetSnapshot", "id"): "write `name`; the identifier is generated",
    ("DatasetSnapshot", "source"): (
        "write `kind: Root` with an event `SetPollingSource` in `metadata`, or `kind: Derivative` "
        "with an event `SetTransform`"
    ),
    ("DatasetSnapshot", "vocab"): "write an event `SetVocab` in `metadata`",
    ("DatasetSnapshot", "info"): "write an event `SetInfo` in `metadata`",
    ("DatasetSnapshot", "license"): "write an event `SetLicense` in `metadata`",
    ("MergeStrategySnapshot", "observationColumn"): _OP_COLUMN,
    ("MergeStrategySnapshot", "obsvAdded"): _OP_COLUMN,
    ("MergeStrategySnapshot", "obsvChanged"): _OP_COLUMN,
    ("MergeStrategySnapshot", "obsvRemoved"): _OP_COLUMN,
    ("ReadStepCsv", "comment"): _CSV_GONE,
    ("ReadStepCsv", "enforceSchema"): _CSV_GONE,
    ("ReadStepCsv", "ignoreLeadingWhiteSpace"): _CSV_GONE,
    ("ReadStepCsv", "ignoreTrailingWhiteSpace"): _CSV_GONE,
    ("ReadStepCsv", "emptyValue"): _CSV_GONE,
    ("ReadStepCsv", "nanValue"): _CSV_GONE,
    ("ReadStepCsv", "positiveInf"): _CSV_GONE,
    ("ReadStepCsv", "negativeInf"): _CSV_GONE,
    ("ReadStepCsv", "multiLine"): "leave it out, quoted fields may always span lines",
    ("ReadStepNdJson", "multiLine"): "write `kind: Json` for a file that is one array",
    ("ReadStepNdJson", "primitivesAsString"): "leave it out and declare the columns in `schema`",
    ("TransformInput", "id"): "write `datasetRef`",
    ("TransformInput", "name"): "write `datasetRef` for the dataset, `alias` for its name in SQL",
    ("TransformInput", "dataset"): "write `datasetRef`",
    ("DataSlice", "hash"): "write `logicalHash` and `physicalHash`",
    ("DataSlice", "interval"): "write `offsetInterval`",
    ("DataSlice", "numRecords"): "write `offsetInterval`",
    ("MetadataBlock", "blockHash"): "leave it out, a block does not hold its own hash",
    ("MetadataBlock", "outputSlice"): "write an event `AddData` or `ExecuteTransform`",
    ("MetadataBlock", "outputWatermark"): "write an event `AddData` or `ExecuteTransform`",
    ("MetadataBlock", "inputSlices"): "write an event `ExecuteTransform`",
    ("MetadataBlock", "source"): "write an event `SetPollingSource` or `SetTransform`",
    ("MetadataBlock", "vocab"): "write an event `SetVocab`",
}

_KINDS: Final[dict[tuple[str, str], str]] = {
    ("ReadStep", "jsonlines"): "write `kind: NdJson`",
    ("MetadataEvent", "setsource"): "write `SetPollingSource` or `SetTransform`",
    ("MetadataEvent", "setwatermark"): "a watermark is set with a command, not in a manifest",
    ("MetadataEvent", "root"): "write an event `SetPollingSource`",
    ("MetadataEvent", "derivative"): "write an event `SetTransform`",
    ("Manifest", "dataset"): "write `kind: DatasetSnapshot`",
    ("Manifest", "datasetsource"): "write `kind: DatasetSnapshot`",
}

_TEXTS: Final[dict[str, str]] = {
    "TransformInput": "write `- datasetRef: NAME`",
    "SqlQueryStep": "write `- query: …`",
    "RequestHeader": "write `- name: …` and `value: …`",
    "EnvVar": "write `- name: …`",
}


def key_advice(table: str, key: str) -> str | None:
    """Say what to write instead of a key that old manifests had in a table."""
    return _KEYS.get((table, key))


def kind_advice(union: str, kind: str) -> str | None:
    """Say what to write instead of a variant that old manifests had in a union."""
    return _KINDS.get((union, kind.lower()))


def text_advice(table: str) -> str | None:
    """Say what to write where old manifests had a plain text for a table."""
    return _TEXTS.get(table)

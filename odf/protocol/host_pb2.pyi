from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IngestHalf(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHOLE: _ClassVar[IngestHalf]
    READ: _ClassVar[IngestHalf]
    MERGE: _ClassVar[IngestHalf]
WHOLE: IngestHalf
READ: IngestHalf
MERGE: IngestHalf

class DescribeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Description(_message.Message):
    __slots__ = ("protocol_version", "engine", "release", "versions", "pid", "operations")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    engine: str
    release: str
    versions: _containers.ScalarMap[str, str]
    pid: int
    operations: int
    def __init__(self, protocol_version: _Optional[int] = ..., engine: _Optional[str] = ..., release: _Optional[str] = ..., versions: _Optional[_Mapping[str, str]] = ..., pid: _Optional[int] = ..., operations: _Optional[int] = ...) -> None: ...

class Vocabulary(_message.Message):
    __slots__ = ("offset", "operation_type", "system_time", "event_time")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    OPERATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    offset: str
    operation_type: str
    system_time: str
    event_time: str
    def __init__(self, offset: _Optional[str] = ..., operation_type: _Optional[str] = ..., system_time: _Optional[str] = ..., event_time: _Optional[str] = ...) -> None: ...

class ValidateQueryRequest(_message.Message):
    __slots__ = ("transform", "inputs", "vocab", "preprocess")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_FIELD_NUMBER: _ClassVar[int]
    transform: bytes
    inputs: _containers.RepeatedCompositeFieldContainer[QueryInput]
    vocab: Vocabulary
    preprocess: bool
    def __init__(self, transform: _Optional[bytes] = ..., inputs: _Optional[_Iterable[_Union[QueryInput, _Mapping]]] = ..., vocab: _Optional[_Union[Vocabulary, _Mapping]] = ..., preprocess: _Optional[bool] = ...) -> None: ...

class QueryInput(_message.Message):
    __slots__ = ("alias", "has_schema", "arrow_schema", "has_retractions", "vocab")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    HAS_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    ARROW_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    HAS_RETRACTIONS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_FIELD_NUMBER: _ClassVar[int]
    alias: str
    has_schema: bool
    arrow_schema: bytes
    has_retractions: bool
    vocab: Vocabulary
    def __init__(self, alias: _Optional[str] = ..., has_schema: _Optional[bool] = ..., arrow_schema: _Optional[bytes] = ..., has_retractions: _Optional[bool] = ..., vocab: _Optional[_Union[Vocabulary, _Mapping]] = ...) -> None: ...

class ValidateQueryResponse(_message.Message):
    __slots__ = ("valid", "message", "hint", "query_class", "output_schema", "warnings", "description")
    VALID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    QUERY_CLASS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    valid: bool
    message: str
    hint: str
    query_class: str
    output_schema: bytes
    warnings: _containers.RepeatedScalarFieldContainer[str]
    description: str
    def __init__(self, valid: _Optional[bool] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., query_class: _Optional[str] = ..., output_schema: _Optional[bytes] = ..., warnings: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ...) -> None: ...

class MigrateQueryRequest(_message.Message):
    __slots__ = ("transform", "inputs", "vocab", "checkpoint_path")
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_PATH_FIELD_NUMBER: _ClassVar[int]
    transform: bytes
    inputs: _containers.RepeatedCompositeFieldContainer[QueryInput]
    vocab: Vocabulary
    checkpoint_path: str
    def __init__(self, transform: _Optional[bytes] = ..., inputs: _Optional[_Iterable[_Union[QueryInput, _Mapping]]] = ..., vocab: _Optional[_Union[Vocabulary, _Mapping]] = ..., checkpoint_path: _Optional[str] = ...) -> None: ...

class MigrateQueryResponse(_message.Message):
    __slots__ = ("migration", "invalid_query", "bad_input")
    MIGRATION_FIELD_NUMBER: _ClassVar[int]
    INVALID_QUERY_FIELD_NUMBER: _ClassVar[int]
    BAD_INPUT_FIELD_NUMBER: _ClassVar[int]
    migration: Migration
    invalid_query: InvalidQuery
    bad_input: BadInput
    def __init__(self, migration: _Optional[_Union[Migration, _Mapping]] = ..., invalid_query: _Optional[_Union[InvalidQuery, _Mapping]] = ..., bad_input: _Optional[_Union[BadInput, _Mapping]] = ...) -> None: ...

class Migration(_message.Message):
    __slots__ = ("kept", "reason", "discarded")
    KEPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DISCARDED_FIELD_NUMBER: _ClassVar[int]
    kept: bool
    reason: str
    discarded: _containers.RepeatedCompositeFieldContainer[DiscardedRows]
    def __init__(self, kept: _Optional[bool] = ..., reason: _Optional[str] = ..., discarded: _Optional[_Iterable[_Union[DiscardedRows, _Mapping]]] = ...) -> None: ...

class DiscardedRows(_message.Message):
    __slots__ = ("table", "rows")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    table: str
    rows: int
    def __init__(self, table: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class DeriveProvenanceRequest(_message.Message):
    __slots__ = ("transform_request",)
    TRANSFORM_REQUEST_FIELD_NUMBER: _ClassVar[int]
    transform_request: bytes
    def __init__(self, transform_request: _Optional[bytes] = ...) -> None: ...

class DeriveProvenanceResponse(_message.Message):
    __slots__ = ("provenance", "invalid_query", "bad_input")
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    INVALID_QUERY_FIELD_NUMBER: _ClassVar[int]
    BAD_INPUT_FIELD_NUMBER: _ClassVar[int]
    provenance: Provenance
    invalid_query: InvalidQuery
    bad_input: BadInput
    def __init__(self, provenance: _Optional[_Union[Provenance, _Mapping]] = ..., invalid_query: _Optional[_Union[InvalidQuery, _Mapping]] = ..., bad_input: _Optional[_Union[BadInput, _Mapping]] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("how", "columns")
    HOW_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    how: str
    columns: _containers.RepeatedCompositeFieldContainer[ColumnOrigin]
    def __init__(self, how: _Optional[str] = ..., columns: _Optional[_Iterable[_Union[ColumnOrigin, _Mapping]]] = ...) -> None: ...

class ColumnOrigin(_message.Message):
    __slots__ = ("column", "sources")
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    column: str
    sources: _containers.RepeatedCompositeFieldContainer[InputColumn]
    def __init__(self, column: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[InputColumn, _Mapping]]] = ...) -> None: ...

class InputColumn(_message.Message):
    __slots__ = ("input", "column")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    input: str
    column: str
    def __init__(self, input: _Optional[str] = ..., column: _Optional[str] = ...) -> None: ...

class IngestRequest(_message.Message):
    __slots__ = ("dataset_alias", "files", "read_json", "preprocess_json", "merge_json", "vocab", "system_time_ms", "source_event_time_ms", "next_offset", "dataset_schema", "history_paths", "output_path", "scratch_path", "allow_retract", "allow_empty", "max_retract_share", "min_rows_for_retract_guard", "half", "folding", "quarantine_path")
    DATASET_ALIAS_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    READ_JSON_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_JSON_FIELD_NUMBER: _ClassVar[int]
    MERGE_JSON_FIELD_NUMBER: _ClassVar[int]
    VOCAB_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EVENT_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DATASET_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    HISTORY_PATHS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PATH_FIELD_NUMBER: _ClassVar[int]
    SCRATCH_PATH_FIELD_NUMBER: _ClassVar[int]
    ALLOW_RETRACT_FIELD_NUMBER: _ClassVar[int]
    ALLOW_EMPTY_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRACT_SHARE_FIELD_NUMBER: _ClassVar[int]
    MIN_ROWS_FOR_RETRACT_GUARD_FIELD_NUMBER: _ClassVar[int]
    HALF_FIELD_NUMBER: _ClassVar[int]
    FOLDING_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_PATH_FIELD_NUMBER: _ClassVar[int]
    dataset_alias: str
    files: _containers.RepeatedCompositeFieldContainer[File]
    read_json: str
    preprocess_json: str
    merge_json: str
    vocab: Vocabulary
    system_time_ms: int
    source_event_time_ms: int
    next_offset: int
    dataset_schema: bytes
    history_paths: _containers.RepeatedScalarFieldContainer[str]
    output_path: str
    scratch_path: str
    allow_retract: bool
    allow_empty: bool
    max_retract_share: float
    min_rows_for_retract_guard: int
    half: IngestHalf
    folding: Folding
    quarantine_path: str
    def __init__(self, dataset_alias: _Optional[str] = ..., files: _Optional[_Iterable[_Union[File, _Mapping]]] = ..., read_json: _Optional[str] = ..., preprocess_json: _Optional[str] = ..., merge_json: _Optional[str] = ..., vocab: _Optional[_Union[Vocabulary, _Mapping]] = ..., system_time_ms: _Optional[int] = ..., source_event_time_ms: _Optional[int] = ..., next_offset: _Optional[int] = ..., dataset_schema: _Optional[bytes] = ..., history_paths: _Optional[_Iterable[str]] = ..., output_path: _Optional[str] = ..., scratch_path: _Optional[str] = ..., allow_retract: _Optional[bool] = ..., allow_empty: _Optional[bool] = ..., max_retract_share: _Optional[float] = ..., min_rows_for_retract_guard: _Optional[int] = ..., half: _Optional[_Union[IngestHalf, str]] = ..., folding: _Optional[_Union[Folding, _Mapping]] = ..., quarantine_path: _Optional[str] = ...) -> None: ...

class Folding(_message.Message):
    __slots__ = ("first", "count", "output_path")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PATH_FIELD_NUMBER: _ClassVar[int]
    first: int
    count: int
    output_path: str
    def __init__(self, first: _Optional[int] = ..., count: _Optional[int] = ..., output_path: _Optional[str] = ...) -> None: ...

class File(_message.Message):
    __slots__ = ("path", "name")
    PATH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    path: str
    name: str
    def __init__(self, path: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class IngestEvent(_message.Message):
    __slots__ = ("progress", "warning", "result", "bad_input", "invalid_query", "internal_error")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    BAD_INPUT_FIELD_NUMBER: _ClassVar[int]
    INVALID_QUERY_FIELD_NUMBER: _ClassVar[int]
    INTERNAL_ERROR_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    warning: Notice
    result: IngestResult
    bad_input: BadInput
    invalid_query: InvalidQuery
    internal_error: InternalError
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., warning: _Optional[_Union[Notice, _Mapping]] = ..., result: _Optional[_Union[IngestResult, _Mapping]] = ..., bad_input: _Optional[_Union[BadInput, _Mapping]] = ..., invalid_query: _Optional[_Union[InvalidQuery, _Mapping]] = ..., internal_error: _Optional[_Union[InternalError, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("stage", "rows")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    stage: str
    rows: int
    def __init__(self, stage: _Optional[str] = ..., rows: _Optional[int] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class IngestResult(_message.Message):
    __slots__ = ("num_records", "rows_read", "appended", "retracted", "corrected_from", "corrected_to", "keys_revised_ignored", "rows_unchanged", "schema", "keys_known", "bad_rows")
    NUM_RECORDS_FIELD_NUMBER: _ClassVar[int]
    ROWS_READ_FIELD_NUMBER: _ClassVar[int]
    APPENDED_FIELD_NUMBER: _ClassVar[int]
    RETRACTED_FIELD_NUMBER: _ClassVar[int]
    CORRECTED_FROM_FIELD_NUMBER: _ClassVar[int]
    CORRECTED_TO_FIELD_NUMBER: _ClassVar[int]
    KEYS_REVISED_IGNORED_FIELD_NUMBER: _ClassVar[int]
    ROWS_UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    KEYS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    BAD_ROWS_FIELD_NUMBER: _ClassVar[int]
    num_records: int
    rows_read: int
    appended: int
    retracted: int
    corrected_from: int
    corrected_to: int
    keys_revised_ignored: int
    rows_unchanged: int
    schema: bytes
    keys_known: int
    bad_rows: int
    def __init__(self, num_records: _Optional[int] = ..., rows_read: _Optional[int] = ..., appended: _Optional[int] = ..., retracted: _Optional[int] = ..., corrected_from: _Optional[int] = ..., corrected_to: _Optional[int] = ..., keys_revised_ignored: _Optional[int] = ..., rows_unchanged: _Optional[int] = ..., schema: _Optional[bytes] = ..., keys_known: _Optional[int] = ..., bad_rows: _Optional[int] = ...) -> None: ...

class BadInput(_message.Message):
    __slots__ = ("reason", "message", "hint", "problems")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    message: str
    hint: str
    problems: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, reason: _Optional[str] = ..., message: _Optional[str] = ..., hint: _Optional[str] = ..., problems: _Optional[_Iterable[str]] = ...) -> None: ...

class InvalidQuery(_message.Message):
    __slots__ = ("message", "hint")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    message: str
    hint: str
    def __init__(self, message: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class InternalError(_message.Message):
    __slots__ = ("message", "backtrace")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BACKTRACE_FIELD_NUMBER: _ClassVar[int]
    message: str
    backtrace: str
    def __init__(self, message: _Optional[str] = ..., backtrace: _Optional[str] = ...) -> None: ...

"""Every bound on input that was not made by this process, each with its reason.

A bound is a promise of the form "no matter what the other side sends, we stop here".
Sizes are bytes unless the name says otherwise.
"""

from typing import Final

MAX_BLOCK_SIZE: Final = 16 * 1024 * 1024
"""Largest metadata block; the biggest real ones (embedded attachments) stay under 1 MiB."""

MAX_FLATBUFFER_DEPTH: Final = 16
"""Nesting of tables in a block; the model itself needs 7, structured schemas a few more."""

MAX_FLATBUFFER_VISIT_FACTOR: Final = 4
"""Bytes a reader may visit per byte of buffer, against tables that share children."""

MAX_MANIFEST_SIZE: Final = 4 * 1024 * 1024
"""Largest YAML manifest; real ones are under 100 KiB."""

MAX_DROPPED_RECORD: Final = 64 * 1024 * 1024
"""Bytes of the list of slices that were dropped: 80 a slice, for the longest chain of them."""

MAX_EXPLAINED_ROWS: Final = 100_000
"""Rows whose origins are asked for at once: an answer is read by a person or a script, and a row of
a windowed aggregate can come from thousands."""

MAX_REF_SIZE: Final = 256
"""Largest content of a reference file; a multihash in base16 has 69 characters."""

ENGINE_START_SECONDS: Final = 120.0
"""From starting an engine's process to its first answer: 1 to 3 s when the machine is idle, tens
of seconds on a machine that is swapping; a process that needs longer will not come up."""

ENGINE_STOP_SECONDS: Final = 10.0
"""From cutting an engine's lifeline to killing it: stopping Java takes one or two seconds."""

ENGINE_OBITUARY_SECONDS: Final = 5.0
"""How long to wait for the exit code of an engine whose connection broke: it is dying already."""

MAX_WARM_RECORD: Final = 64 * 1024
"""Bytes of the file about a host that stays, and of its answers: some hundreds in truth."""

LEASE_ANSWER_SECONDS: Final = 10.0
"""For a host that stays to answer, where nobody can tell whether its process still works."""

HOST_SILENCE_SECONDS: Final = 1.0
"""For a host that stays to answer, before its process is looked at: it answers within milliseconds,
also while it works for another command."""

HOST_WATCH_SECONDS: Final = 0.5
"""For watching a silent process: one that works, or waits for its turn or a disk, shows within."""

CONTAINER_CALL_SECONDS: Final = 60.0
"""For one question to docker or podman, or for running an empty program: 0.1 to 0.7 s when idle."""

MAX_RUNTIME_MEMORY_SIZE: Final = 1024 * 1024
"""Bytes of what is remembered of runtimes: a few hundred for each engine and image of a day."""

IMAGE_BUILD_SECONDS: Final = 1800.0
"""For building an engine's image: a minute or two, most of it copying and training Java."""

SANDBOX_PROBE_SECONDS: Final = 20.0
"""For starting and ending an empty Python in the sandbox: about 0.1 s on an idle machine."""

ENGINE_LOG_TAIL_SIZE: Final = 16 * 1024
"""Bytes read from the end of an engine's log, however long it grew."""

ENGINE_LOG_TAIL_LINES: Final = 15
"""Lines of an engine's log quoted in an error: a Java exception and its first frames."""

MAX_ENGINE_MESSAGE: Final = 16 * 1024 * 1024
"""Largest gRPC message of an engine: only paths, schemas and messages travel, data goes by file."""

MAX_ENGINE_TEXT: Final = 8 * 1024
"""Characters of an engine's message that are shown; Spark's plans in messages are far longer."""

MAX_SOCKET_PATH: Final = 107
"""Bytes of a Unix socket's path: `sockaddr_un` holds 108 with the closing NUL."""

SANDBOX_MAX_PROCESSES: Final = 8192
"""Processes and threads of the user while an engine runs (RLIMIT_NPROC counts all of them): Spark
needs some hundreds, a fork bomb ends here. The kernel does not hold root to it."""

SANDBOX_MAX_OPEN_FILES: Final = 65536
"""Open files of one process of an engine: Spark opens its class path, inputs and shuffle files."""

MAX_MULTIBASE_LENGTH: Final = 256
"""Longest multibase text; base58 takes quadratic time, a hash or key needs 75 at most."""

MAX_MANIFEST_NODES: Final = 100_000
"""YAML nodes read from a file, each alias counted as often as it is used (alias bombs)."""

MAX_MANIFEST_DEPTH: Final = 64
"""Nesting in a manifest; the model itself needs about 10, structured schemas a few more."""

MAX_MANIFEST_PROBLEMS: Final = 100
"""Problems reported for a manifest; a file that has more is not a manifest."""

MAX_SOURCES: Final = 10_000
"""Push sources, and sources with a state, that the state of a chain holds; keeps it bounded."""

MAX_CHAIN_BLOCKS: Final = 10_000_000
"""Longest chain that is read; a sequence number above it is a stranger's trick, not a history."""

MAX_CLOCK_SKEW_SECONDS: Final = 300
"""How far in the future a received block's time may be: clocks of honest machines differ."""

MAX_CHAIN_STATE_SIZE: Final = 64 * 1024 * 1024
"""Largest cached chain state; embedded attachments (see MAX_BLOCK_SIZE) are all that is big."""

MAX_SETTINGS_SIZE: Final = 1024 * 1024
"""Largest settings file (configuration, repository, aliases); real ones are under 10 KiB."""

HTTP_CONNECT_SECONDS: Final = 10.0
"""Patience with a server that does not answer the door."""

HTTP_READ_SECONDS: Final = 30.0
"""Patience with a server that says nothing in the middle of a transfer."""

HTTP_ATTEMPTS: Final = 4
"""Tries of a request in a row without any new byte; a hiccup passes, an outage is reported."""

HTTP_REDIRECTS: Final = 5
"""Redirects followed for one object; mirrors need one or two, loops need all of them."""

HTTP_MIN_SPEED: Final = 1024
"""Bytes a second that a transfer must keep on average, against servers that drip for ever."""

HTTP_GRACE_SECONDS: Final = 60.0
"""Time that a transfer has before its speed counts."""

MAX_DOWNLOAD_SIZE: Final = 64 * 1024**3
"""Largest body taken from a web source; bigger than any real one, smaller than a usual disk."""

MAX_REDIRECTS: Final = 10
"""Redirects followed for one source; the reference and most browsers' tools stop there too."""

MAX_VALIDATOR_SIZE: Final = 1024
"""Characters of an ETag kept as source state, which goes into a block; real ones have < 100."""

MAX_ERROR_EXCERPT: Final = 200
"""Characters of a server's error page that are quoted in a message."""

MAX_GLOB_FILES: Final = 1_000_000
"""Files that one glob may match; the listing is held in memory."""

MAX_FETCH_ATTEMPTS: Final = 4
"""Times a web source is asked before a passing fault is reported as a failure."""

MAX_RETRY_WAIT: Final = 60.0
"""Seconds that a server may make us wait (`Retry-After`); when it wants longer, we give up."""

CONNECT_TIMEOUT: Final = 30.0
"""Seconds until a connection must stand, as the reference has it."""

READ_TIMEOUT: Final = 60.0
"""Seconds of silence after which a transfer is taken for dead."""

MAX_TYPE_DEPTH: Final = 12
"""Nesting of column types; deeper ones do not fit the record in MAX_FLATBUFFER_DEPTH tables."""

READING_MEMORY: Final = 2 * 1024**3
"""Bytes of memory for reading a stranger's slices, where one page of a file can say that it has as
many; honest ones are read with some hundred megabytes."""

READING_SECONDS: Final = 600.0
"""For reading a stranger's slice, however small: a kilobyte can stand for any number of rows."""

READING_SECONDS_PER_MEGABYTE: Final = 1.0
"""The same for each megabyte of a slice; real ones take a hundredth of that."""

MAX_READING_ANSWER: Final = 64 * 1024**2
"""Bytes of what is said about a stranger's slice, without rows; the longest part is its schema."""

READING_THREADS: Final = 8
"""Threads with which a stranger's slices are decoded; each takes memory of its own."""

MAX_SLICE_COLUMNS: Final = 10_000
"""Columns (leaves of the schema) and row groups of a slice file, before its footer is believed."""

MAX_SLICE_FOOTER_TEXT: Final = 16 * 1024 * 1024
"""Longest text in the footer of a slice file; the longest real one is the Arrow schema."""

MAX_UNENDED_RECORD: Final = 1024 * 1024
"""Bytes behind a quote that is never closed that are set aside as one row; so much is a few lines
at the end of a file, more is the file."""

MAX_CSV_HEADER_SIZE: Final = 1024 * 1024
"""Longest first record of a CSV file; the widest real tables have some 10,000 columns."""

MAX_CONFORMANCE_CASE_SIZE: Final = 64 * 1024 * 1024
"""Bytes of one line of `odf conformance`: the largest block in hexadecimal, and room beside it."""

MAX_KEY_FILE_SIZE: Final = 16 * 1024
"""Largest file with a private key; an encrypted ed25519 key in PEM has some 400 bytes."""

MAX_UNPACKED_SIZE: Final = 256 * 1024**3
"""Largest output of one prepare step; a download (MAX_DOWNLOAD_SIZE) unpacks to four times that
as a rule, and what is larger fills disks."""

MAX_UNPACK_RATIO: Final = 300
"""Bytes out of an archive for each of its bytes: repetitive tables and logs reach 50 to 100, what
deflate can do at most, and only bombs do, is 1032."""

UNPACK_RATIO_FROM: Final = 1024**3
"""Output from which MAX_UNPACK_RATIO counts: below it no ratio does harm."""

MAX_ZIP_DIRECTORY: Final = 8 * 1024**2
"""Largest table of contents of a zip archive, which is held in memory: some 60,000 members."""

MAX_LISTED_MEMBERS: Final = 10
"""Members of an archive that an error message lists."""

PREPARE_CHUNK: Final = 256 * 1024
"""Bytes that travel from one prepare step to the next at a time."""

COMMAND_LOG_TAIL_SIZE: Final = 16 * 1024
"""Bytes kept of the end of what a command writes to its standard error, however much that is."""

COMMAND_LOG_TAIL_LINES: Final = 10
"""Last lines of a command's standard error that are quoted in an error."""

MAX_ARCHIVE_DESCRIPTION_SIZE: Final = 4096
"""Bytes read of the description beside a class archive of an engine: five short values."""

MAX_JSON_VALUE_SIZE: Final = 256 * 1024**2
"""Characters of one row of a JSON document, which is decoded whole; real ones are under 10 MB."""

MAX_INFERRED_COLUMNS: Final = 10_000
"""Columns found in a file without a schema; as MAX_SLICE_COLUMNS, which the result must meet."""

MAX_INFERRED_FIELDS: Final = 1_000
"""Fields found in a nested object; one with more is a map whose names are data, kept as text."""

ENGINE_PREPARE_SECONDS: Final = 900.0
"""Seconds until the making of an engine's class archive counts as stuck; it takes about one minute,
and several on a busy machine."""

MAX_SHAPEFILE_MEMBER: Final = 512 * 1024**2
"""Bytes of one file of a shapefile, which is held in memory; the format itself ends at 2 GiB."""

MAX_SET_ASIDE_ROWS: Final = 100_000
"""Bad rows of one range of a file that are set aside, and held in memory for that; whoever has
more has not a few bad rows but another format."""

MAX_SPOOLED_SIZE: Final = 64 * 1024**3
"""Largest data taken from standard input or another pipe; as large as a download may be."""

MQTT_IDLE_SECONDS: Final = 1.0
"""Silence after which a broker has nothing more for now, as the reference has it."""

MQTT_VERSION_SECONDS: Final = 5.0
"""Patience with a broker that says nothing to version 5 of the protocol, before an older one is
tried: some old brokers do not even refuse it."""

MQTT_BATCH_SECONDS: Final = 60.0
"""Seconds after which a batch of messages ends although more keep coming."""

MQTT_BATCH_MESSAGES: Final = 10_000
"""Messages committed at a time, as the reference has it; the broker may send as many ahead."""

MQTT_BATCH_SIZE: Final = 256 * 1024**2
"""Bytes of messages committed at a time; one message may have as many by the protocol."""

MQTT_BATCHES: Final = 1_000
"""Batches of one pull, so that it ends where messages come as fast as they are committed."""

MQTT_SMALLEST_WINDOW: Final = 10
"""Messages that the most careful brokers send before they wait for acknowledgements; others send
20 or more. A batch with fewer ended because there was nothing more."""

MQTT_KEEPALIVE_SECONDS: Final = 60
"""How often the connection to a broker shows that it lives while its messages are committed."""

MERGE_TASK_BYTES: Final = 256 * 1024**2
"""Bytes of rows (new ones, and of a snapshot the current ones too) that are merged in one task with
Arrow, which holds them two or three times; what is larger goes through Spark's SQL."""

MAX_STATE_DESCRIPTION_SIZE: Final = 4 * 1024**2
"""Bytes of the description in a checkpoint of ours: columns of all inputs and a few numbers."""

MAX_STATE_TABLES: Final = 200
"""Tables in a checkpoint of ours: one or two for each input of a query."""

MAX_STATE_TABLE_SIZE: Final = 8 * 1024**3 - 1
"""Bytes of one table in a checkpoint of ours; the plain form of tar ends there too."""

MERGE_HISTORY_FILES: Final = 8
"""Files that a merge reads of the history before it has some folded into one."""

MERGE_HISTORY_ROWS: Final = 100_000
"""Rows beside those of the oldest file before it pays to drop the ones that no longer count."""

MERGE_HISTORY_KINDS: Final = 4
"""Ways of merging (sources with keys of their own) for which a dataset's history is kept folded."""

MAX_MERGE_INDEX_SIZE: Final = 64 * 1024**2
"""Bytes read of the index of a folded history: some 400,000 slices before the first folding."""

MAX_ETHEREUM_FILTER: Final = 64 * 1024
"""Characters of a filter or signature; hundreds of contracts fit."""

MAX_ETHEREUM_ARRAY: Final = 10_000
"""Elements of an array of fixed length in a signature; each has 32 bytes in every log."""

MAX_ETHEREUM_NESTED: Final = 64 * 1024
"""Bytes of a log whose lists hold what is reached by pointers: they may all lead to one place."""

ETHEREUM_RESPONSE_SIZE: Final = 256 * 1024**2
"""Largest answer of a node, which is held in memory; common nodes end at 10,000 logs."""

ETHEREUM_STRIDE: Final = 100_000
"""Blocks that a node is asked for at a time, as the reference has it; fewer when it refuses."""

ETHEREUM_BATCH_LOGS: Final = 10_000
"""Logs after which a batch is committed, as the reference has it."""

ETHEREUM_BATCH_BLOCKS: Final = 1_000_000
"""Blocks after which a batch is committed, as the reference has it."""

ETHEREUM_QUIET_BLOCKS: Final = 10_000
"""Blocks without a log that are read again with the next pull, rather than committed to the chain:
one question to a node is cheaper than a block for every pull."""

MAX_SNAPSHOT_BATCHES: Final = 10_000
"""Batches of a source that together are one snapshot; a source that gives more never ends."""

CONTAINER_BATCH_SIZE: Final = 10_000
"""Records that a container is asked to give at a time, as the reference has it."""

MAX_RECOMPUTED_ROWS: Final = 1_000_000
"""Rows of inputs, and of the result, of a query that each run computes anew: some seconds of work
and a checkpoint of some 20 MB for every run; beyond that a window or a range is what is wanted."""

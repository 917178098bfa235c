"""`EthereumLogs` sources: what contracts logged on a chain (ingest.md §4, ODF 0.36).

A node is asked for ranges of blocks, over JSON-RPC. The result is a Parquet file with the columns
of the live peer; with a `signature` there is `event` as well, the decoded log. The source state is
number and hash of the last block that was read. If the chain has another block there now, it was
re-organised, and what was read may not be true any more: that is an error, unless the blocks are to
be read again behind the newest earlier state whose block is still there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from odf import limits
from odf.errors import BadInputError, TransportError
from odf.metadata.model import FetchStepEthereumLogs, SourceState

from .base import ETAG, FetchContext, Fetched, Unchanged, etag_state, not_understood
from .ethereum_event import EventSignature, UnfitLogError
from .ethereum_filter import TOPICS, LogFilter
from .ethereum_rpc import Log, Node, RefusedCallError
from .extras import need
from .spool import new_spool, remove_spools
from .templates import MASK, Expanded

if TYPE_CHECKING:
    import pyarrow as pa

_KIND = "logs"
_SHORTEST_KEY: Final = 8  # shorter parts of an address, as versions, may be shown


@dataclass(frozen=True, slots=True)
class _Place:
    """The last block that was read."""

    number: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> _Place | None:
        number, at, block = text.partition("@")
        if at and number.isascii() and number.isdigit() and len(number) < 19:  # noqa: PLR2004
            return cls(int(number), block.removeprefix("0x").lower())
        return None

    def state(self) -> SourceState:
        return etag_state(f"{self.number}@{self.hash}")


@dataclass(frozen=True, slots=True)
class _Batch:
    logs: tuple[Log, ...]
    last: int
    has_more: bool


def fetch_ethereum_logs(
    step: FetchStepEthereumLogs,
    texts: Mapping[str, Expanded],
    state: SourceState | None,
    ctx: FetchContext,
) -> Fetched | Unchanged:
    """Read the logs of the blocks that came since the last state.

    Args:
        step: The fetch step.
        texts: The address of its node, expanded.
        state: The last source state.
        ctx: Where, when and with whose leave.

    Raises:
        BadInputError: Filter or signature say what cannot be asked, it is another chain, or the
            chain was re-organised.
        AuthError: The node wants credentials, or others.
        TransportError: The node cannot be reached, or what it says makes no sense.
    """
    for module in ("Crypto", "eth_abi", "sqlglot"):
        need("ethereum", module, "fetch kind EthereumLogs")
    event, wanted = parse_filter(step)
    if not ctx.taken:  # the batches of a snapshot wait for each other
        remove_spools(ctx.cache_dir, _KIND)
    node = _node(step, texts, ctx)
    warnings: list[str] = []
    place = _place(node, state, ctx, warnings)
    newest = node.newest_block()
    last = newest if wanted.last is None else min(wanted.last, newest)
    first = wanted.first if place is None else max(wanted.first, place.number + 1)
    went_back = place is not None and state is not None and place.state() != state
    if last < first and not (went_back and last == first - 1):
        return Unchanged(f"{node.shown}: no new blocks since {last}", tuple(warnings))
    batch = _read(node, wanted, first, last, ctx)
    quiet = not went_back and batch.last - first + 1 < limits.ETHEREUM_QUIET_BLOCKS
    if not batch.logs and quiet and not batch.has_more:
        return Unchanged(f"{node.shown}: no new logs up to block {batch.last}", tuple(warnings))
    found = node.block_hash(batch.last)
    if found is None or (
        batch.logs
        and batch.logs[-1].block_number == batch.last
        and batch.logs[-1].block_hash != found
    ):
        raise TransportError(
            f"{node.shown}: the node changed its mind about block {batch.last} while it was read",
            hint="pull again",
        )
    path = _write(batch.logs, event, ctx, node.shown, warnings)
    return Fetched(
        path=path,
        name=f"{node.shown} blocks {first} to {batch.last}",
        owned=True,
        source_state=_Place(batch.last, found.hex()).state(),
        event_time=None,
        has_more=batch.has_more,
        size=path.stat().st_size,
        warnings=tuple(warnings),
        is_batch=True,
        is_empty=not batch.logs,
    )


def parse_filter(step: FetchStepEthereumLogs) -> tuple[EventSignature | None, LogFilter]:
    """Read the signature and the filter of a step.

    Raises:
        BadInputError: One of them is none, or says what a node cannot be asked.
    """
    event = EventSignature.parse(step.signature) if step.signature else None
    wanted = LogFilter.parse(step.filter) if step.filter and step.filter.strip() else LogFilter()
    if event is not None and not event.anonymous:
        wanted = wanted.both(LogFilter({TOPICS[0]: frozenset([event.selector])}))
    wanted.check_possible()
    return event, wanted


def _node(step: FetchStepEthereumLogs, texts: Mapping[str, Expanded], ctx: FetchContext) -> Node:
    """Find the node, and make sure that it is on the right chain."""
    url = texts.get("nodeUrl")
    if url is None:
        text = ctx.ethereum_nodes.get(step.chain_id or 0)
        if text is None:
            raise BadInputError(
                f"there is no node for the chain {step.chain_id}: the source has no nodeUrl",
                reason="no_node",
                hint=f"set ethereum.{step.chain_id}.nodeUrl in the configuration, or give the "
                "source a nodeUrl",
            )
        url = _configured(text)
    node = Node(url, ctx)
    found = node.chain_id()
    if step.chain_id is not None and found != step.chain_id:
        raise BadInputError(
            f"{node.shown}: wanted the chain {step.chain_id}, got {found}",
            reason="wrong_chain",
            hint="check chainId and nodeUrl of the source",
        )
    return node


def _configured(text: str) -> Expanded:
    """Mask all of a configured address but its server: keys of nodes are part of the path."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return Expanded(text, "the configured node", (text,))
    key = text.partition(parts.netloc)[2].lstrip("/") if parts.netloc else ""
    if not key:
        return Expanded(text, text, ())
    pieces = (piece for piece in re.split(r"[/?&=#]", key) if len(piece) >= _SHORTEST_KEY)
    return Expanded(text, f"{parts.scheme}://{parts.netloc}/{MASK}", (key, *pieces))


def _place(
    node: Node, state: SourceState | None, ctx: FetchContext, warnings: list[str]
) -> _Place | None:
    """Read the state, and make sure that the chain still has that block."""
    if state is None:
        return None
    place = _Place.parse(state.value) if state.kind == ETAG else None
    if place is None:
        warnings.append(not_understood(node.shown, state))
        return None
    found = node.block_hash(place.number)
    if found is not None and found.hex() == place.hash:
        return place
    common = _newest_common(node, ctx)
    if ctx.reread_reorganised:
        warnings.append(
            f"{node.shown}: the chain was re-organised: blocks from {common.number + 1} on are "
            f"read again; rows that came from those up to {place.number} before stay as they "
            "are, also where their blocks are gone"
        )
        return common
    now = "is gone" if found is None else f"is 0x{found.hex()} now"
    raise BadInputError(
        f"{node.shown}: the chain was re-organised: block {place.number} was read as "
        f"0x{place.hash} and {now}, so logs of blocks from {common.number + 1} on may not be "
        "true any more",
        reason="reorganised",
        hint="odf pull --reread-reorganised reads those blocks again: rows that are there stay, a "
        "Ledger or UpsertStream takes only what is new or different by its key, Append and "
        "ChangelogStream take all of it once more",
    )


def _newest_common(node: Node, ctx: FetchContext) -> _Place:
    """Find the newest block that was the last of a batch and that the chain still has.

    Returns:
        The block; the one before the first if the chain has none of them.
    """
    known: list[_Place] = []
    for state in ctx.earlier():
        place = _Place.parse(state.value) if state.kind == ETAG else None
        # Blocks that an earlier pull went back behind are not part of what it read since.
        if place is not None and (not known or place.number < known[-1].number):
            known.append(place)

    def is_there(place: _Place) -> bool:
        found = node.block_hash(place.number)
        return found is not None and found.hex() == place.hash

    # Where the chain still has one of them it has all that are older.
    newest = bisect_left(known, 1, key=is_there)
    return known[newest] if newest < len(known) else _Place(-1, "")


def _read(node: Node, wanted: LogFilter, first: int, last: int, ctx: FetchContext) -> _Batch:
    """Ask for one range after the other, until the batch is full or the end is reached."""
    logs: list[Log] = []
    at, stride = first, limits.ETHEREUM_STRIDE
    while at <= last:
        end = min(last, at + stride - 1)
        try:
            found = node.logs(wanted, at, end)
        except RefusedCallError:
            if end == at:
                raise
            # Nodes bound the blocks or the logs of an answer, each in words of its own.
            stride = max(1, (end - at + 1) // 2)
            continue
        logs += found
        at = end + 1
        stride = min(limits.ETHEREUM_STRIDE, stride * 2)
        ctx.report(f"{node.shown}: block {end} of {last}, {len(logs)} logs")
        full = len(logs) >= limits.ETHEREUM_BATCH_LOGS
        if full or end - first + 1 >= limits.ETHEREUM_BATCH_BLOCKS:
            break
    return _Batch(tuple(logs), at - 1, at <= last)


def _write(
    logs: Sequence[Log],
    event: EventSignature | None,
    ctx: FetchContext,
    shown: str,
    warnings: list[str],
) -> Path:
    """Write logs to a Parquet file."""
    import pyarrow as pa  # noqa: PLC0415 - pay for what is used
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = _columns(logs)
    if event is not None:
        columns["event"] = pa.array(_events(logs, event, shown, warnings), event.arrow())
    path, file = new_spool(ctx.cache_dir, _KIND)
    with file:
        try:
            pq.write_table(pa.table(columns, _schema(event)), file)
        except OSError as problem:
            raise TransportError(
                f"cannot write {path}: {problem}", hint="is there room on the disk?"
            ) from None
    return path


def _schema(event: EventSignature | None) -> pa.Schema:
    """Return the columns of the live peer's table of logs."""
    import pyarrow as pa  # noqa: PLC0415

    fields = [
        pa.field("block_number", pa.uint64(), nullable=False),
        pa.field("block_hash", pa.binary(), nullable=False),
        pa.field("block_timestamp", pa.timestamp("ms", "UTC")),
        pa.field("transaction_index", pa.uint64(), nullable=False),
        pa.field("transaction_hash", pa.binary(), nullable=False),
        pa.field("log_index", pa.uint64(), nullable=False),
        pa.field("address", pa.binary(), nullable=False),
        *(pa.field(topic, pa.binary()) for topic in TOPICS),
        pa.field("data", pa.binary(), nullable=False),
    ]
    if event is not None:
        fields.append(pa.field("event", event.arrow()))
    return pa.schema(fields)


def _columns(logs: Sequence[Log]) -> dict[str, pa.Array]:
    import pyarrow as pa  # noqa: PLC0415

    def topic(log: Log, number: int) -> bytes | None:
        return log.topics[number] if number < len(log.topics) else None

    times = [None if log.block_time is None else log.block_time * 1000 for log in logs]
    columns = {
        "block_number": [log.block_number for log in logs],
        "block_hash": [log.block_hash for log in logs],
        "block_timestamp": times,
        "transaction_index": [log.transaction_index for log in logs],
        "transaction_hash": [log.transaction_hash for log in logs],
        "log_index": [log.log_index for log in logs],
        "address": [log.address for log in logs],
        **{name: [topic(log, n) for log in logs] for n, name in enumerate(TOPICS)},
        "data": [log.data for log in logs],
    }
    schema = _schema(None)
    return {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}


def _events(
    logs: Sequence[Log], event: EventSignature, shown: str, warnings: list[str]
) -> list[dict[str, object] | None]:
    """Decode logs; one that has another shape gives null, and its raw columns stay."""
    events: list[dict[str, object] | None] = []
    unfit: list[Log] = []
    for log in logs:
        try:
            events.append(event.decode(log.topics, log.data))
        except UnfitLogError:
            events.append(None)
            unfit.append(log)
    if unfit:
        warnings.append(
            f"{shown}: {len(unfit)} logs do not fit the signature {event.name}, although their "
            f"first topic does, and have no event; the first one is in transaction "
            f"0x{unfit[0].transaction_hash.hex()}"
        )
    return events

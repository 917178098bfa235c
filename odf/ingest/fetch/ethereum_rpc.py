"""A node of an Ethereum chain, asked over JSON-RPC."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odf import __version__, limits
from odf.errors import AuthError, BadInputError, TransportError

from .base import FetchContext
from .ethereum_filter import TOPICS, LogFilter
from .retries import PASSING, passing, wait_out
from .templates import Expanded, Masker
from .transport import Header, PassingFaultError, Reply, Request, get, shown_url

_QUANTITY = re.compile(r"0x[0-9a-fA-F]{1,16}")
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_HASH, _ADDRESS = 32, 20
_MAX_BLOCK = 2**63 - 1
_DENIED = frozenset({401, 403})
_BUSY = frozenset({-32005, -32097, 429})  # limits of requests, as common nodes number them


class RefusedCallError(TransportError):
    """The node answered with an error of its own."""


@dataclass(frozen=True, slots=True)
class Log:
    """A log, as the node gave it and checked for its shape.

    Attributes:
        block_number: Number of its block.
        block_hash: Hash of its block.
        block_time: Time of its block in seconds since the epoch; many nodes do not say it.
        transaction_index: Place of its transaction in the block.
        transaction_hash: Hash of its transaction.
        log_index: Place of it in the block.
        address: The contract.
        topics: Up to four.
        data: What is not indexed.
    """

    block_number: int
    block_hash: bytes
    block_time: int | None
    transaction_index: int
    transaction_hash: bytes
    log_index: int
    address: bytes
    topics: tuple[bytes, ...]
    data: bytes


class Node:
    """A node.

    Args:
        url: Its address, expanded.
        ctx: Where, when and with whose leave.

    Raises:
        BadInputError: The address is not one of HTTP.
    """

    def __init__(self, url: Expanded, ctx: FetchContext) -> None:
        self.shown = shown_url(url.masked)
        self._ctx = ctx
        if not url.text.lower().startswith(("http://", "https://")):
            raise BadInputError(
                f"{self.shown}: nodes are asked over http or https",
                reason="unsupported_scheme",
                hint="most nodes that serve ws:// or wss:// serve https:// beside it",
            )
        self._request = Request(
            url=url.text,
            shown=self.shown,
            headers=(
                Header("Content-Type", "application/json"),
                Header("User-Agent", f"odf/{__version__}"),
            ),
            masker=Masker(url.secrets),
            proxies={**ctx.environment, **ctx.proxies},
            body=b"",
        )

    def chain_id(self) -> int:
        """Ask which chain it is on."""
        return self._number(self._call("eth_chainId"), "chain id")

    def newest_block(self) -> int:
        """Ask for the number of the newest block."""
        return self._number(self._call("eth_blockNumber"), "block number")

    def block_hash(self, number: int) -> bytes | None:
        """Ask for the hash of a block; None if there is no such block."""
        block = self._call("eth_getBlockByNumber", hex(number), False)
        if block is None:
            return None
        if not isinstance(block, dict):
            raise self._nonsense("a block")
        return self._bytes(block.get("hash"), "block hash", _HASH)

    def logs(self, wanted: LogFilter, first: int, last: int) -> list[Log]:
        """Ask for the logs of a range of blocks, in their order.

        Raises:
            RefusedCallError: The node does not want to, perhaps because the range is too large.
        """
        found = self._call("eth_getLogs", wanted.request(first, last))
        if not isinstance(found, list):
            raise self._nonsense("a list of logs")
        logs = [self._log(one) for one in found]
        if any(not first <= log.block_number <= last for log in logs):
            raise self._nonsense("logs of other blocks than were asked for")
        return sorted(logs, key=lambda log: (log.block_number, log.log_index))

    def _call(self, method: str, *parameters: object) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
        self._request = Request(
            self._request.url,
            self._request.shown,
            self._request.headers,
            self._request.masker,
            self._request.proxies,
            body=json.dumps(message).encode(),
        )
        for attempt in range(1, limits.MAX_FETCH_ATTEMPTS + 1):
            try:
                with get(self._request) as reply:
                    return self._answer(method, reply)
            except PassingFaultError as fault:
                wait_out(fault, attempt, self._ctx)
        raise TransportError(
            f"{self.shown}: no answer",
            hint="check nodeUrl, and whether this machine reaches the node",
        )  # `wait_out` raises the last fault

    def _answer(self, method: str, reply: Reply) -> Any:
        if reply.status in PASSING:
            raise passing(reply, f"{reply.shown}: the node answered {reply.status}", self._ctx)
        if reply.status in _DENIED:
            raise AuthError(
                f"{reply.shown}: the node answered {reply.status}: {reply.excerpt()}",
                hint="check nodeUrl and its variables",
            )
        try:
            answer = json.loads(self._body(reply))
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not answer.keys() & {"result", "error"}:
            raise TransportError(
                f"{reply.shown}: answered {reply.status} and no JSON-RPC",
                hint="is nodeUrl the address of an Ethereum node?",
            )
        if answer.get("error") is not None:
            raise self._refusal(method, answer["error"])
        return answer.get("result")

    def _body(self, reply: Reply) -> bytes:
        body = bytearray()
        for chunk in reply.chunks():
            body += chunk
            if len(body) > limits.ETHEREUM_RESPONSE_SIZE:
                raise RefusedCallError(
                    f"{self.shown}: the answer is larger than {limits.ETHEREUM_RESPONSE_SIZE} bytes"
                )
        return bytes(body)

    def _refusal(self, method: str, error: object) -> TransportError:
        code = error.get("code") if isinstance(error, Mapping) else None
        said = error.get("message") if isinstance(error, Mapping) else error
        text = " ".join(self._request.masker.clean(str(said)).split())[: limits.MAX_ERROR_EXCERPT]
        message = f"{self.shown}: {method}: the node refuses: {text} ({code})"
        if code in _BUSY and method != "eth_getLogs":
            return PassingFaultError(message)
        return RefusedCallError(message, details={"code": code})

    def _log(self, found: object) -> Log:
        if not isinstance(found, Mapping) or found.get("removed"):
            raise self._nonsense("a log")
        topics = found.get("topics")
        if not isinstance(topics, list) or len(topics) > len(TOPICS):
            raise self._nonsense("topics")
        time = found.get("blockTimestamp")
        return Log(
            block_number=self._number(found.get("blockNumber"), "block number"),
            block_hash=self._bytes(found.get("blockHash"), "block hash", _HASH),
            block_time=None if time is None else self._number(time, "block timestamp"),
            transaction_index=self._number(found.get("transactionIndex"), "transaction index"),
            transaction_hash=self._bytes(found.get("transactionHash"), "transaction hash", _HASH),
            log_index=self._number(found.get("logIndex"), "log index"),
            address=self._bytes(found.get("address"), "address", _ADDRESS),
            topics=tuple(self._bytes(topic, "topic", _HASH) for topic in topics),
            data=self._bytes(found.get("data"), "data", None),
        )

    def _number(self, found: object, what: str) -> int:
        if isinstance(found, str) and _QUANTITY.fullmatch(found):
            number = int(found, 16)
            if number <= _MAX_BLOCK:
                return number
        raise self._nonsense(f"a {what}", found)

    def _bytes(self, found: object, what: str, size: int | None) -> bytes:
        if isinstance(found, str) and _BYTES.fullmatch(found):
            value = bytes.fromhex(found[2:])
            if size is None or len(value) == size:
                return value
        raise self._nonsense(f"a {what}", found)

    def _nonsense(self, wanted: str, found: object = None) -> TransportError:
        got = "" if found is None else f", got {self._request.masker.clean(str(found))!r:.80}"
        return TransportError(
            f"{self.shown}: the node's answer has no sense: wanted {wanted}{got}",
            hint="check that nodeUrl is the JSON-RPC address of a node",
        )

"""`EthereumLogs` sources against a real node."""

import http.server
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odf import limits
from odf.errors import AuthError, BadInputError, TransportError
from odf.ingest.fetch import Fetched, Unchanged, fetch, template_variables
from odf.ingest.fetch.ethereum_event import EventSignature, UnfitLogError
from odf.metadata.model import FetchStepEthereumLogs, SourceState
from tests.ingest.fetch.chains import CHAIN, Chain, run_chain
from tests.ingest.fetch.conftest import Around

eth_abi = pytest.importorskip("eth_abi", reason="the extra `ethereum` is not installed")

TRANSFER = "Transfer(address indexed from, address indexed to, uint256 value)"
SELECTOR = bytes.fromhex("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")
ANN, BOB = (bytes(12) + bytes([n]) * 20 for n in (0xAA, 0xBB))


@pytest.fixture
def chain() -> Iterator[Chain]:
    with run_chain() as running:
        yield running


def step(chain: Chain, contract: str | None = None, **more: Any) -> FetchStepEthereumLogs:
    if contract is not None:
        more["filter"] = f"address = X'{contract[2:]}'"
    return FetchStepEthereumLogs(**({"chain_id": CHAIN, "node_url": chain.url} | more))


def take(
    around: Around, source: FetchStepEthereumLogs, state: SourceState | None = None, **more: Any
) -> Fetched | Unchanged:
    return fetch(source, state, around.ctx(**more))


def rows(found: Fetched | Unchanged) -> list[dict[str, Any]]:
    assert isinstance(found, Fetched), found
    listed: list[dict[str, Any]] = pq.read_table(found.path).to_pylist()
    return listed


def numbers(found: Fetched | Unchanged) -> list[int]:
    return [int.from_bytes(row["data"], "big") for row in rows(found)]


def word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_logs_become_rows_with_the_event_decoded(chain: Chain, around: Around) -> None:
    contract = chain.contract(3)
    block = chain.log(contract, [SELECTOR, ANN, BOB], word(2**255))
    found = take(around, step(chain, contract, signature=f"event {TRANSFER};"))
    (row,) = rows(found)
    told = chain.call("eth_getLogs", {"fromBlock": hex(block), "toBlock": hex(block)})[0]
    assert row["event"] == {"from": ANN[12:], "to": BOB[12:], "value": str(2**255)}
    assert row["block_number"] == block
    assert row["block_timestamp"].timestamp() == int(told["blockTimestamp"], 16)
    for column, name in (
        ("block_hash", "blockHash"),
        ("transaction_hash", "transactionHash"),
        ("address", "address"),
        ("data", "data"),
    ):
        assert row[column] == bytes.fromhex(told[name][2:])
    assert (row["topic0"], row["topic1"], row["topic2"], row["topic3"]) == (
        SELECTOR,
        ANN,
        BOB,
        None,
    )
    assert isinstance(found, Fetched)
    assert found.source_state is not None
    assert found.source_state.value == f"{block}@{row['block_hash'].hex()}"
    assert not found.has_more


@pytest.mark.parametrize(
    "signature",
    [
        TRANSFER,
        "event Approval(address indexed owner,address indexed spender,uint value)",
        "Put(uint8,int,bytes32[] indexed keys,(bytes4 kind, string[2] names)[] items)",
        "Nothing()",
        "TokensMinted(\n  address indexed to,\n  uint256 amount,\n  uint256 time\n)",
    ],
)
def test_selectors_are_those_of_the_node(signature: str, chain: Chain) -> None:
    event = EventSignature.parse(signature)
    types = ",".join(one.type.canonical for one in event.parameters)
    text = f"{event.name}({types})"
    assert chain.call("web3_sha3", f"0x{text.encode().hex()}") == f"0x{event.selector.hex()}"


def test_a_source_goes_on_where_it_stopped(chain: Chain, around: Around) -> None:
    contract = chain.contract(1)
    source = step(chain, contract)
    chain.log(contract, [ANN], word(1))
    first = take(around, source)
    assert numbers(first) == [1]
    assert isinstance(first, Fetched)
    unchanged = take(around, source, first.source_state)
    assert isinstance(unchanged, Unchanged)
    assert "no new blocks" in unchanged.reason
    chain.log(contract, [ANN], word(2))
    chain.log(contract, [ANN], word(3))
    assert numbers(take(around, source, first.source_state)) == [2, 3]


def test_batches(chain: Chain, around: Around, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ETHEREUM_STRIDE", 2)
    monkeypatch.setattr(limits, "ETHEREUM_BATCH_LOGS", 4)
    contract = chain.contract(1)
    for number in range(9):
        chain.log(contract, [ANN], word(number))
    state, came, more = None, [], True
    while more:
        found = take(around, step(chain, contract), state)
        came.append(numbers(found))
        assert isinstance(found, Fetched)
        assert found.is_batch
        state, more = found.source_state, found.has_more
    assert [number for batch in came for number in batch] == list(range(9))
    assert len(came) > 1


def test_long_silence_is_committed_and_a_short_one_is_not(
    chain: Chain, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ETHEREUM_QUIET_BLOCKS", 50)
    chain.mine(20)
    source = step(chain, "0x" + "ab" * 20)
    assert isinstance(take(around, source), Unchanged)
    chain.mine(40)
    found = take(around, source)
    assert isinstance(found, Fetched)
    assert found.is_empty
    assert found.source_state is not None
    assert found.source_state.value.startswith("60@")
    assert isinstance(take(around, source, found.source_state), Unchanged)


def test_a_chain_that_was_reorganised(chain: Chain, around: Around) -> None:
    contract = chain.contract(1)
    before = chain.call("evm_snapshot")
    chain.log(contract, [ANN], word(1))
    first = take(around, step(chain, contract))
    assert isinstance(first, Fetched)
    chain.call("evm_revert", before)
    with pytest.raises(BadInputError, match=r"re-organised: block 2 .* is gone") as refused:
        take(around, step(chain, contract), first.source_state)
    assert "odf pull --reread-reorganised" in (refused.value.hint or "")
    chain.log(contract, [ANN], word(7))
    with pytest.raises(BadInputError, match=r"re-organised: block 2 ") as refused:
        take(around, step(chain, contract), first.source_state)
    assert first.source_state is not None
    was = first.source_state.value.partition("@")[2]
    now = chain.call("eth_getBlockByNumber", "0x2", False)["hash"]
    assert f"was read as 0x{was} and is {now} now" in refused.value.message
    assert "blocks from 0 on" in refused.value.message


def test_blocks_of_a_reorganised_chain_are_read_again(chain: Chain, around: Around) -> None:
    """From behind the newest block that was the last of a batch and is there still."""
    contract = chain.contract(1)
    source = step(chain, contract)
    states: list[SourceState] = []
    reverts = []
    for number in range(4):
        reverts.append(chain.call("evm_snapshot"))
        chain.log(contract, [ANN], word(number))
        found = take(around, source, states[-1] if states else None)
        assert isinstance(found, Fetched)
        assert found.source_state is not None
        states.append(found.source_state)
    chain.call("evm_revert", reverts[2])
    gone = states[-1]

    def again(earlier: list[SourceState]) -> Fetched:
        found = take(
            around, source, gone, reread_reorganised=True, earlier=lambda: reversed(earlier)
        )
        assert isinstance(found, Fetched), found
        return found

    # No block came in place of the others: the state goes back, or the next pull would fail.
    found = again(states[:-1])
    assert (found.is_empty, found.source_state) == (True, states[1])
    assert "blocks from 4 on are read again" in found.warnings[0]
    for number in (12, 13, 14):
        chain.log(contract, [ANN], word(number))
    with pytest.raises(BadInputError, match=r"re-organised: .* blocks from 4 on may not"):
        take(around, source, gone, earlier=lambda: reversed(states[:-1]))
    found = again(states[:-1])
    assert numbers(found) == [12, 13, 14]
    assert isinstance(take(around, source, found.source_state), Unchanged)
    # Nothing of what is known is on the chain: all of it is read.
    assert numbers(again([])) == [0, 1, 12, 13, 14]
    assert numbers(again(states[2:-1])) == [0, 1, 12, 13, 14]


def test_states_that_an_earlier_pull_went_back_behind_do_not_count(
    chain: Chain, around: Around
) -> None:
    """They are gone, though older than one that is there: what is read again begins behind that."""
    contract = chain.contract(1)
    source = step(chain, contract)
    states: list[SourceState] = []

    def pull(number: int) -> None:
        chain.log(contract, [ANN], word(number))
        found = take(
            around,
            source,
            states[-1] if states else None,
            reread_reorganised=True,
            earlier=lambda: reversed(states[:-1]),
        )
        assert isinstance(found, Fetched)
        assert found.source_state is not None
        assert numbers(found) == [number]
        states.append(found.source_state)

    for number in (0, 1):
        pull(number)
    fork = chain.call("evm_snapshot")
    for number in (2, 3, 4):
        pull(number)
    chain.call("evm_revert", fork)
    for number in (12, 13):
        pull(number)
    fork = chain.call("evm_snapshot")
    pull(14)
    chain.call("evm_revert", fork)
    pull(24)


def test_a_chain_that_ends_before_the_first_block_of_the_filter(
    chain: Chain, around: Around
) -> None:
    contract = chain.contract(1)
    source = step(chain, filter=f"address = X'{contract[2:]}' and block_number >= 3")
    before = chain.call("evm_snapshot")
    for number in (1, 2):
        chain.log(contract, [ANN], word(number))
    found = take(around, source)
    assert isinstance(found, Fetched)
    chain.call("evm_revert", before)
    again = take(around, source, found.source_state, reread_reorganised=True)
    assert isinstance(again, Unchanged)
    assert "re-organised" in again.warnings[0]


def test_an_event_of_the_same_hash_and_another_shape(chain: Chain, around: Around) -> None:
    """Tokens of two kinds share this signature, and differ in what is indexed."""
    fungible, unique = chain.contract(3), chain.contract(4)
    chain.log(unique, [SELECTOR, ANN, BOB, word(5)])
    chain.log(fungible, [SELECTOR, ANN, BOB], word(6))
    chain.log(fungible, [SELECTOR, ANN, BOB], b"short")
    found = take(around, step(chain, signature=TRANSFER))
    events = [row["event"] for row in rows(found)]
    assert events == [None, {"from": ANN[12:], "to": BOB[12:], "value": "6"}, None]
    assert isinstance(found, Fetched)
    assert "2 logs do not fit the signature Transfer" in found.warnings[0]


FILTERS = [
    "block_number > 3",
    "4 >= block_number and 2 <= block_number",
    "block_number between 3 and 5",
    "block_number = 4",
    "topic0 = X'{ann}'",
    "(topic0 = X'{ann}' or topic0 = X'{bob}') and topic1 = X'{bob}'",
    "topic0 in (X'{ann}', X'{sel}')",
    "topic2 = X'{bob}'",
    "(address = X'{one}' or address = X'{two}') and topic1 = X'{bob}'",
    "address = X'{two}' and (topic0 = X'{sel}' and block_number >= 4)",
    "(address = X'{one}' and topic1 = X'{ann}') or (address = X'{two}' and topic1 = X'{ann}')",
]


def test_filters_mean_what_sql_means(chain: Chain, around: Around) -> None:
    """DataFusion, whose dialect it is, on the whole table of logs gives the same rows."""
    import datafusion

    one, two = chain.contract(2), chain.contract(3)
    for contract, topics in (
        (one, [ANN, BOB]),
        (one, [BOB, BOB]),
        (two, [SELECTOR, ANN, BOB]),
        (one, [SELECTOR, ANN]),
        (two, [SELECTOR, ANN, ANN]),
        (two, [ANN, BOB, BOB]),
    ):
        chain.log(contract, topics, word(1))
    everything = take(around, step(chain))
    assert isinstance(everything, Fetched)
    path = everything.path.with_suffix(".kept")
    everything.path.rename(path)
    session = datafusion.SessionContext()
    session.register_parquet("logs", str(path), file_extension=".kept")
    names = {"ann": ANN, "bob": BOB, "sel": SELECTOR}
    texts = {name: value.hex() for name, value in names.items()} | {
        "one": one[2:],
        "two": two[2:],
    }
    for text in FILTERS:
        condition = text.format(**texts)
        wanted = session.sql(
            f"select block_number from logs where {condition} order by block_number"
        ).to_pydict()["block_number"]
        found = take(around, step(chain, filter=condition))
        assert 0 < len(wanted) < 6, condition
        assert [row["block_number"] for row in rows(found)] == wanted, condition


def test_the_selector_function_and_the_signature_narrow_the_filter(
    chain: Chain, around: Around
) -> None:
    contract = chain.contract(3)
    chain.log(contract, [SELECTOR, ANN, BOB], word(1))
    chain.log(contract, [ANN, ANN, BOB], word(2))
    call = f"eth_event_selector('{TRANSFER}')"
    assert numbers(take(around, step(chain, filter=f"topic0 = {call}"))) == [1]
    assert numbers(take(around, step(chain, signature=TRANSFER))) == [1]
    assert numbers(take(around, step(chain))) == [1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data = X'00'", "cannot be asked of a node"),
        ("block_number > 3 or block_number = 1", "cannot be asked of a node"),
        ("not address = X'00'", "cannot be asked of a node"),
        ("address = '0x00'", "cannot be asked of a node"),
        ("block_number > -1.5", "cannot be asked of a node"),
        ("block_timestamp > 3", "cannot be asked of a node"),
        ("block_number > (select 1)", "cannot be asked of a node"),
        ("logs.block_number > 3", "cannot be asked of a node"),
        ("address = X'00'", "address has 20 bytes"),
        ("topic1 = X'zz'", "is no SQL condition|32 bytes"),
        ("topic0 = eth_event_selector('Transfer')", "cannot read the signature"),
        ("1 = 1; drop table logs", "is no SQL condition"),
        ("(" * 60_000, "nested too deeply|no SQL condition"),
        ("x" * 70_000, "more than 65536 characters"),
        ("block_number > 5 and block_number < 5", "exclude each other"),
        (f"topic0 = X'{'00' * 32}' and topic0 = X'{'01' * 32}'", "exclude each other"),
    ],
)
def test_filters_that_a_node_cannot_be_asked(text: str, said: str, around: Around) -> None:
    source = FetchStepEthereumLogs(CHAIN, "http://127.0.0.1:1", text)
    with pytest.raises(BadInputError, match=said):
        take(around, source)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Transfer",
        "Transfer(",
        "Transfer(address",
        "Transfer(address from address to)",
        "Transfer(uint7 a)",
        "Transfer(uint264 a)",
        "Transfer(bytes33 a)",
        "Transfer(bytes0 a)",
        "Transfer(fixed a)",
        "Transfer(address[0] a)",
        "Transfer(string[][] a)",
        "Transfer(uint a, uint A)",
        "Transfer(uint indexed, uint indexed, uint indexed, uint indexed)",
        "Transfer(uint a) twice",
        "Tr ansfer(uint a)",
        "Transfer(((((((((((((((uint a)))))))))))))))",
        "Transfer(uint a); drop",
        "T(" + "uint a," * 20_000,
    ],
)
def test_signatures_that_are_none(text: str) -> None:
    with pytest.raises(BadInputError, match=r"signature"):
        EventSignature.parse(text)


@pytest.mark.parametrize(
    ("signature", "values", "event"),
    [
        (
            "E(uint8 a, int64 b, uint64 c, int128 d, bool e, address f)",
            [255, -(2**63), 2**64 - 1, -(2**127), True, "0x" + "ab" * 20],
            {
                "a": 255,
                "b": -(2**63),
                "c": 2**64 - 1,
                "d": str(-(2**127)),
                "e": True,
                "f": b"\xab" * 20,
            },
        ),
        (
            "E(bytes4 a, bytes b, string c, uint16[] d, bytes32[2] e)",
            [b"abcd", b"\0\1", "grüße", [1, 2], [b"x" * 32, b"y" * 32]],
            {"a": b"abcd", "b": b"\0\1", "c": "grüße", "d": [1, 2], "e": [b"x" * 32, b"y" * 32]},
        ),
        (
            "E((uint8 a, (string s, uint256 n)[] b) t, tuple(bool ok)[1] )",
            [(1, [("x", 2**80)]), [(True,)]],
            {"t": {"a": 1, "b": [{"s": "x", "n": str(2**80)}]}, "arg1": [{"ok": True}]},
        ),
        ("E()", [], {}),
    ],
)
def test_data_is_decoded(signature: str, values: list[object], event: dict[str, object]) -> None:
    import pyarrow as pa

    parsed = EventSignature.parse(signature)
    data = eth_abi.encode([one.type.canonical for one in parsed.parameters], values)
    decoded = parsed.decode([parsed.selector], data)
    assert decoded == event
    if event:
        assert pa.array([decoded], parsed.arrow()).to_pylist() == [event]


def test_indexed_values_that_do_not_fit_a_topic_are_their_hash() -> None:
    parsed = EventSignature.parse("E(string indexed name, uint8 n, bool indexed ok)")
    decoded = parsed.decode([parsed.selector, ANN, word(1)], word(7))
    assert list(decoded.items()) == [("name", ANN), ("ok", True), ("n", 7)]


def test_little_data_does_not_unfold_to_much() -> None:
    """All elements of a list point to the same bytes."""
    parsed = EventSignature.parse("E(bytes[] all)")
    for count, size in ((20_000, 1_000_000), (200, 8000)):
        heads = word(32) + word(count) + word(32 * count) * count
        data = heads + word(size) + bytes(size)
        with pytest.raises(UnfitLogError):
            parsed.decode([parsed.selector], data)
    honest = eth_abi.encode(["bytes[]"], [[bytes(40)] * 200])
    assert len(parsed.decode([parsed.selector], honest)["all"]) == 200  # type: ignore[arg-type]


class Gate(http.server.ThreadingHTTPServer):
    """Stands before a node and answers by itself what it is told to."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(("127.0.0.1", 0), GateHandler)
        self.chain = chain
        self.most_blocks = 0
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.ranges: list[int] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class GateHandler(http.server.BaseHTTPRequestHandler):
    server: Gate

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        if self.server.answers:
            self.answer(*self.server.answers.pop(0))
            return
        if asked["method"] == "eth_getLogs" and self.server.most_blocks:
            given = asked["params"][0]
            blocks = int(given["toBlock"], 16) - int(given["fromBlock"], 16) + 1
            if blocks > self.server.most_blocks:
                error = {"code": -32602, "message": "block range is too wide"}
                self.answer(200, {}, json.dumps({"id": 1, "error": error}).encode())
                return
            self.server.ranges.append(blocks)
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self.server.chain.url, body, headers)
        ) as reply:
            self.answer(200, headers, reply.read())

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def gate(chain: Chain) -> Iterator[Gate]:
    with Gate(chain) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_node_that_bounds_ranges_is_asked_for_smaller_ones(gate: Gate, around: Around) -> None:
    contract = gate.chain.contract(1)
    for number in range(3):
        gate.chain.log(contract, [ANN], word(number))
        gate.chain.mine(7)
    gate.most_blocks = 5
    found = take(around, step(gate.chain, contract, node_url=gate.url))
    assert numbers(found) == [0, 1, 2]
    assert max(gate.ranges) <= 5
    assert sum(gate.ranges) == gate.chain.head + 1


def test_a_node_that_never_wants_to(gate: Gate, around: Around) -> None:
    gate.chain.contract(1)
    gate.most_blocks = -1
    with pytest.raises(TransportError, match="eth_getLogs: the node refuses: block range is too"):
        take(around, step(gate.chain, node_url=gate.url))


def test_a_busy_node_is_waited_for(gate: Gate, around: Around) -> None:
    contract = gate.chain.contract(1)
    gate.chain.log(contract, [ANN], word(4))
    busy = json.dumps({"id": 1, "error": {"code": -32005, "message": "slow down"}}).encode()
    gate.answers = [(429, {"Retry-After": "7"}, b""), (200, {}, busy), (503, {}, b"")]
    assert numbers(take(around, step(gate.chain, contract, node_url=gate.url))) == [4]
    assert around.slept == [7.0, 2.0, 4.0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"result": 5}',
        b'{"result": "5"}',
        b'{"result": "0xzz"}',
        b'{"result": "0x' + b"f" * 16 + b'"}',
        b'{"result": null}',
        b"[" * 100_000,
    ],
)
def test_answers_without_sense(body: bytes, gate: Gate, around: Around) -> None:
    gate.answers = [(200, {}, body)]
    with pytest.raises(TransportError, match=r"no JSON-RPC|has no sense"):
        take(around, step(gate.chain, node_url=gate.url))
    assert not [name for name in around.leftovers if name.endswith(".data")]


LOG = {
    "blockNumber": "0x0",
    "blockHash": "0x" + "00" * 32,
    "transactionIndex": "0x0",
    "transactionHash": "0x" + "00" * 32,
    "logIndex": "0x0",
    "address": "0x" + "00" * 20,
    "topics": [],
    "data": "0x",
}


@pytest.mark.parametrize(
    "change",
    [
        {"blockNumber": "0x9"},
        {"blockNumber": None},
        {"blockHash": "0x00"},
        {"address": "0x" + "00" * 32},
        {"topics": ["0x00"]},
        {"topics": ["0x" + "00" * 32] * 5},
        {"topics": None},
        {"data": "0x0"},
        {"data": None},
        {"removed": True},
    ],
)
def test_logs_without_sense(change: dict[str, object], gate: Gate, around: Around) -> None:
    def answer(result: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {}, json.dumps({"id": 1, "result": result}).encode()

    gate.answers = [answer(hex(CHAIN)), answer("0x0"), answer([LOG | change])]
    with pytest.raises(TransportError, match="has no sense"):
        take(around, step(gate.chain, node_url=gate.url))


def test_the_wrong_chain_and_no_node(chain: Chain, around: Around) -> None:
    with pytest.raises(BadInputError, match=f"wanted the chain 1, got {CHAIN}"):
        take(around, step(chain, chain_id=1))
    with pytest.raises(BadInputError, match="no node for the chain 5") as refused:
        take(around, FetchStepEthereumLogs(chain_id=5))
    assert "ethereum.5.nodeUrl" in (refused.value.hint or "")
    chain.log(chain.contract(1), [ANN], word(3))
    configured = take(
        around, FetchStepEthereumLogs(chain_id=CHAIN), ethereum_nodes={CHAIN: chain.url}
    )
    assert numbers(configured) == [3]
    with pytest.raises(BadInputError, match="asked over http or https"):
        take(around, step(chain, node_url="wss://127.0.0.1:8545"))
    with pytest.raises(TransportError, match="connection refused"):
        take(around, step(chain, node_url="http://127.0.0.1:1"))


def test_the_key_of_a_configured_node_is_not_shown(gate: Gate, around: Around) -> None:
    nodes = {CHAIN: f"{gate.url}/v3/s3cr3t-key?token=t0ken-of-us"}
    source = FetchStepEthereumLogs(chain_id=CHAIN)
    gate.answers = [(401, {"Content-Type": "text/plain"}, b"bad key s3cr3t-key with t0ken-of-us")]
    with pytest.raises(AuthError) as refused:
        take(around, source, ethereum_nodes=nodes)
    gate.chain.log(gate.chain.contract(1), [ANN], word(3))
    found = take(around, source, ethereum_nodes=nodes)
    assert isinstance(found, Fetched)
    said = refused.value.message + found.name + "".join(around.said)
    assert gate.url in said
    assert "s3cr3t" not in said
    assert "t0ken" not in said


def test_the_key_of_a_node_is_not_shown(gate: Gate, around: Around) -> None:
    source = step(gate.chain, node_url=gate.url + "/v3/${{ env.NODE_KEY }}")
    assert template_variables(source) == ("NODE_KEY",)
    gate.answers = [(401, {"Content-Type": "text/plain"}, b"bad key s3cr3t-key")]
    with pytest.raises(AuthError) as refused:
        take(around, source, environment={"NODE_KEY": "s3cr3t-key"})
    assert "***" in refused.value.message
    assert "s3cr3t" not in refused.value.message
    gate.chain.log(gate.chain.contract(1), [ANN], word(3))
    found = take(around, source, environment={"NODE_KEY": "s3cr3t-key"})
    assert isinstance(found, Fetched)
    assert "s3cr3t" not in found.name + "".join(around.said)


def test_redirects_do_not_drop_the_question(gate: Gate, around: Around) -> None:
    gate.answers = [(302, {"Location": f"{gate.url}/there"}, b"")]
    with pytest.raises(TransportError, match="would drop what was asked"):
        take(around, step(gate.chain, node_url=gate.url))
    gate.chain.log(gate.chain.contract(1), [ANN], word(3))
    gate.answers = [(307, {"Location": f"{gate.url}/there"}, b"")]
    assert numbers(take(around, step(gate.chain, node_url=gate.url))) == [3]


def test_states_of_other_sources_are_told_of(chain: Chain, around: Around) -> None:
    chain.log(chain.contract(1), [ANN], word(3))
    for state in (
        SourceState("default", "odf/etag", '"v1"'),
        SourceState("default", "odf/last-modified", "2024-01-01T00:00:00Z"),
    ):
        found = take(around, step(chain), state)
        assert numbers(found) == [3]
        assert "not understood" in found.warnings[0]


def test_what_killed_pulls_left_goes_away(chain: Chain, around: Around, tmp_path: Path) -> None:
    cache = tmp_path / ".odf/cache/fetch"
    cache.mkdir(parents=True)
    (cache / "logs-old.data").write_bytes(b"x")
    chain.log(chain.contract(1), [ANN], word(3))
    take(around, step(chain))
    assert "logs-old.data" not in around.leftovers

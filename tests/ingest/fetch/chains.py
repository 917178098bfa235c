"""A real Ethereum node on loopback, and contracts that log what they are told to."""

import contextlib
import json
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROJECT

CHAIN = 31337


@dataclass
class Chain:
    """Anvil, which mines a block for each transaction."""

    url: str
    account: str = ""

    def call(self, method: str, *parameters: object) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(parameters)}
        request = urllib.request.Request(
            self.url, json.dumps(message).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as reply:
            answer = json.load(reply)
        assert "error" not in answer, answer
        return answer["result"]

    def send(self, to: str | None, data: bytes) -> dict[str, Any]:
        transaction = {"from": self.account, "data": f"0x{data.hex()}", "gas": "0x989680"}
        if to is not None:
            transaction["to"] = to
        name = self.call("eth_sendTransaction", transaction)
        receipts = (self.call("eth_getTransactionReceipt", name) for _ in range(1000))
        receipt: dict[str, Any] = next(found for found in receipts if found is not None)
        assert receipt["status"] == "0x1"
        return receipt

    def contract(self, topics: int) -> str:
        """Make a contract that logs what it is sent, the first words as topics."""
        return str(self.send(None, deployment(logger(topics)))["contractAddress"])

    def log(self, contract: str, topics: Sequence[bytes], data: bytes = b"") -> int:
        """Have a contract log something; return the number of the block."""
        return int(self.send(contract, b"".join(topics) + data)["blockNumber"], 16)

    def mine(self, blocks: int) -> None:
        self.call("anvil_mine", hex(blocks))

    @property
    def head(self) -> int:
        return int(self.call("eth_blockNumber"), 16)


def logger(topics: int) -> bytes:
    """Assemble a contract: LOGn of the calldata behind the first n words."""
    at = 32 * topics
    size = bytes([0x60, at, 0x36, 0x03])  # PUSH1 at, CALLDATASIZE, SUB
    copy = size + bytes([0x60, at, 0x60, 0, 0x37])  # CALLDATACOPY to 0
    words = b"".join(bytes([0x60, 32 * n, 0x35]) for n in reversed(range(topics)))
    return copy + words + size + bytes([0x60, 0, 0xA0 + topics, 0x00])


def deployment(runtime: bytes) -> bytes:
    """Assemble what puts a contract on the chain."""
    head = bytes([0x60, len(runtime), 0x80, 0x60, 11, 0x60, 0, 0x39, 0x60, 0, 0xF3])
    return head + runtime


@contextlib.contextmanager
def run_chain(*options: str) -> Iterator[Chain]:
    """Run anvil."""
    program = shutil.which("anvil") or next(
        map(str, sorted(_beside_python().glob("anvil-*/bin/anvil"))), None
    )
    if program is None:
        pytest.skip("no Ethereum node here: npm install --prefix .venv/node @foundry-rs/anvil")
    process = subprocess.Popen(
        [program, "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("Listening on"):
            break
    else:
        pytest.fail("anvil did not start: " + "".join(said))
    reader = threading.Thread(target=lambda: list(process.stdout), daemon=True)  # type: ignore[arg-type]
    reader.start()
    chain = Chain("http://" + said[-1].split()[-1])
    try:
        chain.account = chain.call("eth_accounts")[0]
        yield chain
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stdout.close()


def _beside_python() -> Path:
    return PROJECT / ".venv/node/node_modules/@foundry-rs"

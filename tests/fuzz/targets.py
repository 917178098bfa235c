"""What is fuzzed: each target takes any bytes and ends in a value or an `OdfError`.

Everything else that it raises is a defect. Where a value comes out, a law is asked of it too, so
that nonsense which is merely accepted does not pass unseen. Targets import nothing but what they
test, so that atheris can instrument it.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.fuzz import ethereum

VECTORS: Final = Path(__file__).resolve().parents[3] / "shared" / "vectors"


@dataclass(frozen=True)
class Target:
    """One piece of code that reads what strangers wrote.

    Attributes:
        run: Feeds it some bytes.
        seeds: Inputs to begin with.
        words: What its inputs are made of; helps to get past the first lines.
    """

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = (b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x04\0\0\0", b"\x10\0")


def attempt(read: Callable[..., Any], *arguments: Any) -> Any:
    """Return what reading gives, or None where it ends in an error of ours."""
    from odf.errors import OdfError

    try:
        return read(*arguments)
    except OdfError:
        return None


def vectors(name: str) -> Any:
    """Read a vector file, or nothing where there is none."""
    path = VECTORS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _blocks() -> list[tuple[dict[str, Any], bytes]]:
    found = vectors("metadata-blocks").get("vectors", [])
    return [
        (vector["block"], bytes.fromhex(vector[layout]["bytesHex"]))
        for vector in found
        for layout in ("v2", "v3")
        if layout in vector
    ]


# -- Blocks ------------------------------------------------------------------------------------


def run_block(data: bytes) -> None:
    """Decode a block; what was understood can be told, and written so that it reads the same."""
    from odf.metadata.flatbuffers import block_layout, decode_block, encode_block
    from odf.metadata.json import to_json
    from odf.metadata.model import UnknownEvent

    block = attempt(decode_block, data)
    if block is None:
        return
    json.dumps(to_json(block))
    if not isinstance(block.event, UnknownEvent):
        assert decode_block(encode_block(block, block_layout(data))) == block


def block_seeds() -> list[bytes]:
    """Blocks of the vectors, or some of our own."""
    from odf.metadata.flatbuffers import encode_block
    from odf.metadata.model import AddData, MetadataBlock, SetInfo, Timestamp
    from odf.metadata.multiformats import Multihash

    time, before = Timestamp.parse("2024-05-01T12:00:00Z"), Multihash.sha3_256(b"")
    events = (AddData(prev_offset=1), SetInfo(description="x", keywords=("a", "b")))
    own = [encode_block(MetadataBlock(time, before, 1, event)) for event in events]
    return [data for _, data in _blocks()] + own


# -- YAML --------------------------------------------------------------------------------------


def run_yaml(data: bytes) -> None:
    """Read a manifest; what was read can be printed, and reads back the same."""
    from odf.metadata.model import MetadataBlock, Transform
    from odf.metadata.yaml import dump_yaml, load_manifests, load_yaml

    text = data.decode(errors="replace")
    for snapshot in attempt(load_manifests, text, "fuzz") or ():
        assert load_manifests(dump_yaml(snapshot), "again") == (snapshot,)
    for cls in (MetadataBlock, Transform):
        value = attempt(load_yaml, cls, text, "fuzz")
        if value is not None:
            assert load_yaml(cls, dump_yaml(value), "again") == value


_YAML: Final = """\
kind: DatasetSnapshot
version: 1
content:
  name: a/b
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: Url, url: "https://example.org/a.csv", cache: Forever}
    read: {kind: Csv, header: true, schema: [a INT, "b STRING"]}
    merge: {kind: Ledger, primaryKey: [a]}
---
*a : &a !!str "\\u00e9"
"""


def yaml_seeds() -> list[bytes]:
    """Documents of the vectors, and one of our own."""
    found = vectors("yaml").get("vectors", [])
    return [vector["yaml"].encode() for vector in found] + [_YAML.encode()]


# -- Names -------------------------------------------------------------------------------------


def run_reference(data: bytes) -> None:
    """Read names, references and patterns; what was read is written as it was."""
    from odf.metadata.identity import (
        DatasetAlias,
        DatasetID,
        DatasetPattern,
        RemoteAlias,
        is_pattern,
        parse_dataset_ref,
        parse_dataset_ref_any,
    )

    text = data.decode(errors="replace")
    readers: tuple[Callable[[str], object], ...] = (
        parse_dataset_ref,
        parse_dataset_ref_any,
        lambda text: parse_dataset_ref_any(text, ["repo"]),
        DatasetPattern.parse,
        RemoteAlias.parse,
    )
    is_pattern(text)
    for read in readers:
        found = attempt(read, text)
        if found is None:
            continue
        assert read(str(found)) == found
        if isinstance(found, DatasetPattern):
            found.matches(DatasetAlias.parse("net.example.com"))
        elif not isinstance(found, DatasetID) and "did:odf:" not in text:
            assert str(found) == text


def reference_seeds() -> list[bytes]:
    """References of the vectors, and some of our own."""
    found = vectors("dataset-refs")
    texts = [vector["input"] for vector in found.get("parse", [])]
    texts += [vector["input"] for vector in found.get("namePatternGrammar", {}).get("vectors", [])]
    texts += ["repo/account/name", "a.b-c", "%x%", "did:odf:fed01" + "00" * 32, "ipfs://x/"]
    return [text.encode() for text in texts]


# -- Hashes ------------------------------------------------------------------------------------


def run_multihash(data: bytes) -> None:
    """Read multihashes and multibase text; each value has one spelling in an encoding."""
    from odf.metadata.multiformats import Multihash, decode_multibase, encode_multibase

    text = data.decode(errors="replace")
    value = attempt(decode_multibase, text)
    assert value is None or encode_multibase(value, text[0]) == text
    found = attempt(Multihash.parse, text)
    assert found is None or Multihash.parse(str(found)) == found
    found = attempt(Multihash.from_bytes, data)
    assert found is None or found.to_bytes() == data


def multihash_seeds() -> list[bytes]:
    """Hashes in every encoding, as text and as bytes."""
    from odf.metadata.multiformats import ARROW0_SHA3_256, SHA3_256, Multihash, encode_multibase

    hashes = [Multihash(code, bytes(range(32))) for code in (SHA3_256, ARROW0_SHA3_256)]
    texts = [encode_multibase(h.to_bytes(), prefix) for h in hashes for prefix in "fFbBzmuU"]
    texts += [
        v["base58btc"] for v in vectors("multiformats").get("multihash", []) if "base58btc" in v
    ]
    return [text.encode() for text in texts] + [h.to_bytes() for h in hashes]


# -- Schemas -----------------------------------------------------------------------------------


def run_arrow_schema(data: bytes) -> None:
    """Read a recorded Arrow schema; what was read can be written and read again."""
    from odf.metadata.arrow_schema import decode_schema, encode_schema

    fields = attempt(decode_schema, data)
    # Schemas of others can hold what ours never do, and cannot be written.
    written = None if fields is None else attempt(encode_schema, fields)
    assert written is None or decode_schema(written) == fields


def arrow_schema_seeds() -> list[bytes]:
    """Schemas of the vectors, and one with every kind of type."""
    import base64

    from odf.data.arrow_fields import arrow_schema_to_fields
    from odf.data.types import arrow_schema, parse_ddl
    from odf.metadata.arrow_schema import encode_schema

    columns = parse_ddl([_DDL])
    own = encode_schema(arrow_schema_to_fields(arrow_schema(columns)))
    recorded = [
        base64.b64decode(block["event"]["schema"])
        for block, _ in _blocks()
        if isinstance(block["event"].get("schema"), str)
    ]
    return [*recorded, own]


_DDL: Final = (
    'a INT NOT NULL, b "BIGINT UNSIGNED", c DECIMAL(18, 2), d TIMESTAMP(3) WITH TIME ZONE, '
    "e ARRAY<STRUCT<x: DOUBLE PRECISION NOT NULL, `y``z` DATE>>, f CHARACTER VARYING(20), "
    "g UUID, h TIME, i BOOL, j BYTEA,"
).replace('"BIGINT UNSIGNED"', "BIGINT UNSIGNED")


def run_ddl(data: bytes) -> None:
    """Read column declarations; what was read can be written canonically and reads the same."""
    from odf.data.datatypes import describe_column
    from odf.data.ddl import parse_ddl

    text = data.decode(errors="replace")
    for force_utc in (True, False):
        columns = attempt(lambda utc=force_utc: parse_ddl([text], force_utc=utc))
        if columns is not None and force_utc:
            assert parse_ddl([describe_column(column) for column in columns]) == columns


def ddl_seeds() -> list[bytes]:
    """Declarations of the vectors, and one with every kind of type."""
    found = vectors("ddl").get("vectors", [])
    return [item.encode() for vector in found for item in vector["ddl"]] + [_DDL.encode()]


TARGETS: Final = {
    "block": Target(run_block, block_seeds),
    "yaml": Target(
        run_yaml,
        yaml_seeds,
        (b"kind: ", b"version: 1\n", b"content:\n", b"- ", b"&a", b"*a", b"!!str", b"<<: "),
    ),
    "reference": Target(run_reference, reference_seeds, (b"did:odf:", b"://", b"/", b"%", b".")),
    "multihash": Target(run_multihash, multihash_seeds, (b"f1620", b"zW1", b"\x16\x20")),
    "arrow-schema": Target(run_arrow_schema, arrow_schema_seeds),
    "ddl": Target(
        run_ddl,
        ddl_seeds,
        (b"ARRAY<", b"STRUCT<", b"NOT NULL", b"TIMESTAMP(", b"DECIMAL(", b'"', b"`", b"WITH"),
    ),
    "ethereum-filter": Target(
        ethereum.run_filter,
        ethereum.filter_seeds,
        (b" and ", b" or ", b"X'", b"not ", b"between ", b"in (", b"block_number", b"topic1 = "),
    ),
    "ethereum-signature": Target(
        ethereum.run_signature,
        ethereum.signature_seeds,
        (b"tuple", b"[]", b"[2]", b"indexed ", b"uint8", b"(", b"),", b" anonymous"),
    ),
    "ethereum-log": Target(ethereum.run_log, ethereum.log_seeds, (bytes(31) + b" ", bytes(32))),
}
"""All targets by name."""

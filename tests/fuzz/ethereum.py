"""Fuzz targets for what sources of logs read: filters and signatures of manifests, data of logs."""

from odf.errors import OdfError

_EVENT = "E(uint8 a, (bytes4 k, string s)[] b, bytes32[2] c, int64[] d, string e)"
_FILTERS = (
    "address = X'ae78736cd615f374d3085123a210448e74fc6393' and block_number > 13325304",
    "(topic0 = eth_event_selector('E(uint256 a)') or topic0 in (X'" + "00" * 32 + "'))",
    "block_number between 5 and 9 and 7 <= block_number",
)
_SIGNATURES = (
    _EVENT,
    "event Transfer(address indexed from, address indexed to, uint value);",
    "N() anonymous",
)


def run_filter(data: bytes) -> None:
    """Read a filter; what was read and with itself is the same, and can be asked."""
    from odf.ingest.fetch.ethereum_filter import LogFilter

    try:
        found = LogFilter.parse(data.decode(errors="replace"))
    except OdfError:
        return
    assert found.both(found) == found == found.either(found)
    assert found.request(1, 2)["fromBlock"] == "0x1"


def run_signature(data: bytes) -> None:
    """Read a signature; written canonically it is the same event."""
    from odf.ingest.fetch.ethereum_event import EventSignature

    try:
        event = EventSignature.parse(data.decode(errors="replace"))
    except OdfError:
        return
    event.arrow()
    types = ",".join(one.type.canonical for one in event.parameters)
    assert EventSignature.parse(f"{event.name}({types})").selector == event.selector


def run_log(data: bytes) -> None:
    """Decode the data of a log; what comes out fits its column."""
    import pyarrow as pa

    from odf.ingest.fetch.ethereum_event import EventSignature, UnfitLogError

    event = EventSignature.parse(_EVENT)
    try:
        found = event.decode([event.selector], data)
    except UnfitLogError:
        return
    assert pa.array([found], event.arrow()).to_pylist() == [found]


def filter_seeds() -> list[bytes]:
    """Filters of every kind."""
    return [text.encode() for text in _FILTERS]


def signature_seeds() -> list[bytes]:
    """Signatures of every kind."""
    return [text.encode() for text in _SIGNATURES]


def log_seeds() -> list[bytes]:
    """Encoded events."""
    from eth_abi import encode

    types = ["uint8", "(bytes4,string)[]", "bytes32[2]", "int64[]", "string"]
    values = [7, [(b"abcd", "x"), (b"efgh", "")], [b"x" * 32, b"y" * 32], [1, -1], "grüße"]
    return [encode(types, values), encode(types, [0, [], [b"", b""], [], ""])]

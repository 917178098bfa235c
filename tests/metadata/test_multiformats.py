"""Varints, multihashes, multibase."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.errors import OdfError
from odf.metadata.identity import DatasetID
from odf.metadata.multiformats import (
    SHA3_256,
    MultiformatError,
    Multihash,
    decode_multibase,
    decode_varint,
    encode_multibase,
    encode_varint,
)


def test_multicodec_vectors(vectors):
    for codec in vectors("multiformats")["multicodecs"]:
        assert encode_varint(codec["code"]).hex() == codec["derivedVarintHex"]


def test_multihash_vectors(vectors):
    for vector in vectors("multiformats")["multihash"]:
        if "inputUtf8" in vector:
            made = Multihash.sha3_256(vector["inputUtf8"].encode())
            assert str(made) == vector["base16"]
            assert made.short == vector.get("short8", made.short)
        if "base58btc" in vector:
            assert str(Multihash.parse(vector["base58btc"])) == vector["base16"]
            parsed = Multihash.parse(vector["base16"])
            assert encode_multibase(parsed.to_bytes(), "z") == vector["base58btc"]
        if "equal" in vector:
            one, other = (Multihash.parse(text) for text in vector["equal"])
            assert one == other
            assert Multihash.parse(vector["notEqual"][0]) != one


def test_did_vectors(vectors):
    data = vectors("multiformats")
    for vector in data["didOdf"]:
        if "didOdf" in vector:
            parsed = DatasetID.parse(vector["didOdf"])
            assert parsed.did_key == vector["didKey"]
            assert DatasetID.parse(vector["acceptsBase58Form"]) == parsed
        else:
            one, other = (DatasetID.parse(text) for text in vector["notEqual"])
            assert one != other
    for vector in data["seededEd25519"]["vectors"]:
        if "didOdfBase58" in vector:
            assert DatasetID.parse(vector["didOdfBase58"]).did_key.endswith(vector["base58btc"])
        else:
            assert DatasetID.parse(vector["didOdf"]).multibase == vector["multibase"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "f",
        "x1234",
        "fzz",
        "f1",
        "f16 2",
        "z0",
        "fed01",
        "f1620" + "00" * 31,
        "f1620" + "00" * 33,
        "f9999" + "00" * 32,
        "f" + "0" * 300,
        "f162008C3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635",
        "F162008c3792b2a4deed1bd7ea2328fb5de5531eccf0fbfa04a7d800cdc267137c635",
    ],
)
def test_what_is_no_multihash_is_refused(text):
    with pytest.raises(MultiformatError):
        Multihash.parse(text)


@given(st.binary(max_size=40), st.sampled_from("fFbBzmuU"))
def test_every_final_multibase_encoding_comes_back(data, prefix):
    assert decode_multibase(encode_multibase(data, prefix)) == data


@given(st.binary(min_size=1, max_size=40), st.sampled_from("fFbBzmuU"), st.data())
def test_a_value_has_one_spelling_in_an_encoding(data, prefix, draw):
    text = encode_multibase(data, prefix)
    at = draw.draw(st.integers(1, len(text) - 1))
    changed = text[:at] + draw.draw(st.characters(max_codepoint=127)) + text[at + 1 :]
    try:
        decoded = decode_multibase(changed)
    except MultiformatError:
        return
    assert (decoded == data) == (changed == text)


@given(st.integers(0, 2**63 - 1))
def test_varints_come_back(value):
    data = encode_varint(value)
    assert decode_varint(b"x" + data + b"y", 1) == (value, 1 + len(data))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80\x00", b"\xff" * 10])
def test_bad_varints_are_refused(data):
    with pytest.raises(MultiformatError):
        decode_varint(data)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_multihash_or_an_error(data):
    with contextlib.suppress(OdfError):
        assert Multihash.from_bytes(data).to_bytes() == data


@given(st.text(max_size=80))
def test_any_text_is_a_multihash_or_an_error(text):
    with contextlib.suppress(OdfError):
        Multihash.parse(text)


def test_binary_form():
    made = Multihash.sha3_256(b"a")
    assert made.code == SHA3_256
    assert made.to_bytes()[:2] == b"\x16\x20"
    assert Multihash.from_bytes(made.to_bytes()) == made

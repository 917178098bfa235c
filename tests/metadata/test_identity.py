"""Names, aliases, references, patterns."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odf.errors import OdfError
from odf.metadata.identity import (
    AccountName,
    AmbiguousAlias,
    DatasetAlias,
    DatasetID,
    DatasetName,
    DatasetPattern,
    IdentityError,
    ReferenceName,
    RemoteAlias,
    RemoteID,
    RemoteUrl,
    RepoName,
    is_pattern,
    parse_dataset_ref,
    parse_dataset_ref_any,
)
from odf.store.base import check_key
from tests.metadata.model_strategies import aliases, ids

PARSERS = {
    "DatasetRefAny": parse_dataset_ref_any,
    "DatasetName": DatasetName.parse,
    "DatasetAlias": DatasetAlias.parse,
    "DatasetAliasRemote": RemoteAlias.parse,
}
DID = "did:odf:fed012126262ba49e1ba8392c26f7a39e1ba8d756c7469786d3365200c68402ff65dc"


def as_expected(parsed):
    """Say a parsed reference in the words of the vectors."""
    match parsed:
        case DatasetID():
            return {"variant": "ID", "repo": None, "id": str(parsed)}
        case RemoteID(repo, dataset_id):
            return {"variant": "ID", "repo": str(repo), "id": str(dataset_id)}
        case AmbiguousAlias(owner, name):
            return {"variant": "AmbiguousAlias", "repoOrAccount": str(owner), "name": str(name)}
        case RemoteAlias(repo, name, account):
            account = str(account) if account else None
            return {
                "variant": "RemoteAlias",
                "repo": str(repo),
                "account": account,
                "name": str(name),
            }
        case RemoteUrl(url):
            return {"variant": "Url", "url": url}
        case _:
            return str(parsed)


def test_reference_vectors(vectors):
    for vector in vectors("dataset-refs")["parse"]:
        parse = PARSERS[vector["target"]]
        if vector["expect"] is None:
            with pytest.raises(IdentityError):
                parse(vector["input"])
            continue
        options = {"repos": ["repo"]} if vector.get("ifPrefixIsRepo") else {}
        found = as_expected(parse(vector["input"], **options))
        if isinstance(found, dict) and "variant" not in vector["expect"]:
            del found["variant"]
        assert found == vector["expect"], vector["input"]


def test_equality_vectors(vectors):
    for vector in vectors("dataset-refs")["equality"]:
        one, other = (PARSERS[vector["target"]](vector[key]) for key in "ab")
        assert (one == other) == vector["equal"]
        assert (hash(one) == hash(other)) == vector["equal"]


def test_pattern_vectors(vectors):
    data = vectors("dataset-refs")
    for vector in data["namePatternGrammar"]["vectors"]:
        if vector["tail"] == "":
            assert str(DatasetPattern.parse(vector["input"])) == vector["input"]
        else:
            with pytest.raises(IdentityError):
                DatasetPattern.parse(vector["input"])
    for vector in data["patternMatch"]:
        if vector["pattern"].startswith("did:"):
            assert not is_pattern(vector["pattern"])
            continue
        account = AccountName(vector["account"]) if vector["account"] else None
        alias = DatasetAlias(DatasetName(vector["name"]), account)
        assert DatasetPattern.parse(vector["pattern"]).matches(alias) == vector["matches"]


def test_examples_of_the_specification(vectors):
    for text in vectors("dataset-refs")["specExamples"]["valid"]:
        assert str(parse_dataset_ref_any(text)) == text


def test_a_known_repository_decides_what_is_remote():
    assert parse_dataset_ref_any("a/b", repos=["A"]) == RemoteAlias(RepoName("a"), DatasetName("b"))
    assert parse_dataset_ref_any("a/b", repos=[]) == DatasetAlias.parse("a/b")
    assert isinstance(parse_dataset_ref_any("a/b"), AmbiguousAlias)


def test_a_bad_identifier_is_not_taken_for_a_name():
    for text in ("did:odf:fed01", "repo/did:odf:f1234", "did:odf:f" + "00" * 34, "did:odf:"):
        with pytest.raises(IdentityError):
            parse_dataset_ref_any(text)
    with pytest.raises(IdentityError):
        parse_dataset_ref("did:odf:fed0100")
    with pytest.raises(IdentityError):
        DatasetID.parse(DID[8:])


def test_names_keep_their_case_and_compare_without_it():
    name = DatasetName("Com.Example")
    assert str(name) == "Com.Example"
    assert name == DatasetName("com.example")
    assert name != AccountName("com.example")
    assert min(DatasetName("b"), DatasetName("A"), DatasetName("C")) == DatasetName("a")
    assert min(DatasetAlias.parse("x/a"), DatasetAlias.parse("B")) == DatasetAlias.parse("b")


@given(aliases)
def test_aliases_come_back(alias):
    assert DatasetAlias.parse(str(alias)) == alias


@given(ids, st.sampled_from("fzmbuU"))
def test_identifiers_come_back_from_every_encoding(dataset_id, prefix):
    from odf.metadata.multiformats import encode_multibase

    text = "did:odf:" + encode_multibase(dataset_id.to_bytes(), prefix)
    assert DatasetID.parse(text) == dataset_id
    assert DatasetID.from_bytes(dataset_id.to_bytes()) == dataset_id


@given(st.text(st.sampled_from("ab.-/_:%+d "), max_size=12) | st.text(max_size=12))
def test_any_text_is_a_reference_or_an_error(text):
    for parse in (
        parse_dataset_ref,
        parse_dataset_ref_any,
        DatasetPattern.parse,
        RemoteAlias.parse,
    ):
        with contextlib.suppress(OdfError):
            assert str(parse(text)) == text or text.startswith("did:")


@given(st.text("ab", max_size=10), st.text("ab%", min_size=1, max_size=8))
def test_wildcards_match_as_a_regular_expression_would(text, pattern):
    import re

    if not text:
        return
    expected = re.fullmatch(pattern.replace("%", ".*"), text) is not None
    alias = DatasetAlias(DatasetName(text))
    assert DatasetPattern.parse(pattern).matches(alias) == expected


@pytest.mark.parametrize("text", ["head", "backup-12", "v1.0", "staged-2026-01.a", "7", "x" * 100])
def test_names_of_references(text):
    assert str(ReferenceName.parse(text)) == text
    check_key(text)  # every name is a safe file name


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        ".hidden",
        "a..b",
        "a.",
        "-a",
        "a--b",
        "a_b",
        "Head",
        "a/b",
        "a\\b",
        "a b",
        "a\n",
        "ä",
        "\0",
        "x" * 101,
    ],
)
def test_what_no_reference_can_be_called(text):
    with pytest.raises(IdentityError, match="is not a name of a reference"):
        ReferenceName.parse(text)


@given(st.text(max_size=20))
def test_names_of_references_are_safe_file_names(text):
    with contextlib.suppress(IdentityError):
        assert check_key(str(ReferenceName(text))) == text.lower()

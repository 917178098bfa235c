"""Kinds of `odf conformance` about metadata: blocks, manifests, hashes, names."""

from collections.abc import Callable
from typing import Any, Final

from odf.coordinator.conformance import Case, Rule, object_of, text_of, texts_of
from odf.errors import BadInputError
from odf.metadata import model
from odf.metadata.data_types import ExtraAttributes
from odf.metadata.declare import WireEnum
from odf.metadata.flatbuffers import (
    LAYOUTS,
    block_hash,
    block_layout,
    decode_block,
    encode_block,
)
from odf.metadata.identity import (
    AccountName,
    AmbiguousAlias,
    DatasetAlias,
    DatasetID,
    DatasetName,
    DatasetPattern,
    DatasetRef,
    DatasetRefAny,
    RemoteAlias,
    RemoteID,
    RemoteUrl,
    RepoName,
    is_pattern,
    parse_dataset_ref,
    parse_dataset_ref_any,
    parse_dataset_ref_remote,
)
from odf.metadata.json import UNIONS
from odf.metadata.model import MetadataBlock, Timestamp, UnknownEvent
from odf.metadata.multiformats import Multihash, encode_multibase
from odf.metadata.yaml import MANIFEST_KINDS, dump_yaml, from_json, load_yaml, to_json

# -- Blocks ------------------------------------------------------------------------------------


def encode(case: Case) -> object:
    """`block-encode`: the block that spec JSON describes, as bytes.

    Raises:
        OdfError: It is no block, or has no form on the wire.
    """
    layout = case.get("layout", LAYOUTS[0])
    if type(layout) is not int or layout not in LAYOUTS:
        raise BadInputError(f"`layout` is {layout!r}, wanted {LAYOUTS[0]} or {LAYOUTS[1]}")
    block = from_json(MetadataBlock, object_of(case, "block"), "block")
    data = encode_block(block, layout)
    return {"bytesHex": data.hex(), "hash": str(block_hash(data))}


def decode(case: Case) -> object:
    """`block-decode`: the block that bytes hold, as spec JSON.

    Raises:
        OdfError: The bytes are no block.
    """
    data = _hex(text_of(case, "bytesHex"))
    block = decode_block(data)
    return {
        "block": to_json(block),
        "layout": block_layout(data),
        "hash": str(block_hash(data)),
    }


def _hex(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise BadInputError(f"`bytesHex` is not hexadecimal: {error}") from error
    if len(text) != 2 * len(data):
        raise BadInputError("`bytesHex` is not hexadecimal: it has blanks")
    return data


# -- YAML --------------------------------------------------------------------------------------


def _named_types() -> dict[str, Any]:
    values = (DatasetAlias, DatasetID, Multihash, Timestamp, ExtraAttributes, UnknownEvent)
    found: dict[str, Any] = {
        name: value
        for name, value in vars(model).items()
        if isinstance(value, type)
        and value not in values
        and (_is_model(value) or (issubclass(value, WireEnum) and value is not WireEnum))
    }
    for union in UNIONS:
        # A variant is read as one of its union, since `kind` says which one it is.
        found |= {cls.__name__: getattr(model, union.name) for cls in union.members}
        found[union.name] = getattr(model, union.name)
    return found


def _is_model(cls: type) -> bool:
    return cls.__module__ in _MODEL_MODULES and hasattr(cls, "__dataclass_fields__")


_MODEL_MODULES: Final = ("odf.metadata.model", "odf.metadata.sources", "odf.metadata.data_types")
_TYPES: Final = _named_types()


def read_yaml(case: Case) -> object:
    """`yaml`: a document of a given type, as JSON and as canonical YAML.

    Raises:
        OdfError: There is no such type, or the document is none of it.
    """
    name = text_of(case, "type")
    if name not in _TYPES:
        raise BadInputError(f"`type` is {name!r}, which is no type of the metadata")
    value = load_yaml(_TYPES[name], text_of(case, "yaml"), "yaml")
    wanted = getattr(model, name)
    if isinstance(wanted, type) and not isinstance(value, wanted):
        raise BadInputError(f"the document is a {type(value).__name__}, wanted {name}")
    return {"json": _document(value), "yaml": dump_yaml(value)}


def _document(value: Any) -> Any:
    """Return an object as JSON, in its manifest if it has one: what `dump_yaml` writes."""
    for kind in MANIFEST_KINDS:
        if type(value) is kind.type:
            return {"kind": kind.name, "version": kind.written, "content": to_json(value)}
    return to_json(value)


# -- Hashes and identifiers --------------------------------------------------------------------


def multihash(case: Case) -> object:
    """`multihash`: the parts of a multihash, and its text in two encodings.

    Raises:
        OdfError: The text is no multihash.
    """
    found = Multihash.parse(text_of(case, "text"))
    return {
        "code": found.code,
        "digestHex": found.digest.hex(),
        "base16": str(found),
        "base58btc": encode_multibase(found.to_bytes(), "z"),
    }


def did(case: Case) -> object:
    """`did`: the identifier of a dataset, its key, and the same key as `did:key`.

    Raises:
        OdfError: The text is no identifier of a dataset.
    """
    found = DatasetID.parse(text_of(case, "text"))
    return {
        "base16": str(found),
        "didKey": found.did_key,
        "publicKeyHex": found.public_key.hex(),
    }


# -- References --------------------------------------------------------------------------------


def ref(case: Case) -> object:
    """`ref`: the parts of a name or a reference, read as what `target` says.

    Raises:
        OdfError: There is no such target, or the text is none of it.
    """
    target = text_of(case, "target")
    if target not in _TARGETS:
        raise BadInputError(f"`target` is {target!r}, wanted one of {', '.join(_TARGETS)}")
    repos = None if case.get("repos") is None else texts_of(case, "repos")
    return _TARGETS[target](text_of(case, "text"), repos)


def _any(text: str, repos: list[str] | None) -> object:
    return _any_parts(parse_dataset_ref_any(text, repos))


def _any_parts(found: DatasetRefAny) -> dict[str, object]:
    match found:
        case DatasetID():
            return {"variant": "ID", "repo": None, "id": str(found)}
        case RemoteID(repo, dataset_id):
            return {"variant": "ID", "repo": str(repo), "id": str(dataset_id)}
        case DatasetAlias():
            return {"variant": "LocalAlias", **_alias_parts(found)}
        case RemoteAlias():
            return {"variant": "RemoteAlias", **_remote_parts(found)}
        case AmbiguousAlias(owner, name):
            return {"variant": "AmbiguousAlias", "repoOrAccount": str(owner), "name": str(name)}
        case RemoteUrl(url):
            return {"variant": "Url", "url": url}


def _alias_parts(found: DatasetAlias) -> dict[str, object]:
    return {"account": _optional(found.account), "name": str(found.name)}


def _remote_parts(found: RemoteAlias) -> dict[str, object]:
    return {
        "repo": str(found.repo),
        "account": _optional(found.account),
        "name": str(found.name),
    }


def _remote(text: str, _repos: list[str] | None) -> object:
    found = _any_parts(parse_dataset_ref_remote(text))
    return {**found, "variant": str(found["variant"]).removeprefix("Remote")}


def _local(text: str, _repos: list[str] | None) -> object:
    found: DatasetRef = parse_dataset_ref(text)
    if isinstance(found, DatasetID):
        return {"variant": "ID", "id": str(found)}
    return {"variant": "Alias", **_alias_parts(found)}


def _ref_pattern(text: str, _repos: list[str] | None) -> object:
    if not is_pattern(text):
        return {"ref": str(parse_dataset_ref(text))}
    found = DatasetPattern.parse(text)
    return {"pattern": {"account": _optional(found.account), "name": found.name}}


def _any_pattern(text: str, repos: list[str] | None) -> object:
    if not is_pattern(text):
        return {"variant": f"Ref.{_any_parts(parse_dataset_ref_any(text, repos))['variant']}"}
    found = DatasetPattern.parse(text)
    if found.account is None:
        return {"variant": "PatternLocal", "name": found.name}
    return {
        "variant": "PatternAmbiguous",
        "repoOrAccount": str(found.account),
        "name": found.name,
    }


def _name_pattern(text: str, _repos: list[str] | None) -> object:
    found = DatasetPattern.parse(text)
    if found.account is not None:
        raise BadInputError(f"{text!r} has an account, wanted a pattern of names alone")
    return {"name": found.name}


def _name(parse: Callable[[str], object]) -> Callable[[str, list[str] | None], object]:
    return lambda text, _repos: {"name": str(parse(text))}


def _optional(value: object | None) -> str | None:
    return None if value is None else str(value)


_TARGETS: Final[dict[str, Callable[[str, list[str] | None], object]]] = {
    "DatasetRefAny": _any,
    "DatasetRef": _local,
    "DatasetRefRemote": _remote,
    "DatasetAlias": lambda text, _repos: _alias_parts(DatasetAlias.parse(text)),
    "DatasetAliasRemote": lambda text, _repos: _remote_parts(RemoteAlias.parse(text)),
    "DatasetID": lambda text, _repos: {"id": str(DatasetID.parse(text))},
    "DatasetName": _name(DatasetName.parse),
    "AccountName": _name(AccountName.parse),
    "RepoName": _name(RepoName.parse),
    "DatasetNamePattern": _name_pattern,
    "DatasetRefPattern": _ref_pattern,
    "DatasetRefAnyPattern": _any_pattern,
}

RULES: Final[dict[str, Rule]] = {
    "block-encode": encode,
    "block-decode": decode,
    "yaml": read_yaml,
    "multihash": multihash,
    "did": did,
    "ref": ref,
}
"""The rules by kind."""

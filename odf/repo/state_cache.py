"""The chain state of a dataset, remembered so that nobody walks a long chain twice.

One file beside the dataset's protocol folders: a checksum, then JSON. Whatever does not fit (other
format, release, checksum, content) is forgotten; the chain is the truth. The checksum finds
accidents, not forgeries, so the file is read only where one's own process wrote it, and never by
what checks a dataset.
"""

import contextlib
import hashlib
import json
from typing import Final

from odf import __version__
from odf.errors import OdfError
from odf.limits import MAX_CHAIN_STATE_SIZE
from odf.metadata.chain import ChainState
from odf.metadata.identity import ReferenceName
from odf.metadata.json import from_json, to_json
from odf.metadata.multiformats import Multihash
from odf.repo.layout import CACHE_KEY, HEAD_REFERENCE
from odf.store.base import ObjectStore

_FORMAT: Final = 1


def load_state(store: ObjectStore, reference: ReferenceName = HEAD_REFERENCE) -> ChainState | None:
    """Return the remembered state of a reference, wherever that was; None if none can be used."""
    try:
        data = store.get(_key(reference), MAX_CHAIN_STATE_SIZE)
    except OdfError:
        return None
    checksum, _, body = data.partition(b"\n")
    if checksum != _checksum(body):
        return None
    try:
        content = json.loads(body)
        if content["format"] != _FORMAT or content["release"] != __version__:
            return None
        state: ChainState = from_json(ChainState, content["state"])
        return state if state.head == Multihash.parse(content["head"]) else None
    except (OdfError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save_state(
    store: ObjectStore, state: ChainState, reference: ReferenceName = HEAD_REFERENCE
) -> None:
    """Remember the state of a reference.

    That it could not be written is no failure: it can be made again.
    """
    content = {
        "format": _FORMAT,
        "release": __version__,
        "head": str(state.head),
        "state": to_json(state),
    }
    body = json.dumps(content, separators=(",", ":")).encode()
    try:
        store.put(_key(reference), _checksum(body) + b"\n" + body)
    except OdfError:
        return


def forget_state(store: ObjectStore, reference: ReferenceName) -> None:
    """Drop the state of a reference that is gone; a leftover would do no harm."""
    with contextlib.suppress(OdfError):
        store.delete(_key(reference))


def _key(reference: ReferenceName) -> str:
    return CACHE_KEY if reference == HEAD_REFERENCE else f"{CACHE_KEY}-{reference}"


def _checksum(body: bytes) -> bytes:
    return hashlib.sha3_256(body).hexdigest().encode()

"""Where the parts of a dataset are: the ODF layout over any store (wire-format.md §f)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from odf.metadata.identity import ReferenceName
from odf.store.base import ObjectStore, ReferenceStore
from odf.store.http import HttpClient, HttpObjectStore, HttpReferenceStore, with_slash
from odf.store.local import LocalObjectStore, LocalReferenceStore
from odf.store.locks import FileLock, MemoryLock, WriterLock
from odf.store.memory import MemoryObjectStore, MemoryReferenceStore

HEAD: Final = "head"
"""The reference that says which block is the newest."""

HEAD_REFERENCE: Final = ReferenceName(HEAD)
"""The same as a name among others."""

CACHE_KEY: Final = "chain-state"
"""The cached chain state, in the folder of what is not part of the protocol.

That of another reference than `head` has the reference's name behind it.
"""

ObjectKind = Literal["data", "checkpoint"]
"""What an object that a block names is: a slice file, or the state of an engine."""


@dataclass(frozen=True, slots=True)
class DatasetStores:
    """The stores of one dataset.

    Attributes:
        url: Where the dataset is, for messages and records.
        blocks: Metadata blocks by hash.
        data: Slice files by physical hash.
        checkpoints: States of engines by physical hash.
        refs: References to blocks, `head` first of all.
        lock: Who may write.
        cache: What can be made again, the chain state; None where nothing may be kept or nothing
            that was found may be believed.
    """

    url: str
    blocks: ObjectStore
    data: ObjectStore
    checkpoints: ObjectStore
    refs: ReferenceStore
    lock: WriterLock
    cache: ObjectStore | None = None

    def objects(self, kind: ObjectKind) -> ObjectStore:
        """Return the store of slices or of checkpoints."""
        return self.data if kind == "data" else self.checkpoints

    @classmethod
    def local(
        cls, folder: Path, *, name: str | None = None, command: str = "odf", cached: bool = True
    ) -> Self:
        """Return the stores of a dataset in a folder; nothing is made before something is written.

        Args:
            folder: The dataset's folder.
            name: What messages call it; its folder by default.
            command: What this process is doing, for others who find the dataset locked.
            cached: False for a folder of somebody else: what it says about its own chain state is
                not believed, and nothing is written into it.
        """
        info = folder / "info"
        return cls(
            url=name or str(folder),
            blocks=LocalObjectStore(folder / "blocks"),
            data=LocalObjectStore(folder / "data"),
            checkpoints=LocalObjectStore(folder / "checkpoints"),
            refs=LocalReferenceStore(folder / "refs"),
            lock=FileLock(info / "lock", what=name or str(folder), command=command),
            cache=LocalObjectStore(info, durable=False) if cached else None,
        )

    @classmethod
    def http(cls, url: str, client: HttpClient) -> Self:
        """Return the stores of a dataset behind a plain web server; they can only be read."""
        base = with_slash(url)
        return cls(
            url=base,
            blocks=HttpObjectStore(base + "blocks/", client),
            data=HttpObjectStore(base + "data/", client),
            checkpoints=HttpObjectStore(base + "checkpoints/", client),
            refs=HttpReferenceStore(base + "refs/", client),
            lock=MemoryLock(base),
        )

    @classmethod
    def memory(cls, name: str = "memory") -> Self:
        """Return the stores of a dataset that exists as long as this process."""
        return cls(
            url=name,
            blocks=MemoryObjectStore(f"{name}/blocks"),
            data=MemoryObjectStore(f"{name}/data"),
            checkpoints=MemoryObjectStore(f"{name}/checkpoints"),
            refs=MemoryReferenceStore(f"{name}/refs"),
            lock=MemoryLock(name),
            cache=MemoryObjectStore(f"{name}/info"),
        )

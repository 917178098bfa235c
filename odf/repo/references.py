"""The names that point into a dataset's chain: its head, branches, tags and backups.

A reference is a root: whatever it reaches is part of the dataset, is checked by `verify`, and is
not for a collector of garbage to take.
"""

from odf.errors import BadInputError
from odf.metadata.identity import IdentityError, ReferenceName
from odf.metadata.multiformats import SHA3_256, MultiformatError, Multihash
from odf.repo.errors import CorruptChainError
from odf.repo.layout import HEAD_REFERENCE, DatasetStores


class References:
    """References of one dataset, as hashes of blocks.

    Args:
        stores: The dataset's stores.
    """

    def __init__(self, stores: DatasetStores) -> None:
        self._refs = stores.refs
        self._url = stores.url

    def get(self, name: ReferenceName) -> Multihash | None:
        """Return the block that a reference names; None if there is no such reference.

        Raises:
            CorruptChainError: It does not hold a hash of a block.
        """
        text = self._refs.get(str(name))
        return None if text is None else self._parse(name, text)

    def _parse(self, name: ReferenceName, text: str) -> Multihash:
        try:
            found = Multihash.parse(text)
        except MultiformatError as error:
            raise CorruptChainError(
                f"{self._url}: refs/{name} holds {text[:80]!r}, wanted the hash of a block: "
                f"{error.message}"
            ) from error
        if found.code != SHA3_256:
            raise CorruptChainError(f"{self._url}: refs/{name} names {found}, not a SHA3-256 hash")
        return found

    def names(self) -> tuple[ReferenceName, ...]:
        """List all references, `head` first, then by name.

        A store that cannot be listed (a plain web server) tells of `head` only.

        Raises:
            CorruptChainError: Something is there that no reference can be called: what it holds
                on to is not known, so nothing may be concluded from the others.
        """
        found = []
        for text in self._refs.names():
            try:
                found.append(ReferenceName(text))
            except IdentityError as error:
                raise CorruptChainError(f"{self._url}: refs/{text}: {error.message}") from error
        return tuple(sorted(found, key=lambda name: (name != HEAD_REFERENCE, name)))

    def all(self) -> dict[ReferenceName, Multihash]:
        """Return all references with the blocks that they name, `head` first.

        Raises:
            CorruptChainError: One of them cannot be read.
        """
        found = ((name, self.get(name)) for name in self.names())
        return {name: at for name, at in found if at is not None}

    def move(self, name: ReferenceName, to: Multihash, expected: Multihash | None) -> None:
        """Point a reference elsewhere, if it still is where the caller believes.

        Args:
            name: The reference.
            to: The block that it names from now on.
            expected: The block that it must name before; None for a new reference.

        Raises:
            ConflictError: It names another block.
        """
        self._refs.set(str(name), str(to), self._as_written(name, expected))

    def delete(self, name: ReferenceName, expected: Multihash) -> None:
        """Remove a reference other than `head`, if it still is where the caller believes.

        Raises:
            BadInputError: It is `head`, without which there is no dataset.
            ConflictError: It names another block, or is not there.
        """
        if name == HEAD_REFERENCE:
            raise BadInputError(f"{self._url}: a dataset cannot be without refs/head")
        self._refs.delete(str(name), self._as_written(name, expected) or str(expected))

    def _as_written(self, name: ReferenceName, expected: Multihash | None) -> str | None:
        """Return the text that a reference must hold: a hash can be written in many encodings."""
        text = self._refs.get(str(name))
        if text is not None and self.get(name) == expected:
            return text
        return str(expected) if expected else None

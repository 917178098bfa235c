"""How datasets are named: did:odf, names, aliases, references and patterns.

See wire-format.md §c.2 and §c.3. Names keep the case they were typed in and compare without it;
identifiers compare by their bytes.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import total_ordering
from typing import Final, Self

from odf.errors import BadInputError
from odf.metadata.multiformats import (
    ED25519_PUB,
    MultiformatError,
    decode_multibase,
    decode_varint,
    encode_multibase,
    encode_varint,
)

_SUBDOMAIN: Final = "[a-zA-Z0-9]+(?:-[a-zA-Z0-9]+)*"
_HOSTNAME: Final = re.compile(rf"{_SUBDOMAIN}(?:\.{_SUBDOMAIN})*", re.ASCII)
_PATTERN_SUBDOMAIN: Final = "[a-zA-Z0-9%]+(?:-[a-zA-Z0-9%]+)*"
_PATTERN: Final = re.compile(rf"{_PATTERN_SUBDOMAIN}(?:\.{_PATTERN_SUBDOMAIN})*", re.ASCII)
_MULTIBASE: Final = re.compile("[a-zA-Z0-9+/=]+", re.ASCII)
_URL: Final = re.compile(r"[a-zA-Z0-9]+(?:\+[a-zA-Z0-9]+)*://\S+", re.ASCII)
_REFERENCE_NAME: Final = re.compile("[a-z0-9]+(?:[.-][a-z0-9]+)*", re.ASCII)
_MAX_REFERENCE_NAME: Final = 100
_DID_PREFIX: Final = "did:odf:"
_KEY_SIZE: Final = 32


class IdentityError(BadInputError):
    """Text or bytes that do not name a dataset, account, repository or reference."""


@dataclass(frozen=True, slots=True, order=True)
class DatasetID:
    """The unique identifier of a dataset: its ed25519 public key, written `did:odf:fed01…`.

    Attributes:
        public_key: 32 bytes.
    """

    public_key: bytes

    def __post_init__(self) -> None:
        if len(self.public_key) != _KEY_SIZE:
            raise IdentityError(
                f"a dataset key of {len(self.public_key)} bytes, wanted {_KEY_SIZE} (ed25519)"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `did:odf:` followed by a key in any multibase encoding.

        Raises:
            IdentityError: If the text is not one.
        """
        if not text.startswith(_DID_PREFIX):
            raise IdentityError(f"{text!r} is not a dataset identifier, wanted did:odf:…")
        try:
            return cls.from_bytes(decode_multibase(text[len(_DID_PREFIX) :]))
        except (MultiformatError, IdentityError) as error:
            raise IdentityError(f"{text!r} is not a dataset identifier: {error.message}") from error

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the binary form: the code of ed25519 keys, then the 32 bytes of the key.

        Raises:
            IdentityError: If it is another kind of key or has another length.
        """
        try:
            code, at = decode_varint(data)
        except MultiformatError as error:
            raise IdentityError(f"not a dataset identifier: {error.message}") from error
        if code != ED25519_PUB:
            raise IdentityError(f"key type 0x{code:x} in a dataset identifier, wanted ed25519")
        return cls(bytes(data[at:]))

    def to_bytes(self) -> bytes:
        """Write the 34 bytes that `from_bytes` reads."""
        return encode_varint(ED25519_PUB) + self.public_key

    @property
    def multibase(self) -> str:
        """The canonical text without its `did:odf:`; a name of a folder."""
        return encode_multibase(self.to_bytes())

    @property
    def did_key(self) -> str:
        """The same key as a `did:key:`, in base58 as is the custom there."""
        return "did:key:" + encode_multibase(self.to_bytes(), "z")

    def __str__(self) -> str:
        return _DID_PREFIX + self.multibase


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class _Name:
    """A dotted name of ASCII letters, digits and single dashes; compares without case."""

    text: str

    def __post_init__(self) -> None:
        if not _HOSTNAME.fullmatch(self.text):
            raise IdentityError(
                f"{self.text!r} is not a name of {self._what()}: wanted letters, digits and "
                "dashes in parts joined by dots, for example com.example.my-data"
            )

    @classmethod
    def _what(cls) -> str:
        return "a dataset"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name; the whole text must be one.

        Raises:
            IdentityError: If it is not.
        """
        return cls(text)

    @property
    def folded(self) -> str:
        """The form that is compared, hashed and sorted by."""
        return self.text.lower()

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.folded == other.folded

    def __lt__(self, other: Self) -> bool:
        return self.folded < other.folded

    def __hash__(self) -> int:
        return hash(self.folded)

    def __str__(self) -> str:
        return self.text


class DatasetName(_Name):
    """The name of a dataset, for example `com.example.my-data`."""

    __slots__ = ()


class AccountName(_Name):
    """The name of an account that owns datasets."""

    __slots__ = ()

    @classmethod
    def _what(cls) -> str:
        return "an account"


class RepoName(_Name):
    """The local name of a registered repository."""

    __slots__ = ()

    @classmethod
    def _what(cls) -> str:
        return "a repository"


@dataclass(frozen=True, slots=True, order=True)
class ReferenceName:
    """The name of a reference to a block of a chain: `head`, or a branch, tag or backup.

    References become files (`refs/NAME`), so the grammar allows nothing that could leave the
    folder, hide, or be one file on one file system and two on another: lower-case letters and
    digits, joined by single dashes or dots.

    Attributes:
        text: The name, at most 100 characters.
    """

    text: str

    def __post_init__(self) -> None:
        if len(self.text) > _MAX_REFERENCE_NAME or not _REFERENCE_NAME.fullmatch(self.text):
            raise IdentityError(
                f"{self.text[:120]!r} is not a name of a reference: wanted lower-case letters and "
                f"digits joined by single dashes or dots, at most {_MAX_REFERENCE_NAME} "
                "characters, for example staged-2026.1"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name; the whole text must be one.

        Raises:
            IdentityError: If it is not.
        """
        return cls(text)

    def __str__(self) -> str:
        return self.text


@total_ordering
@dataclass(frozen=True, slots=True)
class DatasetAlias:
    """A name for people, `name` or `account/name`; it may change, the identifier does not.

    Attributes:
        name: The dataset's name.
        account: Its owner, where there are several.
    """

    name: DatasetName
    account: AccountName | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `name` or `account/name`.

        Raises:
            IdentityError: If the text is neither.
        """
        account, slash, name = text.rpartition("/")
        try:
            return cls(DatasetName(name), AccountName(account) if slash else None)
        except IdentityError as error:
            raise IdentityError(
                f"{text!r} is not a dataset alias, wanted NAME or ACCOUNT/NAME: {error.message}"
            ) from error

    def _key(self) -> tuple[str, str]:
        return (self.account.folded if self.account else "", self.name.folded)

    def __lt__(self, other: "DatasetAlias") -> bool:
        return self._key() < other._key()

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else str(self.name)


@dataclass(frozen=True, slots=True)
class AmbiguousAlias:
    """`a/b` where nobody said yet whether `a` is a repository or an account.

    Attributes:
        repo_or_account: The part before the slash.
        name: The dataset's name.
    """

    repo_or_account: AccountName
    name: DatasetName

    def __str__(self) -> str:
        return f"{self.repo_or_account}/{self.name}"


@dataclass(frozen=True, slots=True)
class RemoteAlias:
    """A dataset in a repository, `repo/name` or `repo/account/name`.

    Attributes:
        repo: The repository.
        name: The dataset's name there.
        account: Its owner there, if the repository has several.
    """

    repo: RepoName
    name: DatasetName
    account: AccountName | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `repo/name` or `repo/account/name`.

        Raises:
            IdentityError: If the text is neither.
        """
        repo, _, alias = text.partition("/")
        try:
            local = DatasetAlias.parse(alias)
            return cls(RepoName(repo), local.name, local.account)
        except IdentityError as error:
            raise IdentityError(
                f"{text!r} is not a remote alias, wanted REPO/NAME or REPO/ACCOUNT/NAME: "
                + error.message
            ) from error

    def __str__(self) -> str:
        owner = f"{self.account}/" if self.account else ""
        return f"{self.repo}/{owner}{self.name}"


@dataclass(frozen=True, slots=True)
class RemoteID:
    """A dataset in a repository, named by its identifier: `repo/did:odf:…`.

    Attributes:
        repo: The repository.
        id: The dataset.
    """

    repo: RepoName
    id: DatasetID

    def __str__(self) -> str:
        return f"{self.repo}/{self.id}"


@dataclass(frozen=True, slots=True)
class RemoteUrl:
    """A dataset at a URL.

    Attributes:
        url: As typed.
    """

    url: str

    def __str__(self) -> str:
        return self.url


DatasetRef = DatasetID | DatasetAlias
"""What names a dataset of this workspace."""

DatasetRefRemote = DatasetID | RemoteAlias | RemoteID | RemoteUrl
"""What names a dataset elsewhere; an identifier alone leaves open where."""

DatasetRefAny = DatasetID | DatasetAlias | AmbiguousAlias | RemoteAlias | RemoteID | RemoteUrl
"""What names a dataset anywhere."""


def parse_dataset_ref(text: str) -> DatasetRef:
    """Read a reference to a local dataset: an identifier, `name` or `account/name`.

    Raises:
        IdentityError: If the text is none of them.
    """
    if _is_did(text):
        return DatasetID.parse(text)
    return DatasetAlias.parse(text)


def parse_dataset_ref_any(text: str, repos: Collection[str] | None = None) -> DatasetRefAny:
    """Read a reference to a dataset anywhere.

    Args:
        text: The whole reference.
        repos: Names of the known repositories, which decide whether `a/b` is remote or local;
            without them it stays an `AmbiguousAlias`.

    Raises:
        IdentityError: If the text is no reference.
    """
    if _is_did(text):
        return DatasetID.parse(text)
    before, slash, after = text.partition("/")
    if slash and _HOSTNAME.fullmatch(before) and _is_did(after):
        return RemoteID(RepoName(before), DatasetID.parse(after))
    if _URL.fullmatch(text):
        return RemoteUrl(text)
    try:
        if text.count("/") >= 2:  # noqa: PLR2004 - the form with three parts
            return RemoteAlias.parse(text)
        alias = DatasetAlias.parse(text)
    except IdentityError as error:
        raise IdentityError(
            f"{text!r} does not name a dataset",
            hint="write NAME, ACCOUNT/NAME, REPO/NAME, REPO/ACCOUNT/NAME, did:odf:… or a URL",
        ) from error
    if alias.account is None:
        return alias
    if repos is None:
        return AmbiguousAlias(alias.account, alias.name)
    if alias.account.folded in {repo.lower() for repo in repos}:
        return RemoteAlias(RepoName(alias.account.text), alias.name)
    return alias


def parse_dataset_ref_remote(text: str) -> DatasetRefRemote:
    """Read a reference to a dataset elsewhere.

    Args:
        text: An identifier, one behind `repo/`, `repo/name`, `repo/account/name`, or a URL.

    Raises:
        IdentityError: If the text is none of them.
    """
    found = parse_dataset_ref_any(text)
    match found:
        case AmbiguousAlias(owner, name):
            return RemoteAlias(RepoName(owner.text), name)
        case DatasetAlias():
            raise IdentityError(
                f"{text!r} does not name a dataset elsewhere",
                hint="write REPO/NAME, REPO/ACCOUNT/NAME, did:odf:… or a URL",
            )
        case _:
            return found


def _is_did(text: str) -> bool:
    return text.startswith(_DID_PREFIX) and bool(_MULTIBASE.fullmatch(text, len(_DID_PREFIX)))


@dataclass(frozen=True, slots=True)
class DatasetPattern:
    """A name with `%` for any run of characters, optionally within one account.

    Attributes:
        name: The pattern of the name, as typed.
        account: The account, if one was written before the slash.
    """

    name: str
    account: AccountName | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `pattern` or `account/pattern`.

        Raises:
            IdentityError: If the text is neither.
        """
        account, slash, name = text.rpartition("/")
        if not _PATTERN.fullmatch(name):
            raise IdentityError(f"{text!r} is not a pattern of dataset names, for example com.%")
        return cls(name, AccountName(account) if slash else None)

    def matches(self, alias: DatasetAlias) -> bool:
        """Tell whether a dataset's alias fits; the case of letters does not matter."""
        if self.account is not None and self.account != alias.account:
            return False
        return _wildcard_match(self.name.lower(), alias.name.folded)

    def __str__(self) -> str:
        return f"{self.account}/{self.name}" if self.account else self.name


def _wildcard_match(pattern: str, text: str) -> bool:
    """Match `%` wildcards in linear time (a regular expression of many `.*` could explode)."""
    first, *rest = pattern.split("%")
    if not rest:
        return pattern == text
    last = rest.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    if last and not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in rest:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def is_pattern(text: str) -> bool:
    """Tell whether a text on the command line is meant as a pattern."""
    return "%" in text and not _is_did(text) and "://" not in text

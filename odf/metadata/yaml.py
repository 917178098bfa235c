"""Manifests: the model ⇄ YAML text (wire-format.md §g).

Only the parser and the printer of the YAML library are used; what a bare word means is decided by
the type that the model wants, so that `no`, `1.10` and `2020-01-01` stay what was typed.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml

from odf.limits import MAX_MANIFEST_DEPTH, MAX_MANIFEST_NODES, MAX_MANIFEST_SIZE
from odf.metadata.declare import AnyType, type_of
from odf.metadata.json import from_json, to_json
from odf.metadata.legacy import kind_advice
from odf.metadata.model import (
    DatasetSnapshot,
    DatasetSummary,
    MetadataBlock,
    MetadataEvent,
)
from odf.metadata.nodes import Entry, Listing, Mapping, Mark, Node, Problems, Scalar, is_null
from odf.metadata.reading import BAD, Reader

__all__ = ["dump_yaml", "from_json", "load_manifests", "load_yaml", "to_json"]


@dataclass(frozen=True, slots=True)
class ManifestKind:
    """A type that is wrapped into a manifest.

    Attributes:
        name: The manifest's `kind`.
        type: What its `content` is.
        oldest: Oldest supported `version`.
        newest: Newest supported `version`.
        written: The `version` that is written.
    """

    name: str
    type: Any
    oldest: int
    newest: int
    written: int


MANIFEST_KINDS: Final = (
    ManifestKind("DatasetSnapshot", DatasetSnapshot, 1, 1, 1),
    ManifestKind("MetadataBlock", MetadataBlock, 2, 3, 2),
    ManifestKind("MetadataEvent", MetadataEvent, 1, 1, 1),
    ManifestKind("DatasetSummary", DatasetSummary, 1, 1, 1),
)
"""What can be in a manifest."""

_CORE_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "value", "seq", "map")
)
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_TOO_MUCH: Final = (
    f"more than {MAX_MANIFEST_NODES} values, aliases counted, or nested more than "
    f"{MAX_MANIFEST_DEPTH} deep"
)
_SHOWN_PATH: Final = 60
_TEXT_TAG: Final = "tag:yaml.org,2002:str"
_OTHER_BREAKS: Final = re.compile("[\r\x85\u2028\u2029]")
_CORE_NUMBER: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$", re.ASCII
)


def load_manifests(text: str, source: str) -> tuple[DatasetSnapshot, ...]:
    """Read all dataset manifests of a file.

    Args:
        text: Its content; several documents are separated by `---`.
        source: Its name, for messages.

    Raises:
        ManifestError: Listing every problem as `file:line:column: path: what`.
    """
    problems = Problems(source)
    kind = MANIFEST_KINDS[0]
    documents = _documents(text, problems)
    if not documents:
        problems.add(Mark(1, 1), "", f"no manifest here, wanted one of kind {kind.name}")
    snapshots = [_read_manifest(kind, node, problems) for node in documents]
    problems.check()
    return tuple(snapshots)


def load_yaml(cls: Any, text: str, source: str) -> Any:
    """Read one object of the model from a text of one document.

    Args:
        cls: A class of the model, or a union such as `ReadStep`. What has a manifest kind (see
            `MANIFEST_KINDS`, but for events) is read with its manifest.
        text: The document.
        source: Its name, for messages.

    Raises:
        ManifestError: Listing every problem.
    """
    problems = Problems(source)
    documents = _documents(text, problems)
    if len(documents) != 1:
        problems.add(None, "", f"{len(documents)} documents, wanted one")
        problems.check()
    kind = _manifest_kind(cls)
    if kind is None:
        result = Reader(problems).value(type_of(cls), documents[0], "")
    else:
        result = _read_manifest(kind, documents[0], problems)
    problems.check()
    return result


def dump_yaml(obj: Any) -> str:
    """Write an object of the model as canonical YAML.

    Snapshots and blocks are wrapped into their manifest. The text reads back to the same object.
    """
    value = to_json(obj)
    kind = _manifest_kind(type(obj))
    if kind is not None:
        value = {"kind": kind.name, "version": kind.written, "content": value}
    text = yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=float("inf"),
    )
    # The library marks the end of a document that is one bare word.
    return str(text).removesuffix("\n...\n") + "\n" if isinstance(value, str) else str(text)


def _manifest_kind(cls: Any) -> ManifestKind | None:
    found = (kind for kind in MANIFEST_KINDS if kind.type is cls and kind.type is not MetadataEvent)
    return next(found, None)


def _read_manifest(kind: ManifestKind, node: Node, problems: Problems) -> Any:
    """Read `kind`, `version` and `content`, in any order."""
    reader = Reader(problems)
    if not isinstance(node, Mapping):
        problems.add(node.mark, "", "wanted a manifest with `kind`, `version` and `content`")
        return BAD
    if not _is_manifest_of(kind, node, problems):
        return BAD
    content: Any = BAD
    for entry in reader.entries(node, ""):
        match entry.key:
            case "kind":
                pass
            case "version":
                _check_version(kind, entry, problems)
            case "content":
                content = reader.value(_content_type(kind), entry.value, "content")
            case key:
                advice = "; write `version: 1`" if key == "apiVersion" else ""
                problems.add(entry.mark, key, f"a manifest has no such field{advice}")
    for key in ("version", "content"):
        if node.get(key) is None:
            problems.add(node.mark, "", f"`{key}` is missing")
    return content


def _content_type(kind: ManifestKind) -> AnyType:
    return type_of(kind.type)


def _is_manifest_of(kind: ManifestKind, node: Mapping, problems: Problems) -> bool:
    given = node.get("kind")
    if given is None:
        problems.add(node.mark, "", f"`kind` is missing, wanted {kind.name}")
        return False
    text = given.text if isinstance(given, Scalar) else None
    if text == kind.name:
        return True
    advice = kind_advice("Manifest", text or "")
    if advice is None:
        folded = (text or "").lower()
        near = "; did you mean DatasetSnapshot?" if folded == kind.name.lower() else ""
        advice = f"wanted {kind.name}{near}"
    problems.add(given.mark, "kind", f"{text!r} is another kind of manifest; {advice}")
    return False


def _check_version(kind: ManifestKind, entry: Entry, problems: Problems) -> None:
    text = entry.value.text if isinstance(entry.value, Scalar) else None
    known = {str(number) for number in range(kind.oldest, kind.newest + 1)}
    if text not in known:
        problems.add(
            entry.value.mark,
            "version",
            f"unsupported version {text} (supported: {kind.oldest}..{kind.newest})",
        )


# -- Parsing -----------------------------------------------------------------------------------


class _TooMuchError(yaml.MarkedYAMLError):
    """A document beyond the limits."""


class _Loader(yaml.SafeLoader):
    """Parses to nodes; never constructs anything."""

    depth = 0
    count = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        self.count += 1
        if self.depth > MAX_MANIFEST_DEPTH or self.count > MAX_MANIFEST_NODES:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _TooMuchError(problem=_TOO_MUCH, problem_mark=mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _documents(text: str, problems: Problems) -> list[Node]:
    """Parse a text into its documents, leaving out empty ones.

    Raises:
        ManifestError: If the text is not YAML, or too large.
    """
    if len(text) > MAX_MANIFEST_SIZE:
        problems.add(None, "", f"{len(text)} characters, at most {MAX_MANIFEST_SIZE} are read")
        problems.fail()
    converter = _Converter(problems)
    try:
        nodes = [converter.convert(node, "", 0) for node in _compose_all(text)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(1, 1) if mark is None else Mark(mark.line + 1, mark.column + 1)
        problems.add(place, "", "not YAML: " + _explain(error))
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        column = len(before) - (before.rfind("\n") + 1) + 1
        place = Mark(before.count("\n") + 1, column)
        problems.add(place, "", f"not YAML: character U+{error.character:04X} is not allowed")
    else:
        return [node for node in nodes if not is_null(node)]
    return problems.fail()


def _compose_all(text: str) -> Iterator[yaml.Node]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            loader.depth = 0
            node = loader.get_node()
            if node is not None:
                yield node
    finally:
        loader.dispose()


def _explain(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "it cannot be parsed"
    if "'\\t'" in problem:
        return "tabs cannot indent, use spaces"
    context = f"{error.context}, " if error.context else ""
    return context + problem


class _Converter:
    """Turns the library's nodes into ours, bounded: an alias counts as often as it is used."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._visited = 0

    def convert(self, node: yaml.Node, path: str, depth: int) -> Node:
        mark = Mark(node.start_mark.line + 1, node.start_mark.column + 1)
        self._visited += 1
        if self._visited > MAX_MANIFEST_NODES or depth > MAX_MANIFEST_DEPTH:
            self._problems.add(mark, path[:_SHOWN_PATH], _TOO_MUCH)
            self._problems.fail()
        if node.tag not in _CORE_TAGS:
            self._problems.add(mark, path, f"the tag {node.tag} is not supported")
        match node:
            case yaml.ScalarNode():
                # An explicit !!str makes a bare word text, as quotes do.
                plain = node.style is None and not (
                    node.tag.endswith(":str") and _Resolver.resolves_elsewhere(node.value)
                )
                return Scalar(_joined(node.value), plain, mark)
            case yaml.SequenceNode():
                items = (
                    self.convert(item, f"{path}[{index}]", depth + 1)
                    for index, item in enumerate(node.value)
                )
                return Listing(tuple(items), mark)
            case _:
                return Mapping(tuple(self._entries(node, path, depth)), mark)

    def _entries(self, node: yaml.Node, path: str, depth: int) -> Iterator[Entry]:
        for key, value in node.value:
            mark = Mark(key.start_mark.line + 1, key.start_mark.column + 1)
            if not isinstance(key, yaml.ScalarNode):
                self._problems.add(mark, path, "a key must be a plain word")
            elif key.tag == _MERGE_TAG:
                self._problems.add(mark, path, "merge keys (<<) are not supported, write it out")
            else:
                where = f"{path}.{key.value}" if path else key.value
                yield Entry(_joined(key.value), self.convert(value, where, depth + 1), mark)


class _Resolver:
    """What the library would make of a bare word."""

    _resolver: Final = yaml.resolver.Resolver()

    @classmethod
    def resolves_elsewhere(cls, text: str) -> bool:
        tag = cls._resolver.resolve(  # type: ignore[no-untyped-call]
            yaml.ScalarNode, text, (True, False)
        )
        return not str(tag).endswith(":str")


# -- Printing ----------------------------------------------------------------------------------


class _Dumper(yaml.SafeDumper):
    """Prints as the reference does: block style, no quotes unless needed, literal blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - equal values are written out
        return True


def _joined(text: str) -> str:
    """Join characters that were escaped as two halves, which is how JSON writes some."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if _OTHER_BREAKS.search(text):
        # The library folds these line breaks of YAML 1.1 unless they are escaped.
        style = '"'
    elif "\n" in text and text.strip() != "" and not text.startswith((" ", "\n")):
        style = "|"
    return dumper.represent_scalar(_TEXT_TAG, text, style=style)


# Times stay unquoted: readers go by the wanted type. What YAML 1.2 takes for a number is quoted.
_Dumper.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if not pair[0].endswith(":timestamp")]
    for first, pairs in yaml.SafeDumper.yaml_implicit_resolvers.items()
}
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _CORE_NUMBER, list("-+.0123456789"))
_Dumper.add_representer(str, _represent_text)

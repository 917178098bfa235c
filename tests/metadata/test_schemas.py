"""The generated schema files: current, and true to the wire format."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from odf.metadata.schemas import render_schemas
from odf.metadata.yaml import dump_yaml, load_manifests

SCHEMAS = Path(__file__).resolve().parents[2] / "schemas"


@pytest.fixture(scope="module")
def rendered():
    spec = importlib.util.spec_from_file_location("generate_schemas", SCHEMAS / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return render_schemas(generate.ENGINE_MESSAGES)


def test_committed_files_are_current(rendered):
    for name, text in rendered.items():
        assert (SCHEMAS / name).read_text() == text, f"run schemas/generate.py: {name} is stale"
    committed = {path.name for path in SCHEMAS.iterdir() if path.suffix in {".fbs", ".json"}}
    assert committed == set(rendered)


def tables_of(fbs):
    """Read tables back as {name: {slot: (field, type)}}."""
    unions = set(re.findall(r"^union (\w+)", fbs, re.MULTILINE))
    found = {}
    for name, body in re.findall(r"^table (\w+) \{\n(.*?)\}", fbs, re.MULTILINE | re.DOTALL):
        slot, fields = 0, {}
        for field, kind in re.findall(r"^  (\w+): ([^;]+);", body, re.MULTILINE):
            if kind in unions:
                slot += 1
            fields[slot] = (field, kind)
            slot += 1
        found[name] = fields
    return found


def test_tables_have_the_slots_of_the_wire_format(rendered, shared):
    """The table of the research page, row by row."""
    page = (shared / "facts" / "wire-format.md").read_text()
    section = page[page.index("### a.2") : page.index("### a.3")]
    ours = tables_of(rendered["odf.fbs"])
    seen = 0
    for name, cell in re.findall(r"^\| (\w+) \| (.*) \|$", section, re.MULTILINE):
        if name == "table":
            continue
        seen += 1
        for slot, field, kind in re.findall(r"(\d+) `(\w+)`:(\[?\w+\]?(?: =null)?)", cell):
            if kind == "u8":
                continue
            got_field, got_kind = ours[name][int(slot)]
            assert got_field == field, (name, slot)
            assert got_kind.replace(" = null", " =null") == kind, (name, field)
    assert seen > 50


def test_unions_and_enums_have_the_numbers_of_the_wire_format(rendered, shared):
    page = (shared / "facts" / "wire-format.md").read_text()
    section = page[page.index("### a.4") : page.index("### a.5")]
    fbs = rendered["odf.fbs"]
    for name, cells in re.findall(r"^\| (\w+) \| (.*)$", section, re.MULTILINE):
        if name == "union":
            continue
        wanted = [cell.strip() for cell in cells.split("|") if cell.strip()]
        body = re.search(rf"^union {name} \{{\n(.*?)\}}", fbs, re.MULTILINE | re.DOTALL)
        members = re.findall(r"^  (\w+),", body.group(1), re.MULTILINE)
        assert members[: len(wanted)] == [name + variant for variant in wanted]
    events = re.search(r"MetadataEvent \(table name = variant name\): (.*)\.", section).group(1)
    numbered = dict(pair.split(" ")[::-1] for pair in events.split(", "))
    body = re.search(r"^union MetadataEvent \{\n(.*?)\}", fbs, re.MULTILINE | re.DOTALL).group(1)
    members = re.findall(r"^  (\w+),", body, re.MULTILINE)
    assert {name: str(tag) for tag, name in enumerate(members, 1)} == numbered
    for text in ("Derivative = 1", "ByName = 1", "Zip = 1", "ExactlyOnce = 2", "Nanosecond = 3"):
        assert text in fbs


def violations(schema, root, value, path="$"):  # noqa: C901, PLR0912 - one branch a word
    """Check the part of JSON Schema that the generated files use."""
    if "$ref" in schema:
        yield from violations(root["$defs"][schema["$ref"].split("/")[-1]], root, value, path)
    for word, fits in (("oneOf", lambda n: n == 1), ("anyOf", lambda n: n >= 1)):
        if word in schema:
            good = sum(not list(violations(one, root, value, path)) for one in schema[word])
            if not fits(good):
                yield f"{path}: {good} of {word}"
    if "const" in schema and value != schema["const"]:
        yield f"{path}: not {schema['const']}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path}: {value} not in enum"
    types = schema.get("type", [])
    if types and not any(
        is_type(value, one) for one in ([types] if isinstance(types, str) else types)
    ):
        yield f"{path}: {value!r} is no {types}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get(
        "maximum", value
    ):
        yield f"{path}: {value} out of range"
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from violations(schema["items"], root, item, f"{path}[{index}]")
    if isinstance(value, dict) and "properties" in schema:
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: no {key}"
        for key, item in value.items():
            if key in schema["properties"]:
                yield from violations(schema["properties"][key], root, item, f"{path}.{key}")
            elif schema.get("additionalProperties", True) is False:
                yield f"{path}: unknown {key}"


def is_type(value, name):
    kinds = {
        "object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
        "number": (int, float),
    }  # fmt: skip
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, kinds[name])


MANIFEST = """\
kind: DatasetSnapshot
version: 1
content:
  name: a
  kind: root
  metadata:
  - kind: setPollingSource
    fetch: {kind: url, url: x, cache: {kind: forever}}
    prepare:
    - {kind: Decompress, format: gzip}
    read: {kind: csv, schema: [a INT], header: true}
    merge: {kind: Ledger, primaryKey: [a]}
"""


def test_json_schema_takes_manifests_as_people_write_them(rendered):
    import yaml

    schema = json.loads(rendered["DatasetSnapshot.json"])
    written = yaml.safe_load(MANIFEST)
    assert list(violations(schema, schema, written)) == []
    canonical = yaml.safe_load(dump_yaml(load_manifests(MANIFEST, "x")[0]))
    assert list(violations(schema, schema, canonical)) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("url: x", "ulr: x"),
        ("kind: csv", "kind: cSv"),
        ("format: gzip", "format: rar"),
        ("header: true", "header: maybe"),
        ("primaryKey: [a]", "primaryKey: a"),
        ("version: 1", "version: 2"),
        ("  name: a\n", ""),
    ],
)
def test_json_schema_refuses_what_the_reader_refuses(rendered, old, new):
    import yaml

    from odf.errors import ManifestError

    text = MANIFEST.replace(old, new)
    schema = json.loads(rendered["DatasetSnapshot.json"])
    assert list(violations(schema, schema, yaml.safe_load(text)))
    with pytest.raises(ManifestError):
        load_manifests(text, "x")


def test_golden_blocks_fit_the_json_schema(rendered, vectors):
    schema = json.loads(rendered["MetadataBlock.json"])
    for vector in vectors("metadata-blocks")["vectors"]:
        value = {"kind": "MetadataBlock", "version": 2, "content": vector["block"]}
        assert list(violations(schema, schema, value)) == [], vector["name"]

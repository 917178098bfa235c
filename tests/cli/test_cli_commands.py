"""Each command against a real workspace, without engines."""

import itertools
import re
from pathlib import Path

import pytest

from tests.cli.conftest import MOMENT, Ran

UNKNOWN_DATASET = [
    ["log", "price"],
    ["tail", "price"],
    ["pull", "price"],
    ["verify", "price"],
    ["push", "price", "--to", "file:///nowhere"],
]


def test_init_makes_a_workspace_once(run, tmp_path):
    made = run("init", str(tmp_path / "w"))
    assert (made.code, made.out) == (0, f"Made a workspace in {tmp_path / 'w'}\n")
    assert (tmp_path / "w" / ".odf" / "workspace.yaml").is_file()
    again = run("init", str(tmp_path / "w"))
    assert again.code == 5
    assert again.err.startswith("error: ")
    assert run("init", "--exists-ok", str(tmp_path / "w")).code == 0
    assert run("init", "--exists-ok", str(tmp_path / "w"), "-o", "json").json == {
        "schema": "odf.cli/init/v1",
        "workspace": str(tmp_path / "w"),
        "created": False,
    }


def test_init_takes_the_folder_of_the_workspace_option(run, tmp_path):
    assert run("-C", str(tmp_path / "w"), "init", "-q").out == ""
    assert (tmp_path / "w" / ".odf").is_dir()


def test_the_workspace_is_found_from_below_and_by_option_and_variable(run, tmp_path, monkeypatch):
    root = tmp_path / "w"
    run("init", str(root))
    assert run("list").code == 10
    assert run("list", "-C", str(root)).code == 0
    assert run("list", env={"ODF_WORKSPACE": str(root)}).code == 0
    (root / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(root / "a" / "b")
    assert run("list").code == 0


def test_an_empty_workspace(run):
    run("init")
    ran = run("list")
    assert (ran.code, ran.out) == (0, "")
    assert "odf add" in ran.err
    assert run("list", "-q").err == ""
    assert run("list", "-o", "json").json == {"schema": "odf.cli/list/v1", "datasets": []}
    ran = run("verify", "--all")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "there are no datasets yet; odf add FILE makes one\n"


@pytest.mark.parametrize("command", UNKNOWN_DATASET, ids=lambda c: c[0])
@pytest.mark.parametrize("extra", [[], ["-q"], ["-o", "json"]])
def test_an_unknown_dataset_is_not_found_and_the_nearest_is_suggested(run, prices, command, extra):
    ran = run(*extra, "-C", str(prices), *command)
    assert ran.code == 4
    if "json" in extra:
        assert ran.error["kind"] == "not_found"
        assert "prices" in ran.error["hint"]
        assert ran.json
    else:
        assert ran.out == ""
        assert re.match(r"error: .*price.*\nhint: .*prices", ran.err)


def test_add_says_what_it_made(run, tmp_path, prices):
    other = tmp_path / "other.yaml"
    other.write_text((prices / "prices.yaml").read_text().replace("prices", "other.fruit"))
    ran = run("-C", str(prices), "add", str(other))
    assert ran.code == 0
    assert ran.out.splitlines()[1].split() == ["other.fruit", "root", "2", "-"]
    ran = run(
        "-C", str(prices), "add", "-o", "json", "-", stdin=other.read_text().replace("other", "one")
    )
    [dataset] = ran.json["datasets"]
    assert dataset["name"] == "one.fruit"
    assert dataset["kind"] == "root"
    assert dataset["id"].startswith("did:odf:")
    assert dataset["head"].startswith("f1620")


def test_add_refuses_a_name_that_is_taken(run, prices):
    ran = run("-C", str(prices), "add", str(prices / "prices.yaml"))
    assert ran.code == 5
    assert "prices" in ran.err


def test_add_reports_all_mistakes_with_their_places(run, tmp_path, prices):
    wrong = tmp_path / "wrong.yaml"
    text = (prices / "prices.yaml").read_text()
    wrong.write_text(text.replace("header:", "heeder:").replace("kind: Append", "kind: Apend"))
    ran = run("-C", str(prices), "add", str(wrong))
    assert ran.code == 1
    problems = [line for line in ran.err.splitlines() if line.startswith("  ")]
    assert any(re.match(rf"  {wrong}:\d+:\d+: .*heeder", line) for line in problems)
    assert any("Apend" in line for line in problems)
    assert run("-C", str(prices), "list", "-o", "json").json["datasets"][0]["name"] == "prices"


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (None, 4, "there is no such file"),
        (b"a: \xff", 1, ":1: is not UTF-8 text (byte 0xff)"),
        (b"x" * (4 * 1024 * 1024 + 1), 1, "larger than a manifest may be (4.0 MiB)"),
    ],
)
def test_add_of_files_that_cannot_be_read(run, tmp_path, content, code, message):
    run("init")
    path = tmp_path / "m.yaml"
    if content is not None:
        path.write_bytes(content)
    ran = run("add", str(path))
    assert ran.code == code
    assert message in ran.err
    assert str(path) in ran.err


def test_add_of_a_folder(run, tmp_path):
    run("init")
    ran = run("add", str(tmp_path))
    assert ran.code == 1
    assert ran.err == f"error: {tmp_path}: cannot be read: Is a directory\n"


def test_list(run, prices):
    ran = run("-C", str(prices), "list")
    header, row = ran.out.splitlines()
    assert re.split(r"  +", header) == [
        "Name",
        "Kind",
        "Records",
        "Size",
        "Updated (UTC)",
        "Origin",
    ]
    assert re.fullmatch(r"prices  root +4  [\d.]+ KiB  2024-05-01 12:00:00  local", row)
    [dataset] = run("-C", str(prices), "list", "-o", "json").json["datasets"]
    assert set(dataset) == {
        "name",
        "id",
        "kind",
        "origin",
        "head",
        "blocks",
        "records",
        "size",
        "updated",
        "watermark",
        "problem",
    }
    assert dataset["records"] == 4
    assert dataset["updated"] == "2024-05-01T12:00:00Z"
    assert dataset["problem"] is None


def test_list_shows_broken_datasets_with_their_problem(run, prices):
    [block] = [p for p in (prices / ".odf" / "datasets").glob("*/blocks/*") if _is_head(p)]
    block.chmod(0o600)
    block.write_bytes(block.read_bytes()[:-1] + b"!")
    for cache in (prices / ".odf").glob("**/info/*state*"):
        cache.unlink()
    ran = run("-C", str(prices), "list")
    assert ran.code == 0
    assert re.search(r"^prices  broken", ran.out, re.MULTILINE)
    assert ran.err.startswith("warning: prices: ")
    assert run("-C", str(prices), "list", "-o", "json").json["datasets"][0]["problem"]


def _is_head(block: Path) -> bool:
    head = (block.parent.parent / "refs" / "head").read_text().strip()
    return block.name == head


def test_log(run, prices):
    ran = run("-C", str(prices), "log", "prices")
    lines = ran.out.splitlines()
    kinds = [line.split()[4] for line in lines]
    assert kinds == ["AddData", "AddData", "SetDataSchema", "SetPollingSource", "Seed"]
    assert [line.split()[0] for line in lines] == ["4", "3", "2", "1", "0"]
    assert "2 rows (2 to 3), watermark 2024-05-01T12:00:00Z" in lines[0]
    assert "data/*.csv → Csv → Append" in lines[3]
    assert "5 columns: offset, op, system_time, event_time, fruit" in lines[2]
    assert "root did:odf:fed01" in lines[4]
    assert run("-C", str(prices), "log", "prices", "--limit", "1").out.splitlines() == lines[:1]


def test_log_as_json_has_whole_blocks(run, prices):
    document = run("-C", str(prices), "log", "prices", "-o", "json").json
    assert document["name"] == "prices"
    blocks = document["blocks"]
    assert [block["number"] for block in blocks] == [4, 3, 2, 1, 0]
    for newer, older in itertools.pairwise(blocks):
        assert newer["block"]["prevBlockHash"] == older["hash"]
    assert blocks[0]["block"]["event"]["newData"]["offsetInterval"] == {"start": 2, "end": 3}
    assert blocks[3]["block"]["event"]["read"]["kind"] == "Csv"


def test_tail(run, prices):
    ran = run("-C", str(prices), "tail", "prices", "-n", "3")
    assert [re.split(r"  +", line.strip()) for line in ran.out.splitlines()] == [
        ["offset", "op", "system_time", "event_time", "fruit"],
        ["1", "+A", "2024-05-01T12:00:00Z", "2024-05-01T12:00:00Z", "NULL"],
        ["2", "+A", "2024-05-01T12:00:00Z", "2024-05-01T12:00:00Z", '""'],
        ["3", "+A", "2024-05-01T12:00:00Z", "2024-05-01T12:00:00Z", "NULL"],
    ]
    assert len(run("-C", str(prices), "tail", "prices").out.splitlines()) == 5


def test_tail_as_json(run, prices):
    document = run("-C", str(prices), "tail", "prices", "-o", "json").json
    assert [row["fruit"] for row in document["rows"]] == ["apples", None, "", None]
    assert document["rows"][0]["op"] == "+A"
    assert document["rows"][0]["offset"] == 0
    assert document["columns"][4] == {"name": "fruit", "type": "string", "nullable": True}


def test_tail_of_a_dataset_without_data(run, tmp_path, manifest_text):
    run("init")
    manifest = tmp_path / "m.yaml"
    manifest.write_text(manifest_text)
    run("add", str(manifest))
    ran = run("tail", "prices")
    assert (ran.code, ran.out) == (0, "")
    assert "has no rows yet" in ran.err
    assert run("tail", "prices", "-o", "json").json["rows"] == []


def test_tail_of_a_dataset_whose_slice_is_gone(run, prices):
    for data in (prices / ".odf" / "datasets").glob("*/data/*"):
        data.unlink()
    ran = run("-C", str(prices), "tail", "prices")
    assert ran.code == 4
    assert "odf verify prices" in ran.err


def test_repositories(run, tmp_path):
    run("init")
    assert "odf repo add" in run("repo", "list").err
    added = run("repo", "add", "partner", f"file://{tmp_path}/r")
    assert added.code == 0
    assert added.out.startswith("Added repository partner: file://")
    assert run("repo", "add", "Partner", "https://example.org/x").code == 5
    [listed] = run("repo", "list", "-o", "json").json["repositories"]
    assert listed["name"] == "partner"
    assert run("repo", "list").out.splitlines()[1].startswith("partner  file://")
    unknown = run("repo", "remove", "partnr")
    assert unknown.code == 4
    assert "partner" in unknown.err
    assert run("repo", "remove", "partner", "-q").out == ""
    assert run("repo", "list", "-o", "json").json["repositories"] == []


def test_integrity_of_intact_and_changed_data(run, prices):
    ran = run("-C", str(prices), "verify", "--integrity", "prices")
    assert ran.code == 0
    assert ran.out.splitlines()[1].split()[:2] == ["prices", "valid"]
    data = min((prices / ".odf" / "datasets").glob("*/data/*"))
    data.chmod(0o600)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    ran = run("-C", str(prices), "verify", "--integrity", "prices")
    assert ran.code == 7
    assert "INVALID" in ran.out
    assert data.name in ran.out
    assert "error: prices is not valid, 1 problem\n" in ran.err
    assert data.name not in ran.err
    ran = run("-C", str(prices), "verify", "--integrity", "--all", "-o", "json")
    assert ran.code == 7
    assert ran.error["kind"] == "integrity"
    assert ran.json["datasets"][0]["valid"] is False


def test_completion_of_dataset_names(odf, prices):
    env = {
        "_ODF_COMPLETE": "bash_complete",
        "COMP_WORDS": "odf tail pr",
        "COMP_CWORD": "2",
        "ODF_WORKSPACE": str(prices),
    }
    ran = odf(env=env)
    assert (ran.code, ran.out, ran.err) == (0, "plain,prices\n", "")


def test_two_workspaces_exchange_a_dataset_through_a_folder(run, prices, tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    run("-C", str(prices), "repo", "add", "shared", f"file://{repository}")
    pushed = run("-C", str(prices), "push", "prices", "--to", "shared")
    assert pushed.code == 0
    assert pushed.out.splitlines()[1].split()[:2] == ["prices", "updated"]
    again = run("-C", str(prices), "push", "prices", "--to", "shared", "-o", "json")
    assert again.json["datasets"][0]["status"] == "up-to-date"
    run("init", "-q")
    run("repo", "add", "-q", "shared", f"file://{repository}")
    pulled = run("pull", "shared/prices", "--as", "copy")
    assert pulled.code == 0
    assert "updated" in pulled.out
    [listed] = run("list", "-o", "json").json["datasets"]
    assert (listed["name"], listed["records"]) == ("copy", 4)
    assert "shared/prices" in listed["origin"] or str(repository) in listed["origin"]
    assert run("verify", "--integrity", "copy").code == 0
    assert run("tail", "copy").out == run("-C", str(prices), "tail", "prices").out
    up_to_date = run("pull", "copy")
    assert up_to_date.code == 0
    assert "up to date" in up_to_date.out


@pytest.fixture
def failing(run, tmp_path, manifest_text) -> Path:
    """A workspace with two datasets whose sources do not exist."""
    root = tmp_path / "failing"
    run("init", "-q", str(root))
    for name in ("a.one", "a.two"):
        path = root / f"{name}.yaml"
        path.write_text(
            manifest_text.replace("prices", name)
            .replace("kind: FilesGlob", "kind: Url")
            .replace("path: data/*.csv", "url: file:///no/such/file.csv")
        )
        assert run("-C", str(root), "add", "-q", str(path)).code == 0
    return root


@pytest.mark.parametrize(
    ("asked", "code"), [(["a.one"], 4), (["a.one", "a.two"], 3), (["a.%"], 3), (["--all"], 3)]
)
def test_the_exit_code_of_failed_pulls(run, failing, asked, code):
    text = run("-C", str(failing), "pull", *asked)
    assert text.code == code
    assert text.err.count("no such") + text.err.count("no file") >= 1
    assert ("datasets failed" in text.err) is (code == 3)
    assert "Traceback" not in text.err
    ran = run("-C", str(failing), "pull", *asked, "-o", "json", "-q")
    assert ran.code == code
    assert ran.error["exit_code"] == code
    assert {entry["status"] for entry in ran.json["datasets"]} == {"failed"}
    assert {entry["error"]["exit_code"] for entry in ran.json["datasets"]} == {4}
    assert set(ran.json["datasets"][0]) == {
        "name",
        "id",
        "kind",
        "status",
        "old_head",
        "new_head",
        "blocks",
        "records",
        "watermark",
        "warnings",
        "error",
        "reason",
        "seconds",
        "set_aside",
    }


def test_quiet_failures_say_nothing_but_the_error(run, failing):
    ran = run("-q", "-C", str(failing), "pull", "a.one")
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert len([line for line in ran.err.splitlines() if line.startswith("error: ")]) == 1


def test_verification_of_several_with_one_invalid_is_seven(run, prices, manifest_text, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(manifest_text.replace("prices", "other"))
    run("-C", str(prices), "add", "-q", str(other))
    data = min((prices / ".odf" / "datasets").glob("*/data/*"))
    data.unlink()
    ran = run("-C", str(prices), "verify", "--integrity", "other", "prices", "-o", "json")
    assert ran.code == 7
    assert {entry["name"]: entry["valid"] for entry in ran.json["datasets"]} == {
        "other": True,
        "prices": False,
    }
    assert set(ran.json["datasets"][0]) == {
        "name",
        "id",
        "valid",
        "blocks",
        "objects",
        "replayed",
        "findings",
        "error",
        "seconds",
        "complete",
    }


def test_pushing_several_datasets_to_one_place_is_refused(run, prices, tmp_path):
    url = f"file://{tmp_path}/one"
    ran = run("-C", str(prices), "push", "prices", "prices", "nothing", "--to", url)
    assert ran.code in (2, 4)
    assert not (tmp_path / "one").exists()


@pytest.fixture
def later(prices) -> Path:
    """The workspace of `prices` after a block of a later version of the protocol."""
    from odf.errors import OdfError
    from odf.metadata.flatbuffers import decode_block, encode_block
    from odf.metadata.model import MetadataBlock, SetInfo, UnknownEvent
    from odf.metadata.multiformats import Multihash
    from odf.workspace.workspace import Workspace

    dataset = Workspace.find(prices).resolve("prices").dataset
    number = dataset.state().next_sequence_number
    known = encode_block(MetadataBlock(MOMENT, dataset.head(), number, SetInfo("x")))
    for place in range(len(known)):
        changed = bytes([*known[:place], 200, *known[place + 1 :]])
        try:
            event = decode_block(changed).event
        except OdfError:
            continue  # the byte is something else than the tag
        if isinstance(event, UnknownEvent) and event.tag == 200:
            at = Multihash.sha3_256(changed)
            dataset.stores.blocks.put(str(at), changed)
            dataset.stores.refs.set("head", str(at), str(dataset.head()))
            return prices
    raise AssertionError("no byte is the tag")


def test_a_dataset_of_a_later_version_is_listed_with_what_is_known(run, later):
    ran = run("-C", str(later), "list")
    assert ran.code == 0
    row = ran.out.splitlines()[1]
    assert re.fullmatch(r"prices  root +4  [\d.]+ KiB  2024-05-01 12:00:00  local", row)
    assert ran.err.startswith("warning: prices: understood only in part: ")
    [listed] = run("-C", str(later), "list", "-o", "json").json["datasets"]
    assert (listed["records"], listed["blocks"], listed["kind"]) == (4, 6, "root")
    assert listed["problem"].startswith("understood only in part: ")


def test_a_dataset_of_a_later_version_is_checked_in_part(run, later):
    ran = run("-C", str(later), "verify", "--integrity", "prices")
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("prices   partly checked")
    assert "prices: unchecked: " in ran.out
    [dataset] = run("-C", str(later), "verify", "prices", "-o", "json").json["datasets"]
    assert (dataset["valid"], dataset["complete"]) == (True, False)


def test_a_dataset_that_was_checked_as_a_whole_is_complete(run, prices):
    [dataset] = run("-C", str(prices), "verify", "prices", "-o", "json").json["datasets"]
    assert (dataset["valid"], dataset["complete"]) == (True, True)


def test_an_origin_that_cannot_be_told_is_not_local(run, prices):
    [info] = (prices / ".odf" / "datasets").glob("*/info")
    (info / "config").write_text("nonsense: [")
    ran = run("-C", str(prices), "list")
    assert ran.out.splitlines()[1].split()[-1] == "unknown"
    assert "warning: prices: where it comes from cannot be told: " in ran.err
    [listed] = run("-C", str(prices), "list", "-o", "json").json["datasets"]
    assert (listed["origin"], listed["records"]) == ("unknown", 4)


def derive(root: Path, name: str, *inputs: str) -> None:
    """Make a derivative without asking an engine about its query."""
    from odf.metadata.identity import DatasetAlias, DatasetID
    from odf.metadata.model import (
        DatasetKind,
        Seed,
        SetTransform,
        SqlQueryStep,
        TransformInput,
        TransformSql,
    )
    from odf.workspace.workspace import Workspace

    workspace = Workspace.find(root)
    sources = [(str(workspace.resolve(source).id), source) for source in inputs]
    query = TransformSql("spark", queries=(SqlQueryStep("SELECT 1"),))
    workspace.create_dataset(
        DatasetAlias.parse(name),
        [
            Seed(DatasetID(bytes(32)), DatasetKind.DERIVATIVE),
            SetTransform(tuple(TransformInput(*source) for source in sources), query),
        ],
        system_time=MOMENT,
    )


def test_failures_below_one_dataset_are_each_told_in_full(run, failing):
    derive(failing, "both", "a.one", "a.two")
    ran = run("-C", str(failing), "pull", "-r", "both")
    assert ran.code == 3
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert [error.split()[1] for error in errors] == ["a.one:", "a.two:", "2"]
    assert errors[2] == "error: 2 of 3 datasets failed: a.one, a.two"


def test_a_quiet_night_says_nothing_on_standard_error(run, prices, manifest_text, tmp_path):
    place = tmp_path / "shelf" / "prices"
    run("-C", str(prices), "push", "-q", "prices", "--to", str(place))
    run("init", "-q")
    run("pull", "-q", str(place), "--as", "one")
    other = tmp_path / "other.yaml"
    other.write_text(manifest_text.replace("prices", "empty"))
    ran = run("pull", "--all")
    assert (ran.code, ran.err) == (0, "")
    ran = run("pull", "one", str(place))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "2 up to date"
    assert run("verify", "--all").err == ""
    assert "one: checking hashes and rules\n" in run("verify", "--all", "-v").err
    assert run("pull", "one", str(place), "-q") == Ran(0, "", "")


def test_verify_waits_for_no_lock(run, prices):
    assert run("-C", str(prices), "verify", "prices", "--lock-timeout", "1s").code == 2

"""What manifests may read and run: asked once, kept beside the dataset, checked at each pull."""

import http.server
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.add import ManifestText, add_manifests
from odf.coordinator.consent import ConsentError, Grants
from odf.errors import BadInputError
from odf.metadata.model import FetchStepUrl, RequestHeader, SetPollingSource
from tests.conftest import PROJECT
from tests.e2e.conftest import Person

SECRET = "tweet-tweet/5&%"  # with characters that URLs write in other ways
FORMS = (SECRET, "tweet-tweet%2F5%26%25", "tweet-tweet/5%26%25", "tweet-tweet")


class Server(http.server.ThreadingHTTPServer):
    """Serves a table to whoever knows the secret, and repeats it to everybody else."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        key = self.headers.get("X-Key")
        self.server.asked.append((self.path, key))
        status, body = (200, b"fruit\napple\n") if key == SECRET else (403, b"wrong")
        if self.path.startswith("/broken"):
            status, body = 400, f"no such page: {self.path} for {key}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"1"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def manifest(
    name: str = "fruits",
    url: str = "file://fruits.csv",
    *,
    header: str | None = None,
    commands: tuple[tuple[str, ...], ...] = (),
) -> str:
    fetch: dict[str, object] = {"kind": "Url", "url": url}
    if header is not None:
        fetch["headers"] = [{"name": "X-Key", "value": header}]
    source = {
        "kind": "SetPollingSource",
        "fetch": fetch,
        "prepare": [{"kind": "Pipe", "command": list(command)} for command in commands],
        "read": {"kind": "Csv", "header": True},
        "merge": {"kind": "Append"},
    }
    content = {"name": name, "kind": "Root", "metadata": [source]}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def add(person: Person, text: str, grants: Grants | None = None) -> None:
    with person.context("add") as ctx:
        add_manifests(ctx, [ManifestText("manifest.yaml", text)], grants)


def with_variables(person: Person, **variables: str) -> Person:
    person.settings = replace(person.settings, variables=variables)
    return person


def consent_file(person: Person, name: str = "fruits") -> Path:
    return person.workspace.resolve(name).path / "info" / "consent"


def places_of_the_secret(*folders: Path) -> list[Path]:
    """Look for the secret, in any of its forms, in all files and names below folders."""
    return [
        path
        for folder in folders
        for path in folder.rglob("*")
        if any(form in str(path) for form in FORMS)
        or (path.is_file() and any(form.encode() in path.read_bytes() for form in FORMS))
    ]


READS = "http://example.org/${{ env.KEY }}?q=${{ env.OTHER || 'x' }}"


def test_what_is_not_agreed_to_is_refused_before_anything_is_made(person: Person) -> None:
    text = manifest(url=READS, commands=(("jq", "-c", ".a b"), ("tr", "a", "b")))
    with pytest.raises(ConsentError) as refused:
        add(person, text)
    error = refused.value
    assert error.exit_code == 6
    assert "dataset fruits reads KEY, OTHER from the environment" in error.message
    assert "runs jq -c '.a b', tr a b" in error.message
    assert "--allow-env KEY --allow-env OTHER --allow-commands" in (error.hint or "")
    assert list(person.workspace.datasets()) == []
    with pytest.raises(ConsentError, match=r"reads OTHER from the environment, which"):
        add(person, text, Grants(environment=frozenset({"KEY"}), commands=True))
    add(person, text, Grants(environment=frozenset({"KEY", "OTHER", "UNUSED"}), commands=True))
    assert "UNUSED" not in consent_file(person).read_text()


def test_a_template_that_cannot_be_read_is_named_with_its_dataset(person: Person) -> None:
    with pytest.raises(BadInputError, match=r"^dataset fruits: fetch: url: cannot read"):
        add(person, manifest(url="http://example.org/${{ vars.KEY }}"))
    assert list(person.workspace.datasets()) == []


def test_a_manifest_that_reads_and_runs_nothing_needs_no_consent(person: Person) -> None:
    add(person, manifest())
    assert not consent_file(person).exists()


def test_a_person_is_asked_once_about_everything(person: Person) -> None:
    asked = []

    def ask(requests):
        asked.append([(str(request.name), request.needs.describe()) for request in requests])
        return len(asked) > 1

    texts = [
        ManifestText("a.yaml", manifest("a", "file://${{ env.KEY }}")),
        ManifestText("b.yaml", manifest("b", commands=(("cat",),))),
        ManifestText("c.yaml", manifest("c")),
    ]
    with person.context("add") as ctx:
        with pytest.raises(ConsentError):
            add_manifests(ctx, texts, Grants(ask=ask))
        assert list(person.workspace.datasets()) == []
        add_manifests(ctx, texts, Grants(ask=ask))
    assert asked[0] == [("a", "reads KEY from the environment"), ("b", "runs cat")]
    assert len(asked) == 2
    assert len(list(person.workspace.datasets())) == 3


def change_source(person: Person, source: SetPollingSource) -> None:
    dataset = person.workspace.resolve("fruits").dataset
    dataset.commit([source], expected_head=dataset.head(), system_time=person.context().now())


def test_consent_is_checked_at_each_pull(person: Person, server: Server) -> None:
    with_variables(person, KEY=SECRET)
    add(
        person,
        manifest(url=f"{server.url}/a", header="${{ env.KEY }}", commands=(("false",),)),
        Grants(environment=frozenset({"KEY"}), commands=True),
    )
    handle = person.workspace.resolve("fruits")
    record = consent_file(person).read_text()
    source = handle.dataset.state().polling_source
    assert source is not None
    assert isinstance(source.fetch, FetchStepUrl)

    consent_file(person).unlink()
    with pytest.raises(ConsentError, match=r"reads KEY from the environment and runs false"):
        person.pull("fruits")
    # The same variable, sent to somebody else.
    consent_file(person).write_text(record)
    elsewhere = replace(source.fetch, url=f"{server.url}/elsewhere")
    change_source(person, replace(source, fetch=elsewhere))
    with pytest.raises(ConsentError, match=r"reads KEY from the environment, which nobody"):
        person.pull("fruits")
    # Another variable.
    other = (RequestHeader(name="X-Key", value="${{ env.OTHER }}"),)
    change_source(person, replace(source, fetch=replace(source.fetch, headers=other)))
    with pytest.raises(ConsentError, match="OTHER"):
        person.pull("fruits")
    # Another argument.
    step = replace((source.prepare or ())[0], command=("false", "x"))
    change_source(person, replace(source, prepare=(step,)))
    with pytest.raises(ConsentError, match="runs false x, which nobody"):
        person.pull("fruits")
    assert server.asked == []


def test_consent_is_no_part_of_the_dataset(person: Person, tmp_path: Path) -> None:
    from odf.coordinator.push import push
    from odf.coordinator.repositories import add_repository

    add(person, manifest(commands=(("cat",),)), Grants(commands=True))
    assert consent_file(person).exists()
    target = tmp_path / "published"
    target.mkdir()
    with person.context("push") as ctx:
        add_repository(ctx, "shelf", target.as_uri())
        report = push(ctx, ["fruits"], "shelf")
    assert report.datasets[0].error is None
    assert any(target.rglob("head"))
    assert [path for path in target.rglob("*") if path.name == "consent"] == []


def test_a_record_that_cannot_be_read_is_no_consent(person: Person) -> None:
    from odf.workspace.settings_files import SettingsError

    add(person, manifest(commands=(("cat",),)), Grants(commands=True))
    for text in ("{", "kind: Consent\nversion: 1\ncontent: {commands: cat}\n"):
        consent_file(person).write_text(text)
        with pytest.raises(SettingsError, match="consent"):
            person.pull("fruits")


@pytest.mark.spark
def test_values_are_used_and_never_shown(person: Person, server: Server, tmp_path: Path) -> None:
    said: list[str] = []
    with_variables(person, KEY=SECRET, UNRELATED="other")
    text = manifest(
        url=server.url + "/${{ env.KEY }}/x", header="${{ env.KEY }}", commands=(("cat",),)
    )
    add(person, text, Grants(frozenset({"KEY"}), commands=True))
    result = person.pull("fruits", progress=lambda name, message: said.append(f"{name} {message}"))
    assert dict(result.records) == {"+A": 1}
    path, key = server.asked[0]
    assert key == SECRET
    assert path.startswith("/tweet-tweet")
    assert said
    assert not any(form in f"{said} {result}" for form in FORMS)
    assert places_of_the_secret(tmp_path, person.engines._run_dir) == []


class Machine:
    """The command line in processes of its own, with a secret in the environment."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "home").mkdir(parents=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ODF_")}
        self.environment = {**kept, "HOME": str(root / "home"), "KEY": SECRET}
        self.environment |= {"PYTHONPATH": str(PROJECT), "TERM": "xterm"}
        for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            self.environment.pop(name, None)
        self.workspace = root / "workspace"
        assert self.odf("init", str(self.workspace)).returncode == 0

    def argv(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "odf", *arguments]

    def odf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.root if not hasattr(self, "workspace") else self._folder(),
            check=False,
            timeout=120,
        )

    def on_a_terminal(self, answer: str, *arguments: str) -> tuple[int, str]:
        """Run a command with a terminal at both ends; return its exit code and what it said."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self.argv(*arguments),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=self.environment,
            cwd=self._folder(),
        )
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 1000)
            except OSError:  # the other end was closed
                break
            said += piece
            if b"[y/N] " in piece:
                os.write(ours, answer.encode() + b"\n")
        os.close(ours)
        return process.wait(), said.decode()

    def _folder(self) -> Path:
        return self.workspace if self.workspace.exists() else self.root

    def write(self, text: str) -> str:
        (self.workspace / "manifest.yaml").write_text(text)
        return "manifest.yaml"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


def test_off_a_terminal_flags_say_it(machine: Machine) -> None:
    file = machine.write(manifest(url=READS, commands=(("cat",),)))
    refused = machine.odf("add", file)
    assert refused.returncode == 6
    assert "hint: if you agree, add it with: --allow-env KEY --allow-env OTHER" in refused.stderr
    as_json = json.loads(machine.odf("add", "-o", "json", file).stderr)["error"]
    assert as_json["kind"] == "consent"
    assert as_json["details"]["requests"] == [
        {"dataset": "fruits", "environment": ["KEY", "OTHER"], "commands": [["cat"]]}
    ]
    flags = ("--allow-env", "KEY", "--allow-env", "OTHER", "--allow-commands")
    assert machine.odf("add", file, *flags).returncode == 0


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("yes", 0), ("n", 6), ("", 6)])
def test_on_a_terminal_a_person_is_asked(machine: Machine, answer: str, code: int) -> None:
    file = machine.write(manifest(url=READS, commands=(("sh", "-c", "a\nb"),)))
    got, said = machine.on_a_terminal(answer, "add", "-q", file)
    assert got == code
    assert "read from your environment: KEY, OTHER" in said
    assert "to fetch http://example.org/${{ env.KEY }}" in said
    assert "run: sh -c 'a\\nb'" in said
    assert SECRET not in said
    found = json.loads(machine.odf("list", "-o", "json").stdout)["datasets"]
    assert len(found) == (1 if code == 0 else 0)


def test_failures_do_not_give_values_away(machine: Machine, server: Server) -> None:
    """The server repeats the secret in its error page; refused connections name the address."""
    flags = ("--allow-env", "KEY")
    said = ""
    for name, base in (("broken", f"{server.url}/broken"), ("gone", "http://127.0.0.1:9")):
        text = manifest(name, f"{base}/${{{{ env.KEY }}}}", header="${{ env.KEY }}")
        assert machine.odf("add", machine.write(text), *flags).returncode == 0
    for arguments in (("pull", "--all"), ("pull", "-vv", "broken"), ("pull", "-o", "json", "gone")):
        done = machine.odf(*arguments)
        assert done.returncode != 0
        said += done.stdout + done.stderr
    assert "***" in said
    assert not any(form in said for form in FORMS)
    assert server.asked[0][1] == SECRET
    assert places_of_the_secret(machine.root) == []

"""`odf key`: keys that are here or missing, copies of them, and what must not happen to them."""

import json
import os
import pty
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from odf.metadata.identity import DatasetID
from odf.workspace.keys import KeyStore

SECRET = "correct horse battery staple"
WITH_SECRET = {"ODF_KEY_PASSPHRASE": SECRET}


@pytest.fixture
def keys(environment) -> KeyStore:
    return KeyStore(Path(environment["HOME"]) / ".local" / "share")


@pytest.fixture
def identity(keys, prices: Path) -> DatasetID:
    """The identity of the dataset `prices`."""
    assert prices.is_dir()
    (found,) = keys.list()
    return found


def lose(keys: KeyStore, identity: DatasetID) -> None:
    """Remove a key, which no command does."""
    (keys.folder / identity.multibase).unlink()


def listed(run, *arguments: str) -> list[dict[str, object]]:
    return run(*arguments, "key", "list", "-o", "json").json["keys"]


def test_list(run, prices, keys, identity):
    other = keys.generate()
    place = ("-C", str(prices))
    assert listed(run, *place) == [
        {"id": str(identity), "name": "prices", "present": True},
        {"id": str(other), "name": None, "present": True},
    ]
    lose(keys, identity)
    assert listed(run, *place)[0] == {"id": str(identity), "name": "prices", "present": False}
    ran = run(*place, "key", "list")
    assert ran.code == 0
    assert "missing" in ran.out
    # Outside of any workspace there are no names.
    assert listed(run) == [{"id": str(other), "name": None, "present": True}]


def test_a_dataset_of_others_is_not_missed(run, prices, keys, identity, tmp_path):
    lose(keys, identity)
    mirror = tmp_path / "mirror"
    run("init", "-q", str(mirror))
    (folder,) = (prices / ".odf" / "datasets").iterdir()
    ran = run("-C", str(mirror), "pull", folder.as_uri(), "--as", "copy")
    assert ran.code == 0, ran.err
    assert listed(run, "-C", str(mirror)) == []


def test_no_keys(run):
    ran = run("key", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "no keys are here" in ran.err


def test_a_copy_comes_back(run, prices, keys, identity, tmp_path):
    content = (keys.folder / identity.multibase).read_bytes()
    copy = tmp_path / "prices.key"
    ran = run("-C", str(prices), "key", "export", "prices", str(copy), env=WITH_SECRET)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == f"Wrote the key of prices to {copy}\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    text = copy.read_text()
    assert text.startswith(f"Dataset: {identity}\n-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert SECRET not in text

    again = run("key", "import", str(copy), env=WITH_SECRET)
    assert (again.code, again.out) == (0, f"Here already: the key of {identity}\n")
    lose(keys, identity)
    ran = run("key", "import", str(copy), env=WITH_SECRET)
    assert (ran.code, ran.out) == (0, f"Imported the key of {identity}\n")
    path = keys.folder / identity.multibase
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_streams_and_json(run, keys):
    identity = keys.generate()
    pem = run("key", "export", str(identity), "-", env=WITH_SECRET).out
    document = run("key", "export", str(identity), "-", "-o", "json", env=WITH_SECRET).json
    assert document["key"]["id"] == str(identity)
    assert document["key"]["pem"] != pem  # another salt
    lose(keys, identity)
    ran = run("key", "import", "-", "-o", "json", stdin=pem, env=WITH_SECRET)
    assert ran.json["key"] == {"id": str(identity), "added": True}


def test_other_tools_read_it(run, keys):
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    identity = keys.generate()
    pem = run("key", "export", str(identity), "-", env=WITH_SECRET).out.encode()
    key = load_pem_private_key(pem, SECRET.encode())
    assert DatasetID(key.public_key().public_bytes_raw()) == identity


def test_the_passphrase_of_a_file_wins(run, keys, tmp_path):
    identity = keys.generate()
    file = tmp_path / "passphrase"
    file.write_text("ä line\nand more\n")
    pem = run("key", "export", str(identity), "-", "--passphrase-file", str(file), env=WITH_SECRET)
    assert run("key", "import", "-", stdin=pem.out, env=WITH_SECRET).code == 6
    from_file = run("key", "import", "-", "--passphrase-file", str(file), stdin=pem.out)
    assert from_file.code == 0
    file.write_text("\n")
    assert run("key", "export", str(identity), "-", "--passphrase-file", str(file)).code == 1
    file.unlink()
    assert run("key", "export", str(identity), "-", "--passphrase-file", str(file)).code == 4


def test_without_a_terminal_nobody_is_asked(run, keys):
    identity = keys.generate()
    ran = run("key", "export", str(identity), "-")
    assert (ran.code, ran.out) == (2, "")
    assert "ODF_KEY_PASSPHRASE" in ran.err


def test_nothing_is_overwritten(run, keys, tmp_path):
    identity = keys.generate()
    copy = tmp_path / "copy"
    copy.write_text("precious")
    ran = run("key", "export", str(identity), str(copy), env=WITH_SECRET)
    assert ran.code == 5
    assert copy.read_text() == "precious"

    pem = run("key", "export", str(identity), "-", env=WITH_SECRET).out
    path = keys.folder / identity.multibase
    other = keys.folder / keys.generate().multibase
    for content in (other.read_bytes(), b"rubbish", b""):
        path.write_bytes(content)
        ran = run("key", "import", "-", stdin=pem, env=WITH_SECRET)
        assert ran.code == 5, ran.err
        assert path.read_bytes() == content
        assert run("key", "export", str(identity), "-", env=WITH_SECRET).code == 7


def test_a_key_has_to_be_that_of_the_dataset(run, prices, keys, identity):
    other = keys.generate()
    pem = run("key", "export", str(other), "-", env=WITH_SECRET).out
    ran = run("-C", str(prices), "key", "import", "-", "prices", stdin=pem, env=WITH_SECRET)
    assert ran.code == 1
    assert str(identity) in ran.err
    # A file that says another dataset than its key gives.
    lie = pem.replace(str(other), str(identity))
    ran = run("key", "import", "-", stdin=lie, env=WITH_SECRET)
    assert ran.code == 1
    assert "it is the key of" in ran.err
    # Nothing but the key itself: the key says whose it is.
    bare = pem.partition("\n")[2]
    assert run("key", "import", "-", stdin=bare, env=WITH_SECRET).code == 0


def test_keys_of_the_store_itself_can_be_taken(run, keys):
    identity = keys.generate()
    path = keys.folder / identity.multibase
    plain = path.read_text()
    lose(keys, identity)
    assert run("key", "import", "-", stdin=plain).code == 0
    assert path.read_text() == plain


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", 1),
        (b"rubbish", 1),
        (b"\xff\xfe", 1),
        (b"x" * 20_000, 1),
        (b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", 6),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 1),
    ],
)
def test_files_that_are_no_key(run, keys, content, code):
    ran = run("key", "import", "-", stdin=content, env=WITH_SECRET)
    assert ran.code == code, ran.err
    assert ran.err.startswith("error: ")
    assert "internal" not in ran.err
    assert keys.list() == ()


def test_a_key_of_another_kind(run):
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    ran = run("key", "import", "-", stdin=pem)
    assert ran.code == 1
    assert "ed25519" in ran.err


def test_keys_and_files_that_are_not_there(run, prices, keys, identity, tmp_path):
    lose(keys, identity)
    place = ("-C", str(prices))
    ran = run(*place, "key", "export", "prices", "-", env=WITH_SECRET)
    assert ran.code == 4
    assert str(identity) in ran.err
    assert run(*place, "key", "export", "nothing", "-", env=WITH_SECRET).code == 4
    assert run("key", "export", "prices", "-", env=WITH_SECRET).code == 10
    assert run("key", "import", str(tmp_path / "none"), env=WITH_SECRET).code == 4


def test_the_passphrase_is_asked_for_on_a_terminal(environment, keys, tmp_path):
    identity = keys.generate()
    copy = tmp_path / "copy"
    env = {**os.environ, **environment}
    assert on_a_terminal(["export", str(identity), str(copy)], [SECRET, SECRET], env) == 0
    lose(keys, identity)
    assert on_a_terminal(["import", str(copy)], ["wrong"], env) == 6
    assert on_a_terminal(["import", str(copy)], [SECRET], env) == 0
    assert keys.has(identity)


def on_a_terminal(arguments: list[str], answers: list[str], env: dict[str, str]) -> int:
    """Run `odf key` on a terminal, answer each question, and return the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "odf", "key", *arguments],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=env,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        for answer in answers:
            asked = seen.count(b": ")
            deadline = time.monotonic() + 60
            while seen.count(b": ") == asked:
                assert time.monotonic() < deadline
                seen += os.read(ours, 1024)
            os.write(ours, answer.encode() + b"\n")
        code = process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert SECRET.encode() not in seen
    return code


def test_the_document_of_an_export(run, keys, tmp_path):
    identity = keys.generate()
    copy = tmp_path / "copy"
    ran = run("key", "export", str(identity), str(copy), "-o", "json", env=WITH_SECRET)
    assert json.loads(ran.out) == {
        "schema": "odf.cli/key-export/v1",
        "key": {"id": str(identity), "file": str(copy)},
    }

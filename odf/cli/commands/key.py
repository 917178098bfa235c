"""`odf key list`, `odf key export`, `odf key import`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from odf import limits
from odf.cli.app import App, pass_app
from odf.cli.command import OdfGroup
from odf.cli.completion import DatasetArgument
from odf.cli.output import Cell, Column
from odf.errors import BadInputError, NotAWorkspaceError, NotFoundError, UsageError

if TYPE_CHECKING:
    from odf.metadata.identity import DatasetID

_STREAM: Final = "-"


@click.group(
    cls=OdfGroup,
    examples=[
        ("odf key list", "Which keys are here, and which are missing"),
        ("odf key export prices prices.key", "Put a copy aside, with a passphrase"),
        ("odf key import prices.key", "Bring it to another machine"),
    ],
    exit_codes=[0, 2],
)
def command() -> None:
    """Manage the private keys of one's own datasets.

    Whoever has the private key of a dataset is its owner. A key is made with its dataset and can
    never be made again: keep a copy of it somewhere else.
    """


@command.command(
    "list",
    examples=[
        ("odf key list", "A table"),
        ("odf key list -o json | jq '.keys[] | select(.present | not)'", "The missing ones"),
    ],
    exit_codes=[0, 1, 2, 6],
)
@pass_app
def list_(app: App) -> None:
    """List the keys, and datasets made here whose key is missing.

    Outside of a workspace the keys are listed without names. Datasets that were pulled from
    elsewhere belong to others: their keys are not listed as missing.
    """
    from odf.coordinator.keys import list_keys

    try:
        workspace = app.context().workspace
    except NotAWorkspaceError:
        workspace = None
    found = list_keys(app.environment.settings(app.flags), workspace)
    rows = [
        (
            str(key.alias or "-"),
            "here" if key.present else Cell("missing", "red"),
            str(key.id),
        )
        for key in found
    ]
    app.output.show(
        app.command,
        {
            "keys": [
                {
                    "id": str(key.id),
                    "name": None if key.alias is None else str(key.alias),
                    "present": key.present,
                }
                for key in found
            ]
        },
        lambda output: (
            output.table(
                [Column("Dataset", style="bold", shrink=True), Column("Key"), Column("ID")], rows
            )
            if rows
            else None
        ),
    )
    if not found:
        app.output.note("no keys are here; odf add makes one for every dataset")
    if any(not key.present for key in found):
        app.output.hint("odf key import FILE brings a key back from its copy")


_passphrase_option = click.option(
    "--passphrase-file",
    metavar="FILE",
    help="Read the passphrase from the first line of FILE, instead of asking for it.",
)


@command.command(
    "export",
    examples=[
        ("odf key export prices prices.key", "Asks for a passphrase twice"),
        ("odf key export prices - --passphrase-file p.txt | ssh safe 'cat > k'", "In a script"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 7, 10],
)
@click.argument("dataset", type=DatasetArgument())
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@_passphrase_option
@pass_app
def export(app: App, dataset: str, file: str, passphrase_file: str | None) -> None:
    """Write an encrypted copy of a dataset's key to a new FILE.

    DATASET is a name, or an identifier (did:odf:...), which needs no workspace. FILE - is standard
    output. The format is PKCS #8 in PEM, which other tools read too; the passphrase is all that
    protects it, so take a long one. It comes from --passphrase-file, else from
    ODF_KEY_PASSPHRASE, else from a prompt; never from an argument.
    """
    from odf.coordinator.keys import export_key, write_export

    identity = _identity(app, dataset)
    if file != _STREAM and Path(file).exists():
        _refuse_existing(file)
    content = export_key(
        app.environment.settings(app.flags),
        identity,
        lambda: _passphrase(app, passphrase_file, confirm=True),
    )
    if file == _STREAM:
        pem = content.decode()
        app.output.show(
            app.command, {"key": {"id": str(identity), "pem": pem}}, lambda o: o.raw(pem)
        )
        return
    write_export(Path(file), content)
    app.output.show(
        app.command,
        {"key": {"id": str(identity), "file": file}},
        lambda o: None if o.is_quiet else o.line(f"Wrote the key of {dataset} to {file}"),
    )


@command.command(
    "import",
    examples=[
        ("odf key import prices.key", "Asks for its passphrase"),
        ("odf key import prices.key prices", "Only if it is the key of that dataset"),
    ],
    exit_codes=[0, 1, 2, 4, 5, 6, 10],
)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.argument("dataset", type=DatasetArgument(), required=False)
@_passphrase_option
@pass_app
def import_(app: App, file: str, dataset: str | None, passphrase_file: str | None) -> None:
    """Take a key from FILE into the key store.

    The key has to be that of the dataset which the file names, and that of DATASET if it is given.
    A key that is here already is never overwritten. FILE - is standard input.
    """
    from odf.coordinator.keys import import_key

    wanted = None if dataset is None else _identity(app, dataset)
    content = _read(file)
    done = import_key(
        app.environment.settings(app.flags),
        content,
        lambda: _passphrase(app, passphrase_file, confirm=False),
        wanted,
    )
    what = "Imported the key of" if done.added else "Here already: the key of"
    app.output.show(
        app.command,
        {"key": {"id": str(done.id), "added": done.added}},
        lambda o: None if o.is_quiet else o.line(f"{what} {done.id}"),
    )


def _identity(app: App, dataset: str) -> "DatasetID":
    """Find the identity of a dataset; an identifier is one without any workspace."""
    from odf.metadata.identity import DatasetID, parse_dataset_ref

    ref = parse_dataset_ref(dataset)
    return ref if isinstance(ref, DatasetID) else app.context().workspace.resolve(ref).id


def _read(file: str) -> bytes:
    from odf.coordinator.keys import read_file

    if file != _STREAM:
        return read_file(Path(file))
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    return sys.stdin.buffer.read(limits.MAX_KEY_FILE_SIZE + 1)


def _refuse_existing(file: str) -> None:
    from odf.errors import ConflictError

    raise ConflictError(f"{file} exists already", hint="choose another file, or move this one away")


def _passphrase(app: App, file: str | None, *, confirm: bool) -> str:
    """Get the passphrase: from a file, the environment, or a person."""
    if file is not None:
        return _first_line(file)
    value = app.environment.key_passphrase()
    if value is not None:
        return value
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            "the key needs a passphrase, and there is no terminal to ask on",
            hint="give it with --passphrase-file FILE or in ODF_KEY_PASSPHRASE",
        )
    answer = click.prompt("Passphrase", hide_input=True, confirmation_prompt=confirm, err=True)
    return str(answer)


def _first_line(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            content = stream.read(limits.MAX_KEY_FILE_SIZE + 1)
        lines = content.decode().splitlines()
    except FileNotFoundError:
        raise NotFoundError(f"{file}: there is no such file") from None
    except OSError as error:
        raise BadInputError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInputError(f"{file}: is not UTF-8 text") from None
    if not lines or not lines[0]:
        raise BadInputError(f"{file}: has no passphrase in its first line", reason="passphrase")
    return lines[0]

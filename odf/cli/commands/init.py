"""`odf init`."""

from pathlib import Path

import click

from odf.cli.app import App, pass_app
from odf.cli.command import OdfCommand


@click.command(
    cls=OdfCommand,
    examples=[
        ("odf init", "Make a workspace in the current folder"),
        ("odf init /srv/data", "Make one elsewhere; the folder is made when it is missing"),
        ("odf init --exists-ok", "Succeed where there is one already, for scripts"),
    ],
    exit_codes=[0, 1, 2, 5],
)
@click.argument("folder", required=False, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--exists-ok", is_flag=True, help="Leave a workspace that is there as it is.")
@pass_app
def command(app: App, folder: Path | None, exists_ok: bool) -> None:
    """Make a workspace.

    A workspace is a folder with an .odf folder in it, which holds the datasets, the registered
    repositories, caches and logs. Commands find it from any folder below.
    """
    from odf.coordinator.workspaces import init_workspace

    start = app.environment.workspace_start(app.flags)
    root, created = init_workspace(folder or start, exists_ok=exists_ok)
    said = "Made a workspace in" if created else "There is a workspace already in"
    app.output.show(
        app.command,
        {"workspace": str(root), "created": created},
        lambda output: None if output.is_quiet else output.line(f"{said} {root}"),
    )
    if created:
        app.output.hint("describe a dataset in a YAML file, then: odf add FILE")

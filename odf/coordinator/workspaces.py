"""Making a workspace, and opening the one that a command works in."""

from pathlib import Path

from odf.clock import Clock
from odf.coordinator.context import Context, Progress, Settings
from odf.workspace.workspace import FOLDER, Workspace


def init_workspace(folder: Path, *, exists_ok: bool = False) -> tuple[Path, bool]:
    """Make a workspace in a folder.

    Args:
        folder: The folder that gets the `.odf` folder; made when it is missing.
        exists_ok: Leave a workspace that is already there as it is.

    Returns:
        The folder's absolute path, and whether a workspace was made.

    Raises:
        ConflictError: There is one already, and `exists_ok` is false.
    """
    root = folder.absolute()
    created = not (root / FOLDER / "workspace.yaml").exists()
    return Workspace.init(root, exists_ok=exists_ok).root, created


def open_context(
    start: Path,
    settings: Settings,
    *,
    command: str,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Context:
    """Find the workspace and make the surroundings of a command.

    Args:
        start: The folder where the search begins; it and those above it are looked at.
        settings: Resolved settings.
        command: The command's name, for the run folder.
        clock: Where the time comes from.
        progress: Told what is being done.

    Raises:
        NotAWorkspaceError: There is no workspace there.
    """
    workspace = Workspace.find(
        start,
        command=f"odf {command}",
        config_files=[settings.config_home / "odf" / "config.yaml"],
        clock=clock,
    )
    return Context(workspace, settings, command=command, clock=clock, progress=progress)

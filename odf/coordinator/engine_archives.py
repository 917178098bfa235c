"""`odf engine`: whether engines start quickly, and making them do so."""

from typing import TYPE_CHECKING

from odf.coordinator.context import Settings

if TYPE_CHECKING:
    from odf.runtimes.archives import EngineStatus

__all__ = ["EngineStatus", "build_archive", "engine_status", "make_archive_behind"]


def engine_status(settings: Settings) -> "EngineStatus":
    """Look at the Spark engine and its class archive. No workspace is needed.

    Raises:
        EngineUnavailableError: There is no Spark or no Java.
    """
    from odf.runtimes.archives import prepare_spark  # noqa: PLC0415
    from odf.runtimes.pool import archives_folder  # noqa: PLC0415

    folder = archives_folder(settings.cache_home)
    return prepare_spark("status", folder, java_home=settings.java_home)


def build_archive(settings: Settings, *, again: bool) -> "EngineStatus":
    """Make the class archive of the Spark engine.

    Args:
        settings: Where the cache is, and which Java to take.
        again: Make it even if it is there.

    Raises:
        EngineUnavailableError: There is no Spark or no Java, or the archive could not be made.
    """
    from odf.runtimes.archives import prepare_spark  # noqa: PLC0415
    from odf.runtimes.pool import archives_folder  # noqa: PLC0415

    folder = archives_folder(settings.cache_home)
    return prepare_spark("build", folder, java_home=settings.java_home, again=again)


def make_archive_behind(settings: Settings) -> None:
    """Begin to make the class archive of the Spark engine, if it is missing; waits for nothing."""
    from odf.runtimes.archives import make_behind  # noqa: PLC0415
    from odf.runtimes.pool import archives_folder  # noqa: PLC0415

    make_behind(archives_folder(settings.cache_home), java_home=settings.java_home)

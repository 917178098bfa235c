"""Packages that some kinds of sources need, and that not everybody installs."""

from importlib.util import find_spec

from odf.errors import BadInputError


def need(extra: str, module: str, what: str) -> None:
    """Make sure that a module is installed.

    Args:
        extra: The extra of this package that brings it.
        module: Its name.
        what: What needs it, for the message.

    Raises:
        BadInputError: It is not there.
    """
    try:
        found = find_spec(module) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        raise BadInputError(
            f"{what} needs the package {module.partition('.')[0]}, which is not installed",
            reason="missing_package",
            hint=f"pip install 'opendatafabric[{extra}]'",
        )

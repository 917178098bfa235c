"""The environment and the terminal, read once: the only place that looks at either.

A flag wins over a variable, a variable over the workspace's configuration, that over the user's.
"""

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from odf.cli.output import OutputFormat, Terminal
from odf.durations import parse_duration
from odf.errors import NotFoundError, UsageError

if TYPE_CHECKING:  # the metadata layer is not needed to print a help text
    from odf.clock import Clock
    from odf.coordinator.context import RuntimeName, Settings

VARIABLES: Final[dict[str, str]] = {
    "ODF_WORKSPACE": "folder of the workspace, as -C",
    "ODF_OUTPUT": "text or json, as -o",
    "ODF_ENGINE__RUNTIME": "how engines are run: auto, docker, podman, bubblewrap or process",
    "ODF_ENGINE__IDLE_TIMEOUT": "how long an engine stays for the next command: 10m, 0 for not",
    "ODF_ALLOW_UNSANDBOXED": "1 is the same as --allow-unsandboxed",
    "ODF_JAVA_HOME": "a Java runtime to use instead of the one that comes along",
    "ODF_LOCK_TIMEOUT": "how long to wait for a locked dataset, as --lock-timeout",
    "ODF_SYSTEM_TIME": "a fixed current time (RFC 3339), for reproducible runs",
    "ODF_KEY_PASSPHRASE": "passphrase of exported keys, for odf key export and import",
    "ODF_DEBUG": "1 shows the traceback of internal errors",
    "NO_COLOR": "no colours, whatever the terminal can do (as --color never)",
    "CLICOLOR_FORCE": "1 writes colours into pipes too (as --color always)",
    "XDG_DATA_HOME": "private keys are kept in odf/keys below it",
    "XDG_CACHE_HOME": "what can be rebuilt is kept in odf below it",
    "XDG_CONFIG_HOME": "the user's configuration is odf/config.yaml below it",
    "XDG_RUNTIME_DIR": "sockets of engines are made below it; else in a temporary folder",
}
"""Every variable that is heeded, with what it does."""

_NETWORK_VARIABLES: Final = frozenset(
    {
        *("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "FTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
_RUNTIMES: Final[tuple["RuntimeName", ...]] = (
    "auto",
    "docker",
    "podman",
    "bubblewrap",
    "process",
)


@dataclass(slots=True)
class Flags:
    """The options that every command takes, before or after its name.

    Attributes:
        output: `text` or `json`; None when not given.
        workspace: Where to look for the workspace; None when not given.
        color: `auto`, `always` or `never`; None when not given.
        quiet: Only results and errors.
        verbose: How often `-v` was given.
        lock_timeout: Seconds to wait for a lock; None when not given.
        allow_unsandboxed: Run engines without a sandbox for datasets of others too.
    """

    output: str | None = None
    workspace: str | None = None
    color: str | None = None
    quiet: bool = False
    verbose: int = 0
    lock_timeout: float | None = None
    allow_unsandboxed: bool = False


class Environment:
    """What the environment says, with flags put before it.

    Args:
        variables: The process's environment.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables

    def output_format(self, flags: Flags) -> OutputFormat:
        """Return the format that results are written in.

        Raises:
            UsageError: `ODF_OUTPUT` names no format.
        """
        if flags.output is not None:
            return OutputFormat(flags.output)
        value = self._value("ODF_OUTPUT") or OutputFormat.TEXT
        if value not in list(OutputFormat):
            raise UsageError(f"ODF_OUTPUT is {value!r}; wanted text or json")
        return OutputFormat(value)

    def workspace_start(self, flags: Flags) -> Path:
        """Return the folder where the search for a workspace begins.

        Raises:
            NotFoundError: It is relative to the current folder, which somebody has removed.
        """
        start = Path(flags.workspace or self._value("ODF_WORKSPACE") or ".")
        try:
            start.absolute()
        except FileNotFoundError:
            raise NotFoundError(
                "the current folder is not there any more", hint="change to another one with cd"
            ) from None
        return start

    def debug(self, flags: Flags) -> bool:
        """Tell whether tracebacks are wanted."""
        return flags.verbose > 1 or self._flag("ODF_DEBUG")

    def terminal(self, flags: Flags, stdout: TextIO | None, stderr: TextIO | None) -> Terminal:
        """Look at the two streams.

        Args:
            flags: For `--color`.
            stdout: Where results go.
            stderr: Where messages go.
        """
        stdout_tty, stderr_tty = _is_tty(stdout), _is_tty(stderr)
        dumb = self._value("TERM") == "dumb"
        return Terminal(
            stdout=stdout,
            stderr=stderr,
            stdout_tty=stdout_tty,
            stderr_tty=stderr_tty and not dumb,
            width=max(shutil.get_terminal_size((80, 24)).columns, 20),
            color=self._color(flags, is_tty=stdout_tty and not dumb),
        )

    def clock(self) -> "Clock":
        """Return the machine's clock, or the one that `ODF_SYSTEM_TIME` stopped.

        Raises:
            UsageError: The variable is no RFC 3339 time.
        """
        from odf.clock import FixedClock, SystemClock

        value = self._value("ODF_SYSTEM_TIME")
        if value is None:
            return SystemClock()
        from odf.errors import OdfError
        from odf.metadata.model import Timestamp

        try:
            return FixedClock(Timestamp.parse(value).to_datetime())
        except OdfError as e:
            raise UsageError(
                f"ODF_SYSTEM_TIME is {value!r}; wanted a time such as 2024-05-01T12:00:00Z: "
                f"{e.message}"
            ) from None

    def settings(self, flags: Flags) -> "Settings":
        """Resolve what use cases are told.

        Raises:
            UsageError: A variable has a value that means nothing.
        """
        from odf.coordinator.context import Settings

        java_home = self._value("ODF_JAVA_HOME")
        return Settings(
            data_home=self._home("XDG_DATA_HOME", ".local/share"),
            cache_home=self._home("XDG_CACHE_HOME", ".cache"),
            config_home=self._home("XDG_CONFIG_HOME", ".config"),
            runtime_home=self._runtime_home(),
            java_home=Path(java_home) if java_home else None,
            runtime=self._runtime(),
            allow_unsandboxed=flags.allow_unsandboxed or self._flag("ODF_ALLOW_UNSANDBOXED"),
            idle_timeout=self._duration("ODF_ENGINE__IDLE_TIMEOUT"),
            stays=_is_tty(sys.stdin) and _is_tty(sys.stderr),
            lock_timeout=self._lock_timeout(flags),
            environment={
                name: value
                for name, value in self._variables.items()
                if name.upper() in _NETWORK_VARIABLES
            },
            variables=self._variables,
        )

    def key_passphrase(self) -> str | None:
        """Return the passphrase of exported keys, if the environment has one."""
        return self._value("ODF_KEY_PASSPHRASE")

    def _runtime(self) -> "RuntimeName | None":
        value = self._value("ODF_ENGINE__RUNTIME")
        for runtime in _RUNTIMES:
            if value == runtime:
                return runtime
        if value is None:
            return None
        wanted = ", ".join(_RUNTIMES)
        raise UsageError(f"ODF_ENGINE__RUNTIME is {value!r}; wanted one of {wanted}")

    def _lock_timeout(self, flags: Flags) -> float:
        if flags.lock_timeout is not None:
            return flags.lock_timeout
        return self._duration("ODF_LOCK_TIMEOUT") or 0.0

    def _duration(self, name: str) -> float | None:
        value = self._value(name)
        if value is None:
            return None
        seconds = parse_duration(value)
        if seconds is None:
            raise UsageError(f"{name} is {value!r}; wanted a duration such as 30s or 10m")
        return seconds

    def _color(self, flags: Flags, *, is_tty: bool) -> bool:
        if flags.color in ("always", "never"):
            return flags.color == "always"
        if self._value("NO_COLOR"):
            return False
        return self._flag("CLICOLOR_FORCE") or is_tty

    def _home(self, variable: str, default: str) -> Path:
        """Return an XDG base folder; relative values are ignored, as its specification says."""
        value = self._value(variable)
        if value and Path(value).is_absolute():
            return Path(value)
        home = self._value("HOME")
        if not home:
            raise UsageError(f"neither {variable} nor HOME is set, so there is no place for keys")
        return Path(home) / default

    def _runtime_home(self) -> Path | None:
        value = Path(self._value("XDG_RUNTIME_DIR") or "")
        return value if value.is_absolute() else None

    def _value(self, name: str) -> str | None:
        return self._variables.get(name) or None

    def _flag(self, name: str) -> bool:
        return (self._value(name) or "0").lower() not in ("0", "false", "no", "off")


def wants_json(arguments: list[str], variables: Mapping[str, str]) -> bool:
    """Guess the format from a command line that could not be parsed.

    Args:
        arguments: The arguments as they came.
        variables: The process's environment.
    """
    wanted = variables.get("ODF_OUTPUT", "")
    for place, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument in ("-o", "--output"):
            wanted = arguments[place + 1] if place + 1 < len(arguments) else wanted
        elif argument.startswith("--output="):
            wanted = argument.removeprefix("--output=")
        elif argument.startswith("-o") and argument != "-o":
            wanted = argument[2:]
    return wanted == OutputFormat.JSON


def _is_tty(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False

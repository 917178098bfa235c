"""The bubblewrap sandbox: no network, no files but what is bound, no capabilities.

Inside there is a read-only system (`/usr`, Python, this package and what the caller names), a
private `/tmp`, and the folders that the caller binds. Everything else of the machine, the
environment and the network do not exist there.

Called by root, the user inside is a mapping only: files are still reached as root of the host,
but without capabilities, and only those that are bound exist. Memory and process limits are
resource limits, which hold for each process; the kernel does not hold root to the process limit.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import odf
from odf.limits import (
    SANDBOX_MAX_OPEN_FILES,
    SANDBOX_MAX_PROCESSES,
    SANDBOX_PROBE_SECONDS,
)
from odf.runtimes.notes import keep_note, read_note
from odf.runtimes.text import printable

_PROGRAM = "bwrap"
_PYTHON_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")
_SCRATCH = "/tmp"  # noqa: S108  # inside the sandbox, where nobody else is
_NOBODY = 65534
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
_JAVA_CONFIGURATION = re.compile(r"java-.*")
# Newer versions can also forbid further user namespaces inside, which shrinks the kernel's surface.
_NAMESPACES: Final[tuple[tuple[str, ...], ...]] = (("--unshare-user", "--disable-userns"), ())
_MEMORY = "sandbox.json"
_REMEMBERED_SECONDS = 86_400.0
# Set in the process that becomes the sandbox, so that the sandbox itself is bound by it as well.
_SET_LIMITS = """\
import os, resource, sys
for pair in sys.argv[1].split(","):
    name, value = pair.split("=")
    kind = getattr(resource, "RLIMIT_" + name)
    hard = resource.getrlimit(kind)[1]
    value = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
    resource.setrlimit(kind, (value, value))
os.execv(sys.argv[2], sys.argv[2:])
"""
# The sandbox dies with its parent. One that outlives its starter gets this one for a parent.
_STAND_IN = ("/bin/sh", "-c", '"$@"; exit $?', "sh")


@dataclass(frozen=True, slots=True)
class SandboxMemory:
    """How a sandbox was seen to work, so that the next command need not try it first.

    It holds for one bubblewrap, one kernel and one start of the machine, for a day at most. If it
    does not hold any more, the engine does not start: whoever finds that calls `forget`.

    Attributes:
        folder: Where it is kept, below the user's cache.
    """

    folder: Path

    def recall(self) -> tuple[str, ...] | None:
        """Return the options with which namespaces are made; None if they have to be tried."""
        found: Any = read_note(self.folder / _MEMORY)
        try:
            age = time.time() - found["time"]
            if found["for"] != _surroundings() or not 0 <= age <= _REMEMBERED_SECONDS:
                return None
            return next(known for known in _NAMESPACES if list(known) == found["options"])
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            return None

    def keep(self, options: Sequence[str]) -> None:
        """Remember what worked; a cache that cannot be written is none."""
        with contextlib.suppress(OSError):
            found = {"for": _surroundings(), "time": time.time(), "options": list(options)}
            keep_note(self.folder / _MEMORY, found)

    def forget(self) -> bool:
        """Have it tried anew, and say whether there was anything to forget."""
        with contextlib.suppress(OSError):
            (self.folder / _MEMORY).unlink()
            return True
        return False


def _surroundings() -> list[str | int]:
    program = Path(shutil.which(_PROGRAM) or _PROGRAM)
    found = program.stat()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    return [str(program), found.st_size, found.st_mtime_ns, boot, os.getuid(), sys.executable]


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a sandboxed engine may take. Each holds for one process.

    Attributes:
        memory: Bytes of writable private memory (RLIMIT_DATA). Address space that is only
            reserved, as Java does, does not count.
        processes: Processes and threads of the user (RLIMIT_NPROC).
        open_files: Open files (RLIMIT_NOFILE).
    """

    memory: int
    processes: int = SANDBOX_MAX_PROCESSES
    open_files: int = SANDBOX_MAX_OPEN_FILES

    def as_text(self) -> str:
        """Return them as the limiting process reads them; core dumps are off."""
        limits = {
            "DATA": self.memory,
            "NPROC": self.processes,
            "NOFILE": self.open_files,
            "CORE": 0,
        }
        return ",".join(f"{name}={value}" for name, value in limits.items())


def machine_memory() -> int:
    """Return the size of this machine's memory in bytes: no engine may ask for more."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class Sandbox:
    """Makes command lines that run a program in bubblewrap.

    Args:
        environment: All that the program finds in its environment; `HOME` and `TMPDIR` are set
            to the private `/tmp` unless they are given here.
        read_only: Files and folders beside the system, Python and this package that the program
            has to read, at these same paths.
        limits: What it may take; by default the memory of the machine.
        memory: What was found out before about sandboxes here.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        read_only: Iterable[Path] = (),
        limits: SandboxLimits | None = None,
        memory: SandboxMemory | None = None,
    ) -> None:
        self._environment = {"HOME": _SCRATCH, "TMPDIR": _SCRATCH, **environment}
        self._read_only = tuple(read_only)
        self._limits = limits or SandboxLimits(machine_memory())
        self._memory = memory
        self._namespaces: tuple[str, ...] | None = None

    def why_not(self) -> str | None:
        """Try the sandbox by running this Python in it; what worked is remembered.

        Returns:
            None if it works, else the reason in one line.
        """
        if self._namespaces is not None:
            return None
        if shutil.which(_PROGRAM) is None:
            return f"{_PROGRAM} is not installed"
        if self._memory is not None:
            self._namespaces = self._memory.recall()
            if self._namespaces is not None:
                return None
        reason = "it failed without a word"
        for extra in _NAMESPACES:
            self._namespaces = extra
            result = self._try_python()
            if result is None:
                if self._memory is not None:
                    self._memory.keep(extra)
                return None
            reason = result
        self._namespaces = None
        return reason

    def argv(
        self,
        files: Path,
        program: Sequence[str],
        *,
        bind: Iterable[str] = (),
        read_only: Iterable[Path] = (),
        folder: str = "/",
        outlives: bool = False,
    ) -> list[str]:
        """Compose the command line: limits, sandbox, what is bound, and the program.

        Args:
            files: A folder for the few files that the sandbox needs from outside.
            program: What to run, as it is called inside.
            bind: Further options of bubblewrap that bind files and folders.
            read_only: Files that this program has to read, at these same paths.
            folder: The current folder inside; made if it is missing.
            outlives: Whether it stays when the process that starts it ends.
        """
        bwrap = shutil.which(_PROGRAM) or _PROGRAM
        identity = write_identity(files)
        argv = [sys.executable, "-I", "-S", "-c", _SET_LIMITS, self._limits.as_text()]
        argv += [*(_STAND_IN if outlives else ()), bwrap]
        argv += ["--unshare-all", *(self._namespaces or ())]
        argv += ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"]
        uid, gid = user_inside()
        argv += ["--hostname", "localhost", "--uid", str(uid), "--gid", str(gid)]
        argv += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", _SCRATCH]
        runtime = _runtime_paths(self._read_only)
        argv += _read_only(runtime)
        for path in read_only:
            if not any(path.is_relative_to(above) for above in runtime):
                argv += ["--ro-bind", str(path), str(path)]
        for name in ("passwd", "group", "hosts"):
            argv += ["--ro-bind", str(identity / name), f"/etc/{name}"]
        argv += [*bind, "--dir", folder, "--remount-ro", "/", "--chdir", folder]
        for name, value in self._environment.items():
            argv += ["--setenv", name, value]
        return [*argv, "--", *program]

    def _try_python(self) -> str | None:
        with tempfile.TemporaryDirectory(prefix="odf-") as folder:
            argv = self.argv(Path(folder), [sys.executable, "-I", "-S", "-c", ""])
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=SANDBOX_PROBE_SECONDS,
                    check=False,
                    env={},
                )
            except subprocess.TimeoutExpired:
                return f"it did nothing for {SANDBOX_PROBE_SECONDS:g} s"
            except OSError as error:
                return str(error)
        if done.returncode == 0:
            return None
        said = printable(done.stderr.decode("utf-8", "replace")).strip().splitlines()
        return said[-1] if said else f"exit status {done.returncode}"


def install_hint() -> str:
    """Say how to get a working sandbox on this machine."""
    if shutil.which(_PROGRAM) is not None:
        return (
            "bubblewrap is installed but cannot make a sandbox: allow user namespaces "
            "(sysctl kernel.unprivileged_userns_clone=1; on Ubuntu 24.04 and later "
            "sysctl kernel.apparmor_restrict_unprivileged_userns=0)."
        )
    commands = {
        "apt-get": "sudo apt-get install bubblewrap",
        "dnf": "sudo dnf install bubblewrap",
        "zypper": "sudo zypper install bubblewrap",
        "pacman": "sudo pacman -S bubblewrap",
        "apk": "sudo apk add bubblewrap",
    }
    for program, command in commands.items():
        if shutil.which(program) is not None:
            return f"Install a sandbox: {command}"
    return "Install a sandbox: the package is called bubblewrap."


def user_inside() -> tuple[int, int]:
    """Return the user and group that engines run as: the caller's, or nobody instead of root."""
    return os.getuid() or _NOBODY, os.getgid() or _NOBODY


def write_identity(files: Path) -> Path:
    """Write the few lines of `/etc` without which Java and Spark do not start.

    Args:
        files: Where to make their folder.

    Returns:
        The folder, with `passwd`, `group` and `hosts`.
    """
    folder = files / "etc"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    uid, gid = user_inside()
    (folder / "passwd").write_text(f"odf:x:{uid}:{gid}:odf:{_SCRATCH}:/bin/sh\n")
    (folder / "group").write_text(f"odf:x:{gid}:\n")
    (folder / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    for path in folder.iterdir():
        # Read by the engine's user, whatever the umask of the caller.
        path.chmod(0o644)
    return folder


def _runtime_paths(more: Iterable[Path]) -> list[Path]:
    """List what has to be readable: the system, Python and its packages, this package.

    Of Python's prefixes only the folders of programs and libraries: a prefix can be a home folder
    or a project, with files beside Python that are nobody's business.
    """
    configuration = [Path(path) for path in _CONFIGURATION]
    etc = Path("/etc")
    configuration += [path for path in etc.iterdir() if _JAVA_CONFIGURATION.fullmatch(path.name)]
    prefixes = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.base_prefix).resolve()]
    python = [prefix / part for prefix in prefixes for part in _PYTHON_PARTS]
    # The interpreter of a virtual environment is a chain of links; each step has to exist.
    link = Path(sys.executable)
    while link.is_symlink():
        python.append(link)
        link = link.parent / link.readlink()
    python.append(link)
    package = [Path(folder) for folder in odf.__path__]
    system = [Path(path) for path in _SYSTEM]
    return [*system, *configuration, *python, *package, *more]


def _read_only(paths: Iterable[Path]) -> list[str]:
    """Bind each path at its own place, once, skipping what lies in a folder bound before."""
    argv: list[str] = []
    bound: list[Path] = []
    for path in (Path(os.path.normpath(path)) for path in paths):
        if not path.exists() or any(path.is_relative_to(above) for above in bound):
            continue
        if path.is_symlink() and (path.parent == Path("/") or path.is_file()):
            # /bin -> usr/bin on merged systems, python -> python3.11: the link itself, as it is.
            argv += ["--symlink", str(path.readlink()), str(path)]
        else:
            argv += ["--ro-bind", str(path), str(path)]
        bound.append(path)
    return argv

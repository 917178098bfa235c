import io
from pathlib import Path

import pytest

from odf.cli.environment import Environment, Flags, wants_json
from odf.cli.output import OutputFormat
from odf.durations import parse_duration
from odf.errors import NotFoundError, UsageError

HOME = {"HOME": "/home/x"}


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("30", 30),
        ("30s", 30),
        ("1.5m", 90),
        ("2h", 7200),
        ("250ms", 0.25),
        ("", None),
        ("s", None),
        ("-1s", None),
        ("1d", 86_400),
        ("2w", 1_209_600),
        ("1 d", 86_400),
        ("1e3", None),
        ("٣", None),
        ("inf", None),
        ("1.2.3", None),
        (".", None),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


def test_folders_follow_the_base_directory_specification():
    settings = Environment(HOME).settings(Flags())
    assert settings.runtime_home is None
    for value, wanted in (("/run/user/7", Path("/run/user/7")), ("relative", None), ("", None)):
        found = Environment({**HOME, "XDG_RUNTIME_DIR": value}).settings(Flags())
        assert found.runtime_home == wanted
    assert settings.data_home == Path("/home/x/.local/share")
    assert settings.cache_home == Path("/home/x/.cache")
    assert settings.config_home == Path("/home/x/.config")
    moved = Environment({**HOME, "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "relative"})
    assert moved.settings(Flags()).data_home == Path("/d")
    assert moved.settings(Flags()).cache_home == Path("/home/x/.cache")
    with pytest.raises(UsageError, match="HOME"):
        Environment({}).settings(Flags())


def test_flags_win_over_variables():
    environment = Environment(
        {**HOME, "ODF_OUTPUT": "json", "ODF_WORKSPACE": "/w", "ODF_LOCK_TIMEOUT": "30s"}
    )
    assert environment.output_format(Flags()) is OutputFormat.JSON
    assert environment.output_format(Flags(output="text")) is OutputFormat.TEXT
    assert environment.workspace_start(Flags()) == Path("/w")
    assert environment.workspace_start(Flags(workspace="/f")) == Path("/f")
    assert environment.settings(Flags()).lock_timeout == 30
    assert environment.settings(Flags(lock_timeout=0.0)).lock_timeout == 0


def test_a_current_folder_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(NotFoundError, match="current folder"):
        Environment({}).workspace_start(Flags())
    assert Environment({}).workspace_start(Flags(workspace="/f")) == Path("/f")


def test_settings_of_engines_and_network():
    settings = Environment(
        {
            **HOME,
            "ODF_JAVA_HOME": "/j",
            "ODF_ENGINE__RUNTIME": "process",
            "ODF_ALLOW_UNSANDBOXED": "1",
            "https_proxy": "http://p",
            "SECRET": "s",
        }
    ).settings(Flags())
    assert settings.java_home == Path("/j")
    assert settings.runtime == "process"
    assert settings.allow_unsandboxed
    assert settings.environment == {"https_proxy": "http://p"}


def test_a_stopped_clock():
    clock = Environment({"ODF_SYSTEM_TIME": "2024-05-01T12:00:00Z"}).clock()
    assert clock.now().isoformat() == "2024-05-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("variables", "flag", "tty", "color"),
    [
        ({}, None, True, True),
        ({}, None, False, False),
        ({"NO_COLOR": "1"}, None, True, False),
        ({"NO_COLOR": "1"}, "always", False, True),
        ({}, "never", True, False),
        ({"TERM": "dumb"}, None, True, False),
        ({"CLICOLOR_FORCE": "1"}, None, False, True),
    ],
)
def test_when_there_are_colours(variables, flag, tty, color):
    stream = Tty() if tty else io.StringIO()
    terminal = Environment(variables).terminal(Flags(color=flag), stream, stream)
    assert terminal.color is color


@pytest.mark.parametrize(
    ("line", "json"),
    [
        ("list", False),
        ("list -o json", True),
        ("-ojson list", True),
        ("list --output=json", True),
        ("list --output json", True),
        ("list -o text", False),
        ("list -o json -o text", False),
        ("list -- -o json", False),
        ("list -o", False),
    ],
)
def test_the_format_of_a_line_that_does_not_parse(line, json):
    assert wants_json(line.split(), {}) is json
    assert wants_json(["list"], {"ODF_OUTPUT": "json"})

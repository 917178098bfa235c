"""Mistakes in fetch steps that `odf add` tells of, before anything is fetched."""

import sys

import pytest

from odf.errors import BadInputError
from odf.ingest.fetch import check_step, fetch, place_of
from odf.metadata.model import (
    EnvVar,
    EventTimeSourceFromPath,
    EventTimeSourceFromSystemTime,
    FetchStep,
    FetchStepContainer,
    FetchStepEthereumLogs,
    FetchStepFilesGlob,
    FetchStepMqtt,
    FetchStepUrl,
    MqttTopicSubscription,
    RequestHeader,
    SourceOrdering,
)
from tests.ingest.fetch.conftest import Around


def _from_path(pattern: str, time_format: str | None = None) -> EventTimeSourceFromPath:
    return EventTimeSourceFromPath(pattern, time_format)


TOPIC = (MqttTopicSubscription("a"),)
GOOD: list[tuple[FetchStep, str]] = [
    (FetchStepUrl("file:a.csv"), "file:a.csv"),
    (FetchStepUrl("HTTPS://example.org/${{ env.KEY }}"), "HTTPS://example.org/${{ env.KEY }}"),
    (FetchStepUrl("${{ env.BASE }}/a.csv"), "${{ env.BASE }}/a.csv"),
    (FetchStepFilesGlob("data/**/*.csv"), "data/**/*.csv"),
    (FetchStepContainer("img:${{ env.TAG }}", env=(EnvVar("A"),)), "img:${{ env.TAG }}"),
    (FetchStepMqtt(host="h", port=1, topics=TOPIC), "mqtt://h:1"),
    (FetchStepEthereumLogs(5, None, "block_number > 4", "E()"), "the chain 5"),
    (FetchStepEthereumLogs(None, "http://h/${{ env.KEY }}"), "http://h/${{ env.KEY }}"),
]
BAD: list[tuple[FetchStep, str]] = [
    (FetchStepUrl("/data/a.csv"), "no URL of one of the schemes file, http"),
    (FetchStepUrl("C:\\data\\a.csv"), "no URL of one of the schemes file, http"),
    (FetchStepUrl("http://h/${{ KEY }}"), "cannot read the template"),
    (FetchStepUrl("http://h/a", _from_path("([0-9]{4})", "%Q")), "eventTime: .*%Q is not known"),
    (FetchStepUrl("http://h/a", _from_path("([0-9]{4})", "dd/MM")), "eventTime: .* has no year"),
    (FetchStepUrl("http://h/a", _from_path("[0-9]{4}")), "has no group in parentheses"),
    (
        FetchStepUrl("http://h/a", headers=(RequestHeader("X", "a"), RequestHeader("Range", "b"))),
        "the header 'Range' cannot be set by a manifest",
    ),
    (FetchStepUrl("http://h/a", headers=(RequestHeader("X Y", "a"),)), "the header 'X Y' cannot"),
    (FetchStepFilesGlob("a/*", _from_path("(?=x)")), "eventTime: the pattern .* is not valid"),
    (
        FetchStepFilesGlob(
            "a/*", EventTimeSourceFromSystemTime(), order=SourceOrdering.BY_EVENT_TIME
        ),
        "ByEventTime needs event times of the files",
    ),
    (FetchStepUrl("ftp://h/a", headers=(RequestHeader("X", "a"),)), "ftp has no headers"),
    (FetchStepFilesGlob("data/"), "names no files"),
    (FetchStepContainer("--privileged"), "is no name of an image"),
    (FetchStepContainer("img", env=(EnvVar("A B", "x"),)), "is no name of a variable"),
    (FetchStepMqtt(host="h", port=0, topics=TOPIC), "no address of a broker"),
    (FetchStepMqtt(host="h", port=1, password="${{ x", topics=TOPIC), "cannot read the template"),
    (FetchStepEthereumLogs(5, None, "nonce = 4"), "cannot be asked of a node"),
    (FetchStepEthereumLogs(5, None, None, "E(what x)"), "cannot read the signature"),
]


@pytest.mark.parametrize(("step", "place"), GOOD)
def test_steps_that_can_work(step: FetchStep, place: str) -> None:
    assert check_step(step) == ()
    assert place_of(step) == place


def test_schemes_of_other_implementations_are_told_of() -> None:
    assert check_step(FetchStepUrl("s3://bucket/a.csv")) == (
        "this release cannot pull s3: URLs, only file, http, https, ftp, ftps",
    )


def test_headers_that_nobody_reads_are_told_of() -> None:
    step = FetchStepUrl("file:///a.csv", headers=(RequestHeader("X-Key", "a"),))
    assert check_step(step) == ("file:///a.csv: headers do nothing there, only for http and https",)


@pytest.mark.parametrize(("step", "said"), BAD)
def test_steps_that_can_never_work(step: FetchStep, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        check_step(step)


@pytest.mark.parametrize(
    ("step", "module", "extra"),
    [
        (FetchStepMqtt(host="h", port=1, topics=TOPIC), "paho", "mqtt"),
        (FetchStepEthereumLogs(5, "http://h"), "sqlglot", "ethereum"),
    ],
)
def test_a_package_that_is_not_here(
    step: FetchStep, module: str, extra: str, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dataset can be added, since it may be pulled elsewhere; pulling says what to install."""

    class Nowhere:
        def find_spec(self, name: str, *_: object) -> None:
            if name.partition(".")[0] == module:
                raise ModuleNotFoundError(name)

    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Nowhere(), *sys.meta_path])
    (warning,) = check_step(step)
    assert f"pip install 'opendatafabric[{extra}]'" in warning
    with pytest.raises(BadInputError, match="is not installed") as refused:
        fetch(step, None, around.ctx())
    assert refused.value.hint == f"pip install 'opendatafabric[{extra}]'"

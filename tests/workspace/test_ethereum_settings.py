"""`ethereum.<chainId>.nodeUrl` of the configuration."""

from pathlib import Path

import pytest

from odf.workspace.config import Config
from odf.workspace.settings_files import SettingsError


def load(folder: Path, *texts: str, **overrides: str) -> Config:
    files = []
    for number, text in enumerate(texts):
        files.append(folder / f"{number}.yaml")
        files[-1].write_text(text)
    return Config.load(files, {key.replace("__", "."): value for key, value in overrides.items()})


def test_nodes_by_chain(tmp_path: Path) -> None:
    assert load(tmp_path, "{}").ethereum_nodes is None
    strong = "ethereum: {1: {nodeUrl: 'http://a'}, '137': {nodeUrl: 'http://b'}}"
    weak = "ethereum: {1: {nodeUrl: 'http://c'}, 5: {nodeUrl: 'http://d'}}"
    assert load(tmp_path, strong, weak).ethereum_nodes == {
        1: "http://a",
        137: "http://b",
        5: "http://d",
    }
    given = load(tmp_path, strong, ethereum__1__nodeUrl="http://e")
    assert (given.ethereum_nodes or {})[1] == "http://e"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ethereum: {main: {nodeUrl: 'http://a'}}", "wanted the number of a chain, got 'main'"),
        ("ethereum: {1: {node: 'http://a'}}", r"ethereum\.1\.node"),
        ("ethereum: {1: 'http://a'}", r"ethereum\.1"),
        ("ethereum: [1]", "wanted names with values"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=said):
        load(tmp_path, text)

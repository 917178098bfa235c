"""Keys, configuration, repositories, remote aliases, run folders."""

import os
import stat
from datetime import UTC, datetime, timedelta

import pytest

from odf.errors import ConflictError, NotFoundError, UsageError
from odf.metadata.identity import DatasetID, DatasetName, RepoName
from odf.repo.urls import RepositoryUrlError, parse_repository_url
from odf.workspace.config import Config, EngineRuntime, IngestSettings
from odf.workspace.keys import KeyStore
from odf.workspace.repositories import RemoteAliases, RepositoryRegistry
from odf.workspace.runs import KEPT_RUNS, SCRATCH, make_run_folder
from odf.workspace.settings_files import SettingsError

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class TestKeys:
    def test_a_new_key_is_kept_and_private(self, tmp_path):
        keys = KeyStore(tmp_path)
        assert keys.list() == ()
        identity = keys.generate()
        path = tmp_path / "odf" / "keys" / identity.multibase
        assert keys.has(identity)
        assert keys.list() == (identity,)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert [p.name for p in path.parent.iterdir()] == [identity.multibase]

    def test_the_key_file_holds_the_private_half(self, tmp_path):
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        keys = KeyStore(tmp_path)
        identity = keys.generate()
        private = load_pem_private_key((keys.folder / identity.multibase).read_bytes(), None)
        private_sign = private.sign(b"x")  # type: ignore[union-attr,call-arg]
        public = private.public_key()
        public.verify(private_sign, b"x")  # type: ignore[union-attr,call-arg]
        assert public.public_bytes_raw() == identity.public_key  # type: ignore[union-attr]

    def test_keys_differ_and_others_are_not_here(self, tmp_path):
        keys = KeyStore(tmp_path)
        assert len({keys.generate() for _ in range(5)}) == 5
        assert not keys.has(DatasetID(b"\1" * 32))

    def test_a_loose_folder_is_tightened(self, tmp_path):
        folder = tmp_path / "odf" / "keys"
        folder.mkdir(parents=True, mode=0o777)
        (folder / "notes.txt").write_text("not a key")
        keys = KeyStore(tmp_path)
        identity = keys.generate()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert keys.list() == (identity,)


class TestConfig:
    def load(self, tmp_path, *texts, **overrides):
        files = []
        for number, text in enumerate(texts):
            files.append(tmp_path / f"config-{number}.yaml")
            files[-1].write_text(text)
        return Config.load(files, {k.replace("_", "."): v for k, v in overrides.items()})

    def test_defaults(self, tmp_path):
        assert Config.load([tmp_path / "none.yaml"]) == Config(ingest={}, engine_images={})
        assert self.load(tmp_path, "") == Config(ingest={}, engine_images={})
        assert Config().ingest_of(DatasetName("x")) == IngestSettings(None, None)

    def test_all_keys(self, tmp_path):
        config = self.load(
            tmp_path,
            """
            engine: {runtime: Bubblewrap, memory: 4g}
            ingest:
              com.example.Prices: {maxRetract: 80%, watermarkLag: 2d}
              other: {maxRetract: 0.25}
            """,
        )
        assert config.engine_runtime is EngineRuntime.BUBBLEWRAP
        assert config.engine_memory == 4 * 2**30
        assert config.ingest_of(DatasetName("COM.example.prices")) == IngestSettings(
            0.8, timedelta(days=2)
        )
        assert config.ingest_of(DatasetName("other")) == IngestSettings(0.25, None)

    def test_the_first_file_wins_key_by_key(self, tmp_path):
        config = self.load(
            tmp_path,
            "engine: {runtime: process}\ningest: {A: {maxRetract: 1}}",
            "engine: {runtime: auto, memory: 512m}\ningest: {a: {maxRetract: 0, watermarkLag: 1h}}",
        )
        assert config.engine_runtime is EngineRuntime.PROCESS
        assert config.engine_memory == 512 * 2**20
        assert config.ingest_of(DatasetName("a")) == IngestSettings(1.0, timedelta(hours=1))

    def test_overrides_win(self, tmp_path):
        config = self.load(tmp_path, "engine: {runtime: process}", engine_runtime="bubblewrap")
        assert config.engine_runtime is EngineRuntime.BUBBLEWRAP

    @pytest.mark.parametrize(
        ("text", "message", "hint"),
        [
            ("engne: {}", "engne: there is no such setting", "did you mean engine?"),
            ("engine: {runtim: auto}", "engine.runtim", "did you mean runtime?"),
            ("engine: {zzz: auto}", "engine.zzz", "there is: idleTimeout, images, memory, runtime"),
            ("ingest: {a: {maxretrct: 1}}", "ingest.a.maxretrct", "did you mean maxRetract?"),
            (
                "engine: {runtime: lxc}",
                "auto, docker, podman, bubblewrap, process, got 'lxc'",
                None,
            ),
            ("engine: {memory: lots}", "a size", None),
            ("engine: {memory: [1]}", "wanted one value", None),
            ("ingest: {a: {maxRetract: 2}}", "a share from 0 to 1", None),
            ("ingest: {a: {maxRetract: nan}}", "a share from 0 to 1", None),
            ("ingest: {a: {maxRetract: yes}}", "a share from 0 to 1", None),
            ("ingest: {a: {watermarkLag: 5}}", "a length of time", None),
            ("engine: {idleTimeout: 5}", "a length of time", None),
            ("ingest: {a: {watermarkLag: 99999999999999d}}", "a length of time", None),
            ("ingest: {a_b: {maxRetract: 1}}", "a_b", None),
            ("engine: 5", "engine: wanted names with values", None),
            ("[1, 2]", "wanted names with values", None),
            ("engine: {1: 2}", "wanted names with values", None),
            ("engine: {runtime: 'auto}", r"config-0.yaml:\d+:\d+: not YAML", None),
            ("engine: !!python/object/apply:os.system [ls]", "not YAML", None),
            ("\x00", "not YAML", None),
        ],
    )
    def test_what_is_wrong_is_named(self, tmp_path, text, message, hint):
        with pytest.raises(SettingsError, match=message) as caught:
            self.load(tmp_path, text)
        assert caught.value.hint == hint
        assert "config-0.yaml" in caught.value.message

    def test_unknown_overrides(self, tmp_path):
        with pytest.raises(SettingsError, match="runtimes"):
            self.load(tmp_path, engine_runtimes="auto")
        with pytest.raises(SettingsError, match="motor"):
            self.load(tmp_path, motor_runtime="auto")


class TestRepositories:
    def test_add_get_list_remove(self, tmp_path):
        registry = RepositoryRegistry(tmp_path / "repos")
        assert registry.list() == ()
        added = registry.add(RepoName("Partner"), "https://example.org/odf")
        registry.add(RepoName("backup"), f"file://{tmp_path}/backup/")
        assert added.url == "https://example.org/odf/"
        assert registry.get(RepoName("partner")) == added
        assert [str(repo.name) for repo in registry.list()] == ["backup", "Partner"]
        assert added.dataset_url("account/prices") == "https://example.org/odf/account/prices/"
        registry.remove(RepoName("PARTNER"))
        assert [str(name) for name in registry.names()] == ["backup"]

    def test_the_file_is_the_manifest_of_the_reference(self, tmp_path):
        RepositoryRegistry(tmp_path).add(RepoName("a"), "https://example.org/")
        assert (tmp_path / "a").read_text() == (
            "kind: Repository\nversion: 1\ncontent:\n  url: https://example.org/\n"
        )

    def test_names_are_taken_in_any_case(self, tmp_path):
        registry = RepositoryRegistry(tmp_path)
        registry.add(RepoName("Partner"), "https://example.org/")
        with pytest.raises(ConflictError, match="exists already"):
            registry.add(RepoName("pARTNER"), "https://example.com/")
        assert registry.get(RepoName("partner")).url == "https://example.org/"

    def test_unknown_names_suggest(self, tmp_path):
        registry = RepositoryRegistry(tmp_path)
        registry.add(RepoName("partner"), "https://example.org/")
        for use in (registry.get, registry.remove):
            with pytest.raises(NotFoundError, match="named partnr") as caught:
                use(RepoName("partnr"))
            assert caught.value.hint == "did you mean partner?"

    def test_strays_are_skipped_and_broken_files_named(self, tmp_path):
        registry = RepositoryRegistry(tmp_path)
        (tmp_path / ".partner.swp").write_bytes(b"\0")
        (tmp_path / "a~").write_text("backup")
        assert registry.list() == ()
        (tmp_path / "broken").write_text("kind: Repository\nversion: 1\ncontent: {uri: x}\n")
        with pytest.raises(SettingsError, match=r"content.uri") as caught:
            registry.list()
        assert caught.value.hint == "did you mean url?"
        (tmp_path / "broken").write_text("kind: Repository\nversion: 2\ncontent: {url: x}\n")
        with pytest.raises(SettingsError, match="version 2"):
            registry.get(RepoName("broken"))

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("s3://bucket/x", "s3:// repositories are not supported"),
            ("odf+https://node.example/", "not supported"),
            ("https://user:secret@example.org/", "credentials"),
            ("https://example.org/?token=x", "no query"),
            ("https://example.org/#x", "no fragment"),
            ("https:///x", "no host"),
            ("https://example.org/a b", "blanks"),
            ("https://example.org:99999/", "not a URL"),
            ("file://server/share", "another machine"),
            ("file:///a%00b", "whole path"),
            ("", "not supported"),
        ],
    )
    def test_urls_that_are_refused(self, url, message):
        with pytest.raises(RepositoryUrlError, match=message) as caught:
            parse_repository_url(url)
        assert caught.value.exit_code == 1

    def test_a_folder_may_be_its_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert parse_repository_url("my repo") == f"{tmp_path.as_uri()}/my%20repo/"
        assert parse_repository_url(str(tmp_path)) == f"{tmp_path.as_uri()}/"


class TestRemoteAliases:
    def test_round_trip(self, tmp_path):
        path = tmp_path / "info" / "config"
        assert RemoteAliases.read(path) == RemoteAliases()
        aliases = RemoteAliases().with_pull("repo/name").with_pull("repo/name").with_push("x/y")
        assert aliases == RemoteAliases(("repo/name",), ("x/y",))
        aliases.write(path)
        assert RemoteAliases.read(path) == aliases

    def test_reads_what_the_reference_writes(self, tmp_path):
        path = tmp_path / "config"
        path.write_text(
            "kind: DatasetConfig\nversion: 1\ncontent:\n  pullAliases:\n"
            "  - odf+https://node.example/a/b\n  pushAliases: []\n"
        )
        assert RemoteAliases.read(path) == RemoteAliases(("odf+https://node.example/a/b",), ())
        path.write_text("kind: DatasetConfig\nversion: 1\ncontent: {pullAliases: x}\n")
        with pytest.raises(SettingsError, match="a list"):
            RemoteAliases.read(path)


class TestRunFolders:
    def test_the_name_says_when_who_and_what(self, tmp_path):
        path = make_run_folder(tmp_path / "run", "pull", NOW.astimezone())
        again = make_run_folder(tmp_path / "run", "pull", NOW)
        assert path.name == f"20260102T030405Z-{os.getpid()}-pull"
        assert again.name == f"20260102T030405Z-{os.getpid()}-pull-2"
        assert stat.S_IMODE(path.stat().st_mode) == 0o700

    def test_the_last_ones_are_kept(self, tmp_path):
        dead = 2**22 + 1  # above the largest process number that Linux gives
        for number in range(30):
            (tmp_path / f"202501{number + 1:02}T000000Z-{dead}-pull").mkdir()
        running = tmp_path / f"20240101T000000Z-{os.getpid()}-pull"
        running.mkdir()
        (running / "log").write_text("x")
        (tmp_path / "mine").mkdir()
        new = make_run_folder(tmp_path, "add", NOW)
        left = sorted(path.name for path in tmp_path.iterdir())
        assert running.name in left
        assert "mine" in left
        assert new.name in left
        assert f"20250130T000000Z-{dead}-pull" in left
        assert f"20250101T000000Z-{dead}-pull" not in left
        assert len(left) == KEPT_RUNS + 2

    def test_what_a_killed_run_left_to_waste_goes_and_its_log_stays(self, tmp_path):
        dead = 2**22 + 1
        killed = tmp_path / f"20250101T000000Z-{dead}-ingest"
        running = tmp_path / f"20250102T000000Z-{os.getpid()}-ingest"
        for run in (killed, running):
            (run / SCRATCH).mkdir(parents=True)
            (run / SCRATCH / "spool").write_text("half a gigabyte")
            (run / "error.log").write_text("why")
        make_run_folder(tmp_path, "add", NOW)
        assert [path.name for path in killed.iterdir()] == ["error.log"]
        assert (running / SCRATCH / "spool").is_file()

    def test_odd_commands_are_refused(self, tmp_path):
        with pytest.raises(UsageError):
            make_run_folder(tmp_path, "../x", NOW)

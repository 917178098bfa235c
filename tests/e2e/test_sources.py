"""Sources of every kind, from the manifest to committed rows."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from odf.coordinator.add import ManifestText, add_manifests
from odf.coordinator.consent import ConsentError, Grants
from odf.coordinator.results import AddReport, PullStatus
from odf.errors import BadInputError
from tests.e2e.conftest import Person
from tests.e2e.test_bad_input import refused

pytestmark = pytest.mark.spark

SHORT = "Minted(address,uint256,uint64)"
READ_LINES = {"kind": "NdJson", "schema": ["n INT", "name STRING"]}


def manifest(
    name: str,
    fetch: Mapping[str, object],
    *,
    read: Mapping[str, object] | None = None,
    merge: Mapping[str, object] | None = None,
    preprocess: Mapping[str, object] | None = None,
) -> str:
    source = {
        "kind": "SetPollingSource",
        "fetch": fetch,
        "read": read or READ_LINES,
        "merge": merge or {"kind": "Append"},
    }
    if preprocess is not None:
        source["preprocess"] = preprocess
    content = {"name": name, "kind": "Root", "metadata": [source]}
    return json.dumps({"kind": "DatasetSnapshot", "version": 1, "content": content})


def add(person: Person, text: str, grants: Grants | None = None) -> AddReport:
    with person.context("add") as ctx:
        return add_manifests(ctx, [ManifestText("manifest.yaml", text)], grants)


def with_variables(person: Person, **variables: str) -> None:
    person.settings = replace(person.settings, variables=variables)


def rows(person: Person, name: str) -> Mapping[str, list[object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from odf.repo.files import slice_paths

    dataset = person.workspace.resolve(name).dataset
    table: pa.Table = pa.concat_tables([pq.read_table(path) for path in slice_paths(dataset)])
    return table.to_pydict()


class TestEthereumLogs:
    @pytest.fixture(autouse=True)
    def _package(self) -> None:
        pytest.importorskip("eth_abi", reason="the extra `ethereum` is not installed")

    def test_logs_become_rows(self, person: Person) -> None:
        from tests.ingest.fetch.chains import CHAIN, run_chain

        signature = "Minted(address indexed to, uint256 amount, uint64 time)"
        with run_chain() as chain:
            contract = chain.contract(2)
            fetch = {
                "kind": "EthereumLogs",
                "chainId": CHAIN,
                "nodeUrl": chain.url,
                "filter": f"address = X'{contract[2:]}' and block_number > 0",
                "signature": signature,
            }
            preprocess = {
                "kind": "Sql",
                "engine": "datafusion",
                "query": "select to_timestamp_seconds(cast(event.time as bigint)) as event_time, "
                "block_number, log_index, address, event.to as holder, event.amount as amount "
                "from input",
            }
            text = manifest("minted", fetch, read={"kind": "Parquet"}, preprocess=preprocess)
            add(person, text)
            topic = bytes.fromhex(chain.call("web3_sha3", f"0x{SHORT.encode().hex()}")[2:])
            assert person.pull("minted").status is PullStatus.UP_TO_DATE
            for number in (1, 2):
                words = (2**200 + number, 1_700_000_000 + number)
                data = b"".join(word.to_bytes(32, "big") for word in words)
                chain.log(contract, [topic, bytes(12) + b"h" * 20], data)
            assert dict(person.pull("minted").records) == {"+A": 2}
            found = rows(person, "minted")
            assert found["amount"] == [str(2**200 + 1), str(2**200 + 2)]
            assert found["holder"] == [b"h" * 20] * 2
            assert found["block_number"] == [2, 3]
            assert [time.timestamp() for time in found["event_time"]] == [  # type: ignore[attr-defined]
                1_700_000_001,
                1_700_000_002,
            ]
            assert person.pull("minted").status is PullStatus.UP_TO_DATE
            assert person.verify("minted").datasets[0].valid

    def test_a_reorganised_chain_is_read_again_and_nothing_is_lost(self, person: Person) -> None:
        from tests.ingest.fetch.chains import CHAIN, run_chain

        with run_chain() as chain:
            contract = chain.contract(1)
            fetch = {
                "kind": "EthereumLogs",
                "chainId": CHAIN,
                "nodeUrl": chain.url,
                "filter": f"address = X'{contract[2:]}'",
            }
            merge = {"kind": "Ledger", "primaryKey": ["transaction_hash", "log_index"]}
            add(person, manifest("logs", fetch, read={"kind": "Parquet"}, merge=merge))
            topic = b"t" * 32
            chain.log(contract, [topic], b"1")
            assert dict(person.pull("logs").records) == {"+A": 1}
            before = chain.call("evm_snapshot")
            chain.log(contract, [topic], b"2")
            assert dict(person.pull("logs").records) == {"+A": 1}
            chain.call("evm_revert", before)
            chain.log(contract, [topic], b"3")
            chain.log(contract, [topic], b"4")

            with refused(person, BadInputError, "re-organised", 1) as found:
                person.pull("logs")
            assert "odf pull --reread-reorganised" in (found.value.hint or "")
            result = person.pull("logs", reread_reorganised=True)
            assert dict(result.records) == {"+A": 2}
            assert any("rows that came from those" in text for text in result.warnings)
            assert rows(person, "logs")["data"] == [b"1", b"2", b"3", b"4"]
            assert person.pull("logs").status is PullStatus.UP_TO_DATE
            assert person.verify("logs").datasets[0].valid

    def test_raw_logs_without_a_query(self, person: Person) -> None:
        from tests.ingest.fetch.chains import run_chain

        with run_chain() as chain:
            chain.log(chain.contract(1), [b"t" * 32], b"data")
            fetch = {"kind": "EthereumLogs", "nodeUrl": chain.url}
            merge = {"kind": "Ledger", "primaryKey": ["block_number", "log_index"]}
            add(person, manifest("logs", fetch, read={"kind": "Parquet"}, merge=merge))
            assert dict(person.pull("logs").records) == {"+A": 1}
            found = rows(person, "logs")
            assert (found["topic0"], found["topic1"]) == ([b"t" * 32], [None])
            assert found["data"] == [b"data"]


class TestMqtt:
    @pytest.fixture(autouse=True)
    def _package(self) -> None:
        pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")

    def test_messages_become_rows(self, person: Person, tmp_path: Path) -> None:
        from tests.ingest.fetch.brokers import run_broker

        with run_broker(tmp_path / "broker") as broker:
            fetch = {
                "kind": "Mqtt",
                "host": "127.0.0.1",
                "port": broker.port,
                "password": "${{ env.MQTT_PASS || 'none' }}",
                "username": "ann",
                "topics": [{"path": "a/#", "qos": "AtLeastOnce"}],
            }
            with pytest.raises(ConsentError, match="reads MQTT_PASS"):
                add(person, manifest("messages", fetch))
            add(person, manifest("messages", fetch), Grants(environment=frozenset({"MQTT_PASS"})))
            assert person.pull("messages").status is PullStatus.UP_TO_DATE
            broker.publish("a/b", b'{\n  "n": 1,\n  "name": "x"\n}', b'{"n": 2, "name": "y"}')
            result = person.pull("messages")
            assert (dict(result.records), result.reason) == ({"+A": 2}, None)
            assert rows(person, "messages")["name"] == ["x", "y"]
            assert person.pull("messages").status is PullStatus.UP_TO_DATE

    def test_a_message_that_cannot_be_read_holds_the_others_back(
        self, person: Person, tmp_path: Path
    ) -> None:
        """Nothing is committed, nothing acknowledged; all of it comes with a read step that can."""
        from tests.ingest.fetch.brokers import run_broker

        with run_broker(tmp_path / "broker") as broker:
            topics = [{"path": "a/#", "qos": "ExactlyOnce"}]
            fetch = {"kind": "Mqtt", "host": "127.0.0.1", "port": broker.port, "topics": topics}
            add(person, manifest("messages", fetch))
            person.pull("messages")
            broker.publish("a/b", b'{"n": 1, "name": "x"}', b'{"n": "one", "name": "y"}')
            head = person.workspace.resolve("messages").dataset.head()
            for _ in range(2):
                with pytest.raises(BadInputError, match="n"):
                    person.pull("messages")
            assert person.workspace.resolve("messages").dataset.head() == head
            fixed = manifest("messages", fetch, read={"kind": "NdJson", "schema": ["n STRING"]})
            with person.context("add") as ctx:
                from odf.coordinator.add import AddOptions, Existing

                text = ManifestText("manifest.yaml", fixed)
                add_manifests(ctx, [text], options=AddOptions(existing=Existing.UPDATE))
            assert dict(person.pull("messages").records) == {"+A": 2}
            assert rows(person, "messages")["n"] == ["1", "one"]


class TestFilesGlob:
    def test_late_files_are_told_of_and_taken_when_asked_for(self, person: Person) -> None:
        (person.root / "in").mkdir()
        add(person, manifest("files", {"kind": "FilesGlob", "path": "in/*.json"}))

        def write(name: str, number: int) -> None:
            (person.root / "in" / name).write_text(json.dumps({"n": number, "name": name}))

        write("b.json", 2)
        assert dict(person.pull("files").records) == {"+A": 1}
        write("a.json", 1)
        told = person.pull("files")
        assert told.status is PullStatus.UP_TO_DATE
        assert "a.json came after its turn" in told.warnings[0]
        assert "--take-late-files" in told.warnings[0]
        write("c.json", 3)
        result = person.pull("files", take_late=True)
        assert dict(result.records) == {"+A": 2}
        assert result.warnings == ()
        assert rows(person, "files")["n"] == [2, 1, 3]
        again = person.pull("files", take_late=True)
        assert (again.status, again.warnings) == (PullStatus.UP_TO_DATE, ())


class TestFtp:
    def test_a_file_that_changes(self, person: Person, tmp_path: Path) -> None:
        from tests.ingest.fetch.ftp_server import AT, Ftp

        server = Ftp(tmp_path / "ftp")
        try:
            fetch = {"kind": "Url", "url": server.url("lines.json", "ann:${{ env.PASS }}@")}
            with pytest.raises(ConsentError, match="reads PASS"):
                add(person, manifest("lines", fetch))
            add(person, manifest("lines", fetch), Grants(environment=frozenset({"PASS"})))
            with_variables(person, PASS="S3cr%20et%40")
            server.write("lines.json", b'{"n": 1, "name": "x"}\n')
            assert dict(person.pull("lines").records) == {"+A": 1}
            assert person.pull("lines").status is PullStatus.UP_TO_DATE
            server.write("lines.json", b'{"n": 2, "name": "y"}\n', AT + 60)
            assert dict(person.pull("lines").records) == {"+A": 1}
            assert rows(person, "lines")["n"] == [1, 2]
        finally:
            server.close()


class TestContainer:
    BATCHES = """
at=${ODF_ETAG:-0}
[ "$at" = 9 ] && { printf 9 > "$ODF_NEW_ETAG_PATH"; exit 0; }
end=$((at + 3))
[ "$end" = 9 ] || : > "$ODF_NEW_HAS_MORE_DATA_PATH"
[ "$HEADER" = yes ] && echo n,name
for n in $(seq $((at + 1)) $end); do echo "$n,name $n"; done
printf %s "$end" > "$ODF_NEW_ETAG_PATH"
"""

    def fetch(self, person: Person) -> dict[str, object]:
        from tests.ingest.fetch.images import make_image

        image = make_image("docker")
        person.settings = replace(person.settings, runtime="auto")
        return {
            "kind": "Container",
            "image": image,
            "command": ["/bin/sh", "-c"],
            "args": [self.BATCHES],
            "env": [{"name": "HEADER", "value": "yes"}],
        }

    def test_batches_are_commits_of_their_own(self, person: Person) -> None:
        fetch = self.fetch(person)
        read = {"kind": "Csv", "header": True, "schema": ["n INT", "name STRING"]}
        text = manifest("counted", fetch, read=read)
        with pytest.raises(ConsentError, match="runs container run") as refused:
            add(person, text)
        assert "--allow-commands" in (refused.value.hint or "")
        add(person, text, Grants(commands=True))
        result = person.pull("counted")
        assert dict(result.records) == {"+A": 9}
        assert person.workspace.resolve("counted").dataset.state().num_slices == 3
        assert rows(person, "counted")["n"] == list(range(1, 10))
        assert person.pull("counted").status is PullStatus.UP_TO_DATE

    def test_batches_of_a_snapshot_are_one(self, person: Person) -> None:
        read = {"kind": "Csv", "header": True, "schema": ["n INT", "name STRING"]}
        merge = {"kind": "Snapshot", "primaryKey": ["n"]}
        text = manifest("counted", self.fetch(person), read=read, merge=merge)
        add(person, text, Grants(commands=True))
        assert dict(person.pull("counted").records) == {"+A": 9}
        assert person.workspace.resolve("counted").dataset.state().num_slices == 1
        assert person.pull("counted").status is PullStatus.UP_TO_DATE

    def test_another_argument_needs_another_consent(self, person: Person) -> None:
        fetch = self.fetch(person)
        add(person, manifest("counted", fetch), Grants(commands=True))
        from odf.coordinator.add import AddOptions, Existing

        changed = manifest("counted", fetch | {"args": ["exit 0"]})
        text = ManifestText("manifest.yaml", changed)
        options = AddOptions(existing=Existing.UPDATE)
        with person.context("add") as ctx, pytest.raises(ConsentError):
            add_manifests(ctx, [text], options=options)

"""`speed` as real processes: what it prints, and the status it ends with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import speed
from speed import generate_key
from speed.cli.app import FORMER
from speed.cli.options import own_family
from speed.journal.volume_writer import Incoming
from speed.journal.writer import JournalWriter
from speed.message.writing import encode_message
from speed.wire import names
from speed.wire.journal import Subject
from speed.wire.records import ContentType
from speed.wire.value import Content
from tests.system.commands import PATIENCE, Command

pytestmark = pytest.mark.system


@pytest.fixture
def billing(run: Command) -> Iterator[speed.Node]:
    key = run.root / "speed.key"
    with speed.Node("billing", root=run.root, key=key, fabrics=["finance"], allow=["cli.*", "asker"]) as node:

        @node.service("tax")
        def tax(amount: float, rate: float = 0.25) -> float:
            return amount * rate

        @node.service("fail")
        def fail() -> None:
            raise ValueError("no such customer")

        @node.service("raw")
        def raw() -> bytes:
            return b"\x00\x01"

        yield node


def test_init_prepares_a_private_root_and_keeps_it_the_second_time(run: Command) -> None:
    assert (run.root.stat().st_mode & 0o777, (run.root / "speed.key").stat().st_mode & 0o777) == (0o700, 0o600)
    again = run("root", "init", "--json")
    assert (again.status, again.value["madeKey"]) == (0, False)
    assert "SPEED-KEY" not in again.out


def test_init_takes_its_root_as_an_argument_or_an_option(run: Command, tmp_path: Path) -> None:
    root = str(tmp_path / "other")
    assert run("root", "init", root, "--json").value["root"] == root
    assert run("--root", root, "root", "init", "--json").value["madeKey"] is False
    twice = run("root", "init", root, "--root", root)
    assert (twice.status, "give the root once" in twice.err) == (2, True)


def test_a_root_given_after_a_command_goes_before_one_given_ahead_of_it(run: Command, tmp_path: Path) -> None:
    root = str(tmp_path / "other")
    assert run("--root", str(tmp_path / "none"), "root", "init", "--root", root, "--json").value["root"] == root


@pytest.mark.parametrize(
    "words", [("init", "--json"), ("gc", "--dry-run"), ("purge", "../outside", "--yes"), ("message-key", "algorithms")]
)
def test_a_command_prints_and_ends_alike_under_its_former_name(run: Command, words: tuple[str, ...]) -> None:
    former, now = run(*words), run(*FORMER[words[0]].split(), *words[1:])
    assert (former.status, former.out, former.err) == (now.status, now.out, now.err)


def test_keys_are_made_identified_and_rotated_without_being_shown(run: Command, tmp_path: Path) -> None:
    file = str(tmp_path / "new.key")
    first = run("key", "new", file, "--json").value
    assert run("key", "new", file).status == 3
    added = run("key", "rotate", file, "--step", "add", "--json").value
    promoted = run("key", "rotate", file, "--step", "promote", "--json").value
    retired = run("key", "rotate", file, "--step", "retire", "--json").value
    assert added["keyId"] == first["keyId"]
    assert promoted["keyId"] != first["keyId"]
    assert promoted["accepted"] == added["accepted"][::-1]
    assert retired["accepted"] == [promoted["keyId"]] == [run("key", "id", file, "--json").value["keyId"]]
    secrets = (tmp_path / "new.key").read_text().splitlines()[2:]
    assert not any(secret in str(first) for secret in secrets)


def test_nodes_are_listed_with_their_fabrics(run: Command, billing: speed.Node) -> None:
    assert [node["name"] for node in run("nodes", "--json").value] == ["billing"]
    assert run("nodes", "--fabric", "none", "--json").value == []
    assert "finance" in run("nodes", "--fabric", "finance").out


def test_who_is_excepted_from_a_grant_is_shown_beside_it(run: Command) -> None:
    with speed.Node("billing", root=run.root, allow=["etl.*"]) as node:
        node.deny("etl.7")
        assert [(one["allow"], one["deny"]) for one in run("nodes", "--json").value] == [(["etl.*"], ["etl.7"])]
        assert "but not" in run("nodes").out


def test_a_node_that_is_starting_is_shown_so(run: Command) -> None:
    with speed.Node("billing", root=run.root, starting=True):
        assert [node["status"] for node in run("nodes", "--json").value] == ["starting"]
        assert "starting" in run("nodes").out


def test_watching_prints_a_line_for_each_change(run: Command) -> None:
    watching = run.begin("nodes", "--watch", "--json")
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline()) == []
        with speed.Node("late", root=run.root, key=run.root / "speed.key"):
            assert [node["name"] for node in json.loads(watching.stdout.readline())] == ["late"]
        assert json.loads(watching.stdout.readline()) == []
    finally:
        watching.kill()
        watching.communicate()


def test_watching_into_a_file_writes_a_table_for_each_change(run: Command) -> None:
    watching = run.begin("nodes", "--watch")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "No live nodes.\n"
        with speed.Node("late", root=run.root, key=run.root / "speed.key"):
            lines = iter(watching.stdout.readline, "")
            assert next(line for line in lines if line.startswith(" late "))
    finally:
        watching.kill()
        watching.communicate()


def test_a_listing_as_json_imports_neither_rich_nor_the_runtime(run: Command) -> None:
    code = (
        "import sys; sys.argv[1:] = ['nodes', '--json']\n"
        "try:\n    from speed.cli import main; main()\nexcept SystemExit: pass\n"
        "slow = ('rich', 'speed.engine', 'cryptography', 'watchdog', 'google.protobuf')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=run.environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_call_prints_the_items_of_a_stream_and_shows_progress(run: Command, billing: speed.Node) -> None:
    @billing.service("rows")
    def rows(request: speed.Request, count: int) -> Iterator[dict[str, int]]:
        for number in range(count):
            yield {"number": number}
        request.progress(count, count, "read\x1b[31m")

    done = run("call", "billing", "rows", "count=3", "--stream", "--progress")
    assert done.out == '{"number": 0}\n{"number": 1}\n{"number": 2}\n'
    assert "100%" in done.err
    assert "\x1b" not in done.err
    assert "--stream" not in done.out
    assert run("call", "billing", "rows", "count=3").status == 7


def test_services_stats_and_ping_ask_the_node(run: Command, billing: speed.Node) -> None:
    assert run("services", "billing", "--json").value["services"] == ["fail", "raw", "tax"]
    assert run("call", "billing", "tax", "amount=8").out == "2.0\n"
    assert run("stats", "billing", "--json").value["services"]["tax"]["numRequests"] == 1
    assert "tax" in run("stats", "billing").out
    assert len(run("ping", "billing", "-n", "2", "--json").value["seconds"]) == 2


def test_a_call_takes_arguments_as_words_from_a_file_and_from_stdin(
    run: Command, billing: speed.Node, tmp_path: Path
) -> None:
    file = tmp_path / "arguments.json"
    file.write_text('{"amount": 10, "rate": 0.5}')
    assert run("call", "billing", "tax", "--json-args", str(file)).out == "5.0\n"
    assert run("call", "billing", "tax", "--json-args", str(file), "rate=1.0").out == "10.0\n"
    assert run("call", "billing", "tax", "--json-args", "-", text='{"amount": 4}').out == "1.0\n"
    assert run("call", "billing", "raw", "--json").value == "AAE="


@pytest.mark.parametrize(
    ("words", "status", "code"),
    [
        (("call", "billing", "tax", "amount=text"), 7, "INVALID_ARGUMENTS"),
        (("call", "billing", "none"), 7, "SERVICE_NOT_FOUND"),
        (("call", "billing", "fail"), 7, "EXECUTION_FAILED"),
        (("call", "nobody", "tax"), 4, "UNKNOWN_NODE"),
        (("call", "billing", "tax", "--as", "stranger"), 5, "ACCESS_DENIED"),
        (("call", "billing", "tax", "--as", "billing"), 3, "NAME_TAKEN"),
        (("call", "billing", "tax", "--as", "a/b"), 3, "INVALID_NAME"),
        (("call", "billing", "tax", "amount"), 2, "USAGE"),
        (("nodes", "--key", "/nonexistent/key"), 3, "KEY_FILE"),
        (("nodes", "--root", "/nonexistent/root"), 3, "ROOT"),
        (("frobnicate",), 2, "USAGE"),
    ],
)
def test_each_failure_has_its_status_and_one_line_that_says_so(
    run: Command, billing: speed.Node, words: tuple[str, ...], status: int, code: str
) -> None:
    failed = run(*words)
    assert (failed.status, failed.out) == (status, "")
    assert len(failed.err.splitlines()) == 1
    assert failed.err.startswith(f"speed: {code}: ")
    as_json = run(*words, "--json")
    assert (as_json.status, as_json.error["code"]) == (status, code)


def test_a_missing_grant_says_what_the_receiver_must_allow(run: Command) -> None:
    with speed.Node("closed", root=run.root, key=run.root / "speed.key"):
        assert "allow('cli.*')" in run("call", "closed", "tax").err


def test_messages_travel_from_send_to_listen(run: Command) -> None:
    listening = run.begin("listen", "--as", "ear", "--allow", "mouth", "-n", "2", "--json")
    assert listening.stderr is not None
    assert "ear" in listening.stderr.readline()
    assert run("send", "ear", '{"n": 1}', "--as", "mouth", "--ack").status == 0
    assert run("send", "ear", "-", "--as", "mouth", "--json", text="plain text").value["acknowledged"] is False
    out, _ = listening.communicate(timeout=PATIENCE)
    messages = [json.loads(line) for line in out.splitlines()]
    assert [message["payload"] for message in messages] == [{"n": 1}, "plain text"]
    assert {message["source"] for message in messages} == {"mouth"}


@pytest.mark.parametrize("command", ["listen", "subscribe"])
def test_what_a_given_key_opens_is_shown_and_what_none_opens_is_named(
    run: Command, tmp_path: Path, command: str
) -> None:
    reader, stranger = (generate_key(name, "x25519-chacha20-poly1305") for name in ("readers.1", "strangers.1"))
    (tmp_path / "readers.key").write_text(json.dumps([reader.to_record()]))
    (tmp_path / "readers.key").chmod(0o600)
    settings = tmp_path / "encryption.toml"
    settings.write_text(
        '[encryption]\nenabled = true\ntype = "asymmetric"\nalgorithm = "x25519-chacha20-poly1305"\n'
        f'key_ref = "file://{tmp_path}/readers.key"\n'
    )
    words = ["listen"] if command == "listen" else ["subscribe", "orders"]
    opened = run.begin(*words, "--as", "ear", "--allow", "mouth", "-n", "2", "--json", "--encryption", str(settings))
    closed = run.begin(*words, "--as", "wall", "--allow", "mouth", "-n", "2", "--json")
    for one in (opened, closed):
        assert one.stderr is not None
        assert any(line.startswith("Listening as") for line in one.stderr)  # behind a warning of the algorithm
    keys = speed.KeyStore({"readers": reader.public_part(), "strangers": stranger.public_part()})
    options = speed.PublishOptions(encrypt_to=("readers",), compression="gzip")
    plain = speed.PublishOptions(compression="gzip")
    with speed.Node(
        "mouth", root=run.root, key=run.root / "speed.key", security=speed.MessageSecurity(keys=keys)
    ) as mouth:
        for target in ("ear", "wall"):
            mouth.wait_for(target)
            if command == "listen":
                mouth.send(target, {"card": "4111"}, options=options)
                mouth.send(target, {"n": 1}, options=plain)
        if command == "subscribe":
            mouth.publish("orders", {"card": "4111"}, options=options)
            mouth.publish("orders", {"n": 1}, options=plain)
        shown, named = (
            [json.loads(line)["payload"] for line in one.communicate(timeout=PATIENCE)[0].splitlines()]
            for one in (opened, closed)
        )
    assert shown == [{"card": "4111"}, {"n": 1}]
    assert "encrypted for readers.1" in named[0]
    assert named[1] == {"n": 1}


def test_listen_masks_personal_fields_of_avro_and_goes_on_behind_an_unknown_protobuf_type(
    run: Command, tmp_path: Path
) -> None:
    """M-28."""
    fields = [{"name": "id", "type": "int"}, {"name": "card", "type": "string", "pii": True}]
    (tmp_path / "Order").mkdir()
    (tmp_path / "Order" / "v1.avsc").write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}))
    words = ("listen", "--as", "ear", "--allow", "mouth", "-n", "5", "--json", "--schemas", str(tmp_path))
    listening = run.begin(*words)
    assert listening.stderr is not None
    listening.stderr.readline()
    security = speed.MessageSecurity(schemas=speed.SchemaRegistry(tmp_path))
    with speed.Node("mouth", root=run.root, key=run.root / "speed.key", security=security) as mouth:
        avro = speed.PublishOptions(schema="Order", content_type="application/avro")
        mouth.send("ear", b"\x02\x084111", options=avro)
        unknown = Content(ContentType.PROTOBUF, None, "type.googleapis.com/shop.Unknown", b"\x0a\xffgarbage")
        for content in (
            unknown,
            Content(ContentType.JSON, None, None, b'{"a": '),
            Content(ContentType.CUSTOM, "text/plain", None, b"\xff"),
        ):
            mouth.send("ear", content)
        mouth.send("ear", "behind")
        out, _ = listening.communicate(timeout=PATIENCE)
    order, garbage, half, text, behind = [json.loads(line)["payload"] for line in out.splitlines()]
    assert order == {"id": 1, "card": "***"}
    assert "shop.Unknown" in garbage
    assert "garbage" not in garbage
    assert "cannot be shown" in half
    assert "cannot be shown" in text
    assert behind == "behind"


@pytest.mark.parametrize("megabytes", [1, 70])
def test_files_of_any_size_are_sent_with_a_bar(run: Command, tmp_path: Path, megabytes: int) -> None:
    """G-18, G-20."""
    big = tmp_path / "big"
    big.write_bytes(bytes(megabytes << 20))
    sizes: list[int] = []
    with speed.Node("ear", root=run.root, key=run.root / "speed.key", allow=["mouth"]) as ear:
        ear.on_message(lambda message: sizes.append(len(message.payload)))
        sent = run("send", "ear", "--file", str(big), "--progress", "--ack", "--as", "mouth", "--json")
    assert (sent.status, sent.value["acknowledged"], sizes) == (0, True, [megabytes << 20])
    assert "MB" in sent.err


def test_a_payload_and_a_file_at_once_are_refused(run: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    assert run("send", "ear").status == 2
    assert run("send", "ear", "1", "--file", str(tmp_path / "file")).status == 2


def test_events_travel_from_publish_to_subscribe(run: Command) -> None:
    subscriber = run.begin("subscribe", "orders.*", "--allow", "shop", "-n", "1", "--json")
    assert subscriber.stderr is not None
    subscriber.stderr.readline()
    assert run("publish", "orders.created", "7", "--as", "shop", "--json").value == {
        "topic": "orders.created",
        "nodes": 1,
        "failed": {},
    }
    out, _ = subscriber.communicate(timeout=PATIENCE)
    assert (json.loads(out)["topic"], json.loads(out)["payload"]) == ("orders.created", 7)


def test_a_subscriber_that_does_not_allow_the_publisher_is_named(run: Command) -> None:
    """A-3."""
    with speed.Node("shelf", root=run.root, key=run.root / "speed.key", allow=["shop"]) as shelf:
        shelf.subscribe("orders.*", lambda message: None)
        refused = run("publish", "orders.created", "7", "--as", "stranger")
        assert (refused.status, refused.out) == (5, "Reached 0 nodes.\n")
        assert "ACCESS_DENIED: shelf" in refused.err
        assert run("publish", "orders.created", "7", "--as", "shop").status == 0


def test_handled_is_said_of_what_was_handled(run: Command) -> None:
    """S-11."""
    with speed.Node("shelf", root=run.root, key=run.root / "speed.key", allow=["shop"]) as shelf:
        assert run("send", "shelf", "1", "--as", "shop", "--ack").out.startswith("Accepted, and waits")
        shelf.on_message(lambda message: None)
        assert run("send", "shelf", "2", "--as", "shop", "--ack").out.startswith("Handled: ")


def test_listening_ends_after_a_silence(run: Command) -> None:
    assert run("listen", "--allow", "x", "--for", "0.1").status == 0


def test_commands_of_one_user_reuse_their_names(run: Command, billing: speed.Node) -> None:
    """A name for each process would fill the registry. What is left of one may be removed before anyone looks there."""
    came: list[str] = []
    billing.on_message(lambda message: came.append(message.source))
    for _ in range(3):
        sent = run("send", "billing", "1", "--ack")
        assert sent.status == 0, sent.err
    assert came == [f"{own_family()}.1"] * 3


@pytest.mark.parametrize("what", ["rtt", "pipeline", "oneway", "large"])
def test_each_measurement_runs_between_two_processes(run: Command, what: str) -> None:
    figures = run("bench", what, "-n", "20", "--json")
    assert figures.status == 0, figures.err
    assert figures.value["count"] == 20
    assert any(name.endswith("PerSecond") for name in figures.value)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(run: Command, shell: str) -> None:
    assert "_SPEED_COMPLETE" in run("completion", shell).out


def test_help_documents_the_exit_statuses(run: Command) -> None:
    text = run("--help").out
    assert "Exit status" in text
    assert all(f"  {status}  " in text for status in range(9))


def test_a_journal_is_listed_read_and_verified(run: Command) -> None:
    """J-6: damage ends `verify` with status 1 and says where."""
    subject = Subject("topic", "flights.ua", "producer")
    options = {"topic": "flights.ua", "namespace": "default", "published_at_ms": 1}
    with JournalWriter(names.journal_dir(str(run.root)), run.root / "speed.key") as writer:
        for number in (1, 2, 3):
            message = encode_message({"number": number}, message_id=f"id-{number}", **options)  # type: ignore[arg-type]
            writer.record(subject, [Incoming(number, False, message)])
    (lane,) = run("journal", "list", "--json").value
    assert (lane["kind"], lane["subject"], lane["source"], lane["first"], lane["end"]) == (*subject, 0, 3)
    assert "flights.ua" in run("journal", "list").out
    lines = run("journal", "read", lane["lane"][:8], "--from", "1", "--json").out.splitlines()
    assert [(row["offset"], row["messageId"], row["payload"]) for row in map(json.loads, lines)] == [
        (1, "id-2", {"number": 2}),
        (2, "id-3", {"number": 3}),
    ]
    assert run("journal", "read", "zz").status == 2
    assert run("journal", "verify", "--json").value["damaged"] == 0
    assert not any(
        one["path"].endswith("/journal") for one in run("root", "gc", "--dry-run", "--json").value["leftovers"]
    )
    (segment,) = (run.root / "journal" / lane["lane"]).glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    verified = run("journal", "verify", "--json")
    assert (verified.status, verified.value["damaged"], verified.value["lanes"][0]["records"]) == (1, 1, 2)
    failed = run("journal", "read", lane["lane"], "--json")
    assert (failed.status, failed.error["code"]) == (1, "JOURNAL_DAMAGED")
    assert run("journal", "list", "--directory", str(run.root / "none"), "--json").error["code"] == "JOURNAL"


def test_verify_names_a_lane_that_was_cut_and_one_whose_description_is_damaged(run: Command) -> None:
    """J-2, J-12: and the others are shown all the same."""
    options = {"namespace": "default", "published_at_ms": 1}
    with JournalWriter(names.journal_dir(str(run.root)), run.root / "speed.key") as writer:
        for topic in ("cut", "damaged", "sound"):
            for number in (1, 2):
                message = encode_message(number, message_id=f"id-{number}", topic=topic, **options)  # type: ignore[arg-type]
                writer.record(Subject("topic", topic, "producer"), [Incoming(number, False, message)])
    lanes = {row["subject"]: run.root / "journal" / row["lane"] for row in run("journal", "list", "--json").value}
    (segment,) = lanes["cut"].glob("*.segment")
    segment.write_bytes(segment.read_bytes()[: segment.read_bytes().rfind(b"SPJB")])
    (lanes["damaged"] / "description").write_bytes(b"damaged")
    verified = run("journal", "verify", "--json")
    found = {row["lane"]: row for row in verified.value["lanes"]}
    assert (verified.status, verified.value["damaged"]) == (1, 2)
    assert "was cut: it was written to offset 2, and ends at 1" in found[lanes["cut"].name]["damage"]
    assert found[lanes["cut"].name]["records"] == 1
    assert "description" in found[lanes["damaged"].name]["damage"]
    assert found[lanes["sound"].name] == {"lane": lanes["sound"].name, "records": 2, "damage": ""}
    listed = run("journal", "list")
    assert (listed.status, "sound" in listed.out, lanes["damaged"].name in listed.err) == (0, True, True)
    assert run("journal", "read", lanes["sound"].name).status == 0


def test_a_word_is_read_as_the_service_describes_it_and_else_the_error_says_how_to_quote_it(run: Command) -> None:
    def greet(name: str) -> str:
        return f"hello {name}"

    with speed.Node("greeter", root=run.root, allow=["cli.*"]) as greeter:
        greeter.register("greet", greet)
        assert run("call", "greeter", "greet", "name=5").out == "hello 5\n"
        assert run("call", "greeter", "greet", 'name="5"').out == "hello 5\n"


def test_the_demo_says_how_it_is_used_without_starting_anything() -> None:
    sources = Path(__file__).resolve().parents[2]
    told = subprocess.run(
        ["scripts/demo", "--help"], check=True, cwd=sources, capture_output=True, text=True, timeout=20
    )
    assert "scripts/demo --python-only" in told.stdout
    assert "set -euo" not in told.stdout

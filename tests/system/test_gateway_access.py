"""Who may connect to the gateway: tokens, origins, names of hosts, TLS, configuration; with a real speedd."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from websockets.exceptions import InvalidHandshake
from websockets.frames import Opcode

from tests.interop.harness import until
from tests.system.documents import REPOSITORY
from tests.system.gateways import HEAD, NAMED, Client, GatewaySite, frame, handshaken, path, status
from tests.system.topics import PATIENCE, TopicSite

pytestmark = pytest.mark.system
SECRET = "s" * 32
TOKENS = (
    HEAD
    + """
issuer = "issuer"
audience = "gateway"
max_connections_per_client = 4
origins = ["https://shop.example"]
hosts = ["gateway.example"]
[[token_key]]
id = "shared"
algorithm = "HS256"
file = "shared.key"
[[token_key]]
id = "public"
algorithm = "ES256"
file = "public.pem"
"""
)
PRIVATE = ec.generate_private_key(ec.SECP256R1())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewaySite]:
    path = tmp_path_factory.mktemp("gateway")
    (path / "shared.key").write_text(SECRET + "\n")
    public = PRIVATE.public_key()
    (path / "public.pem").write_bytes(
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with closing(GatewaySite(path, TOKENS)) as site:
        yield site


def token(
    subject: str = "web", seconds: float = 600, *, key: str = SECRET, kid: str = "shared", **claims: object
) -> str:
    said = {"sub": subject, "iss": "issuer", "aud": "gateway", "exp": int(time.time() + seconds), **claims}
    return jwt.encode(said, key, "HS256", {"kid": kid})


def test_a_client_has_the_grants_of_its_tokens_subject(site: GatewaySite) -> None:
    topic = site.topic()
    with site.producer(topic, token=token("shop.7")) as producer:
        assert producer.publish(b"x")["result"] == "ok"
    message = site.node.topic(topic).reader("earliest").receive(timeout=20)
    assert message is not None
    assert message.publisher == "shop.7"
    assert status(lambda: site.consumer(topic, token=token("shop.7")))[0] == 403
    assert status(lambda: site.producer(topic, token=token("stranger")))[0] == 403


def test_a_producers_name_belongs_to_its_tokens_subject(site: GatewaySite) -> None:
    """D-6: nobody takes the name, or spends the sequences, of another client's producer."""
    topic = site.topic()
    far = {"producerName": "till", "initialSequenceId": 2**62}
    with (
        site.producer(topic, token=token("shop.7"), **far) as one,
        site.producer(topic, token=token("web"), producerName="till", initialSequenceId=0) as other,
    ):
        kept = [client.publish(b"x") for client in (one, other)]
    assert [reply["result"] for reply in kept] == ["ok", "ok"]
    assert len({reply["messageId"] for reply in kept}) == 2
    assert site.node.topic(topic).describe()["end"] == 2


def test_the_header_goes_before_the_parameter(site: GatewaySite) -> None:
    topic = site.topic()
    url = f"ws://127.0.0.1:{site.port}/ws/v2/producer/persistent/public/default/{topic}"
    good, bad = {"Authorization": f"Bearer {token()}"}, {"Authorization": "Basic eA=="}
    with Client(url, {"token": "forged"}, additional_headers=good):
        pass
    assert status(lambda: Client(url, {"token": token()}, additional_headers=bad))[0] == 401
    with site.producer(topic, token=f"Bearer {token()}"):
        pass


def test_a_token_that_is_signed_with_a_public_key_is_believed(site: GatewaySite) -> None:
    said = {"sub": "web", "iss": "issuer", "aud": ["gateway"], "exp": int(time.time() + 60)}
    signed = jwt.encode(said, PRIVATE, "ES256", {"kid": "public"})
    with site.producer(site.topic(), token=signed):
        pass


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "x",
        "x" * 3000,
        token(seconds=-100),
        token(key="t" * 32),
        token(kid="unknown"),
        token(kid="public"),
        token(iss="another"),
        token(aud="another"),
        token("not a name"),
        token(exp=None),
        token(exp=-(10**300)),
        jwt.encode({"sub": "web", "iss": "issuer", "aud": "gateway", "exp": 1 << 40}, None, "none", {"kid": "shared"}),
    ],
)
def test_who_has_no_sound_token_learns_nothing(site: GatewaySite, forged: str) -> None:
    for topic in ("secret", "nowhere"):
        assert status(lambda topic=topic: site.producer(topic, token=forged))[0] == 401  # type: ignore[misc]
    assert site.get(f"/metrics?token={forged}")[0] == 401
    assert site.get(f"/admin/v2/clusters?token={forged}")[0] == 401


def test_a_connection_ends_with_its_token(site: GatewaySite) -> None:
    topic = site.topic()
    with site.consumer(topic, token=token(seconds=2)) as consumer:
        assert consumer.code() == 1008
    assert site.node.topic(topic).describe()["end"] == 0


def test_a_token_that_has_just_expired_is_refused(site: GatewaySite) -> None:
    assert status(lambda: site.producer(site.topic(), token=token(seconds=-1)))[0] == 401


def test_nothing_is_kept_that_comes_after_the_token_has_expired(site: GatewaySite) -> None:
    topic, ends = site.topic(), int(time.time() + 2)
    with closing(handshaken(site.port, f"{path('producer', topic)}?token={token(exp=ends)}")) as client:
        sent = in_time = 0
        try:
            while True:
                in_time += time.time() < ends
                client.sendall(frame(Opcode.TEXT, b'{"payload":""}'))
                sent += 1
                time.sleep(0.005)
        except OSError:
            pass
    assert 0 < site.node.topic(topic).describe()["end"] <= in_time < sent


def test_a_token_without_a_near_end_is_taken(site: GatewaySite) -> None:
    with site.consumer(site.topic(), token=token(exp=10**300)):
        pass


def test_connections_are_counted_for_each_subject_too(site: GatewaySite) -> None:
    topic = site.topic()
    url = f"ws://127.0.0.1:{site.port}/ws/v2/producer/persistent/public/default/{topic}"
    connected = []
    try:
        for number in range(4):
            source = {"source_address": (f"127.0.0.{number + 2}", 0)}
            connected.append(Client(url, {"token": token("web")}, **source))
        refused = status(lambda: Client(url, {"token": token("web")}, source_address=("127.0.0.9", 0)))
        assert refused[0] == 429
        with Client(url, {"token": token("shop.1")}, source_address=("127.0.0.9", 0)):
            pass
    finally:
        for one in connected:
            one.close()


def test_health_needs_no_token_and_readiness_says_whether_topics_are_served(site: GatewaySite) -> None:
    assert site.get("/health") == (200, b'{"status":"up"}')
    assert site.get("/ready") == (200, b"true")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "gateway.example:8080"}, 200),
        ({"Host": "LOCALHOST"}, 200),
        ({"Host": "[::1]:8080"}, 200),
        ({"Host": "10.0.0.1"}, 200),
    ],
)
def test_only_known_names_of_this_host_are_answered(site: GatewaySite, headers: dict[str, str], expected: int) -> None:
    assert site.get("/health", **headers)[0] == expected


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [("https://shop.example", True), ("https://evil.example", False), ("null", False), ("", True)],
)
def test_pages_of_other_origins_connect_only_if_they_are_named(
    site: GatewaySite, origin: str, is_allowed: bool
) -> None:
    url = f"ws://127.0.0.1:{site.port}/ws/v2/producer/persistent/public/default/{site.topic()}"
    own = origin or f"http://127.0.0.1:{site.port}"
    if is_allowed:
        Client(url, {"token": token()}, origin=own).close()
    else:
        assert status(lambda: Client(url, {"token": token()}, origin=own))[0] == 403


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/admin/v2/clusters", (200, b'["speed"]')),
        ("/admin/v2/persistent/public/default/inbox/partitions", (200, b'{"partitions":0}')),
        ("/admin/v2/persistent/public/default/secret/partitions", (403, None)),
        ("/admin/v2/persistent/public/default", (404, None)),
        ("/ws/v2/producer/persistent/public/default/inbox", (426, None)),
        ("/", (404, None)),
    ],
)
def test_plain_requests_are_answered_as_far_as_clients_need_it_to_begin(
    site: GatewaySite, path: str, expected: tuple[int, bytes | None]
) -> None:
    code, body = site.get(path, Authorization=f"Bearer {token()}")
    assert code == expected[0]
    assert expected[1] in (None, body)


# --- TLS, and the configuration ---


def certificate(path: Path) -> None:
    """A certificate of 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.datetime.now(datetime.timezone.utc)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    (path / "gateway.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (path / "gateway.key").write_bytes(key.private_bytes(*private))


def test_with_a_certificate_only_tls_is_spoken(tmp_path: Path) -> None:
    certificate(tmp_path)
    with closing(GatewaySite(tmp_path, NAMED + 'certificate = "gateway.pem"\nprivate_key = "gateway.key"\n')) as site:
        topic = site.topic()
        trusting = ssl.create_default_context(cafile=str(tmp_path / "gateway.pem"))
        url = f"wss://127.0.0.1:{site.port}/ws/v2/producer/persistent/public/default/{topic}"
        with Client(url, {}, ssl=trusting, origin=f"https://127.0.0.1:{site.port}") as producer:
            assert producer.publish(b"x")["result"] == "ok"
        with closing(site.raw()) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert not client.recv(1000).startswith(b"HTTP")


def is_served(url: str, trusting: ssl.SSLContext) -> bool:
    try:
        with Client(url, {}, ssl=trusting):
            return True
    except (InvalidHandshake, OSError):
        return False


def test_who_begins_no_tls_takes_few_descriptors_and_not_for_long(tmp_path: Path) -> None:
    certificate(tmp_path)
    tls = 'certificate = "gateway.pem"\nprivate_key = "gateway.key"\nhandshake_seconds = 2\nmax_connections = 8\n'
    with closing(GatewaySite(tmp_path, NAMED + tls)) as site, ExitStack() as stack:
        descriptors = Path(f"/proc/{site.process.pid}/fd")
        before = len(list(descriptors.iterdir()))
        silent = [stack.enter_context(closing(site.raw())) for _ in range(300)]
        assert silent[-1].recv(1) == b""
        assert len(list(descriptors.iterdir())) < before + 100
        assert all(one.recv(1) == b"" for one in silent)
        trusting = ssl.create_default_context(cafile=str(tmp_path / "gateway.pem"))
        url = f"wss://127.0.0.1:{site.port}/ws/pingpong"
        assert until(lambda: is_served(url, trusting), PATIENCE)  # what is closed is counted a little longer


def checked(path: Path, config: str, **environment: str) -> str:
    """What `speedd check` says."""
    (path / "speedd.toml").write_text(config)
    command = [sys.executable, "-m", "speed.daemon", "check", "-c", str(path / "speedd.toml")]
    own = {**os.environ, **environment}
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (NAMED + 'certificate = "no.pem"\nprivate_key = "no.pem"\n', "No such file"),
        (NAMED + 'certificate = "bad.pem"\nprivate_key = "bad.pem"\n', "cannot be used"),
        (TOKENS.replace("shared.key", "no.key"), "cannot be read"),
        (TOKENS.replace("public.pem", "bad.pem"), "no public key"),
    ],
)
def test_files_that_cannot_be_used_are_mistakes(tmp_path: Path, config: str, said: str) -> None:
    (tmp_path / "bad.pem").write_text("nothing")
    (tmp_path / "shared.key").write_text(SECRET)
    assert said in checked(tmp_path, config)


def test_a_library_that_is_missing_is_named_with_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "websockets.py").write_text('raise ImportError("it is not here", name="websockets")')
    said = checked(tmp_path, NAMED, PYTHONPATH=f"{tmp_path}{os.pathsep}{REPOSITORY}")
    assert "[gateway] needs websockets; install speed-ipc[gateway]" in said


def test_a_port_that_is_taken_keeps_speedd_from_starting_and_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with closing(GatewaySite(tmp_path_factory.mktemp("one"))) as site:
        taken = NAMED.replace("port = 0", f"port = {site.port}")
        with pytest.raises(AssertionError, match="cannot listen"):
            GatewaySite(tmp_path_factory.mktemp("other"), taken)


def test_a_reload_takes_grants_over_and_keeps_connections(tmp_path: Path) -> None:
    with closing(GatewaySite(tmp_path)) as site:
        topic = site.topic()
        with site.producer(topic) as producer:
            site.topics.config.write_text(NAMED.replace('publish = ["web", "test"', 'publish = ["test"'))
            site.process.send_signal(signal.SIGHUP)
            assert site.process.stderr is not None
            lines = map(json.loads, site.process.stderr)
            next(line for line in lines if line["event"] == "reloaded")
            assert producer.publish(b"x")["result"] == "send-error:6"


def test_a_reload_opens_the_gateway_anew_where_its_settings_changed(tmp_path: Path) -> None:
    with closing(GatewaySite(tmp_path)) as site:
        topic, before = site.topic(), site.port
        site.topics.config.write_text(NAMED.replace("port = 0", "port = 0\nmax_connections = 7"))
        site.process.send_signal(signal.SIGHUP)
        assert site.process.stderr is not None
        site.port = next(line["port"] for line in map(json.loads, site.process.stderr) if line["event"] == "gateway")
        with site.producer(topic) as producer:
            assert producer.publish(b"x")["result"] == "ok"
        with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", before), 5):
            pass


FAILING = """
import asyncio
from speed.gateway import server

class Failing(server.Gateway):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._stop.wait()
        raise RuntimeError("a defect")

server.Gateway = Failing
from speed.daemon import main
main()
"""
"""A speedd whose gateway fails once it serves."""


def test_a_gateway_that_fails_ends_speedd_so_that_it_is_started_again(tmp_path: Path) -> None:
    site = TopicSite(tmp_path, NAMED.replace("[topics]", "heartbeat_seconds = 0.2\n[topics]", 1))
    ended = subprocess.run(
        [sys.executable, "-c", FAILING, "run", "-c", str(site.config)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 1
    assert '"event": "gateway_ended"' in ended.stderr
    assert "a defect" in ended.stderr

"""Audit lines and tokens: what is told, and what is told to nobody (M-27, M-31)."""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from speed.errors import ConfigurationError, StorageError, WireError
from speed.message import message_pb2
from speed.message.audit import AuditLog, TokenKey, TokenVerifier, check_no_token
from speed.message.errors import TokenError
from speed.message.protect import Protection, TrustedKeys, protect_message, verify
from speed.message.schemas.registry import SchemaRegistry
from speed.message.view import MessageView
from speed.message.writing import with_security
from tests.unit.message.keys import BASE, key

SECRET = bytes(range(32))
VERIFIER = TokenVerifier({"k1": TokenKey("HS256", SECRET)}, audience="speed", issuer="tests")
pb: Any = message_pb2


def token(*, kid: str = "k1", secret: bytes = SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    claims = {"sub": "billing", "team": "payments", "aud": "speed", "iss": "tests", "exp": time.time() + 600, **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(claims, secret, algorithm, headers={"kid": kid})


def message(auth_token: str, **protection: Any) -> bytes:
    data = protect_message({"a": 1}, Protection(**protection), **BASE)
    return with_security(data, pb.SecurityContext(auth_token=auth_token).SerializeToString())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_operation_is_one_line_of_six_fields(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"))
    log.write("decrypt", "BAD_ENCRYPTION", algorithm="x-wing", key_id="k\n1", message_id="m" * 999)
    (line,) = lines(tmp_path / "audit.log")
    assert list(line) == ["time", "operation", "outcome", "algorithm", "key_id", "message_id"]
    assert (line["key_id"], len(line["message_id"])) == ("k\n1", 128)
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600


def test_lines_of_many_threads_are_whole_and_old_files_are_kept_in_number(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), max_bytes=2000, kept=3)

    def write() -> None:
        for number in range(50):
            log.write("sign", "ok", algorithm="ed25519", key_id="k", message_id=str(number))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["audit.log", "audit.log.1", "audit.log.2", "audit.log.3"]
    assert all(lines(path) and path.stat().st_size <= 2000 for path in tmp_path.iterdir())


def test_an_audit_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="audit"):
        AuditLog(str(tmp_path / "link"))
    log = AuditLog(str(tmp_path / "audit.log"))
    log.close()
    with pytest.raises(StorageError, match="nothing was done"):
        log.write("sign", "ok", algorithm="", key_id="", message_id="")
    log.close()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_an_audit_log_is_a_regular_file_and_nothing_else_is_waited_for(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "audit.log")
    with pytest.raises(StorageError, match="nothing was done"):
        AuditLog(str(tmp_path / "audit.log"))


def test_a_line_that_is_cut_off_by_a_full_disk_stands_alone(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"))
    log.write("sign", "ok", message_id="first")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "audit.log").stat().st_size + 10, before[1]))
    try:
        with pytest.raises(StorageError, match="nothing was done"):
            log.write("sign", "ok", message_id="second")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    log.write("sign", "ok", message_id="third")
    first, cut, third = (tmp_path / "audit.log").read_text().splitlines()
    assert (json.loads(first)["message_id"], len(cut), json.loads(third)["message_id"]) == ("first", 10, "third")


def test_an_audit_log_goes_on_once_it_can_be_rotated_again(tmp_path: Path) -> None:
    log = AuditLog(str(tmp_path / "audit.log"), max_bytes=300, kept=1)
    log.write("sign", "ok", message_id="m" * 100)
    (tmp_path / "audit.log.1").mkdir()
    with pytest.raises(StorageError, match="nothing was done"):
        log.write("sign", "ok", message_id="n" * 100)
    (tmp_path / "audit.log.1").rmdir()
    log.write("sign", "ok", message_id="o" * 100)
    assert lines(tmp_path / "audit.log")[-1]["message_id"] == "o" * 100


def test_a_token_becomes_an_identity_and_is_gone() -> None:
    text = token()
    admitted = VERIFIER.admit(message(text))
    view = MessageView(admitted).validate()
    assert (view.publisher_id, view.security.publisher_team) == ("billing", "payments")
    assert text.encode() not in admitted
    assert check_no_token(admitted) is admitted


def test_a_signed_message_keeps_its_signature_and_its_publisher() -> None:
    signer = key("ed25519")
    admitted = VERIFIER.admit(message(token(), sign_with=signer))
    assert verify(MessageView(admitted).validate(), TrustedKeys({signer.id: signer}), "require") is signer
    with pytest.raises(TokenError, match="publisher_id"):
        VERIFIER.admit(message(token(sub="analytics"), sign_with=signer))


@pytest.mark.parametrize(
    "bad",
    [
        {"exp": 1},
        {"exp": None},
        {"aud": "others"},
        {"iss": "others"},
        {"sub": None},
        {"sub": 7},
        {"nbf": 1e12},
        {"kid": "k2"},
        {"secret": bytes(32)},
        {"algorithm": "HS384", "secret": bytes(48)},
    ],
    ids=str,
)
def test_a_token_that_is_not_right_is_refused_and_not_repeated(bad: dict[str, Any]) -> None:
    try:
        text = token(**bad)
    except (TypeError, jwt.PyJWTError):
        text = "a.b.c"
    with pytest.raises(TokenError) as refused:
        VERIFIER.admit(message(text))
    assert text not in str(refused.value)


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "x" * 20000, "é.é.é"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(TokenError):
        VERIFIER.admit(message(text))


def test_a_token_without_a_signature_is_refused() -> None:
    forged = jwt.encode({"sub": "x", "aud": "speed", "iss": "tests", "exp": 9e9}, None, "none", headers={"kid": "k1"})
    with pytest.raises(TokenError):
        VERIFIER.verify(forged)


@pytest.mark.parametrize(("behind", "outcome"), [(b"", "BAD_TOKEN"), (b"\7", "BAD_MESSAGE")])
def test_what_a_gateway_refuses_is_one_line_without_the_token(tmp_path: Path, behind: bytes, outcome: str) -> None:
    """M-27, M-31."""
    audit = AuditLog(str(tmp_path / "audit.log"))
    keys = {"k1": TokenKey("HS256", SECRET)}
    verifier = TokenVerifier(keys, audience="speed", issuer="tests", audit=audit)
    with pytest.raises((TokenError, WireError)):
        verifier.admit(message("a.b.c") + behind)
    (line,) = lines(tmp_path / "audit.log")
    message_id = BASE["message_id"] if outcome == "BAD_TOKEN" else ""
    assert (line["operation"], line["outcome"], line["message_id"]) == ("admit", outcome, message_id)
    assert "a.b.c" not in (tmp_path / "audit.log").read_text()


def test_a_message_with_a_token_is_not_to_be_sent() -> None:
    with pytest.raises(TokenError, match="gateway"):
        check_no_token(message(token()))


def test_a_weak_token_algorithm_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="none"):
        TokenVerifier({"k": TokenKey("none", "")}, audience="a", issuer="i")


@pytest.mark.parametrize("said", [None, False])
def test_a_gateway_marks_personal_data_by_the_schema_whatever_the_publisher_says(
    tmp_path: Path, said: bool | None
) -> None:
    """M-28, M-29."""
    (tmp_path / "Order").mkdir()
    (tmp_path / "Order" / "v1.json").write_text(json.dumps({"properties": {"a": {"x-pii": True}}}))
    schemas = SchemaRegistry(tmp_path)
    gateway = TokenVerifier({"k1": TokenKey("HS256", SECRET)}, audience="speed", issuer="tests", schemas=schemas)
    described = protect_message({"a": 1}, Protection(), schema=schemas.get("Order", "v1").fields, **BASE)
    context = pb.SecurityContext(auth_token=token(), contains_pii=said).SerializeToString()
    assert MessageView(gateway.admit(with_security(described, context))).security.contains_pii
    assert not MessageView(gateway.admit(message(token()))).security.contains_pii

"""Published cases of Wycheproof through our own keys (M-17, M-21); see ``wycheproof/README.md``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from speed.message.algorithms import WRAPPED_KEY_BYTES, algorithm_of
from speed.message.errors import EncryptionError
from speed.message.kem import Wrapped, cipher, unwrap, wrapping_key
from speed.message.keys import MessageKey
from speed.message.signature import holds

HERE = Path(__file__).parent / "wycheproof"
ED25519, X25519 = (json.loads((HERE / f"{name}.json").read_text()) for name in ("ed25519", "x25519"))
IV, CONTEXT = bytes(12), bytes(32)


def name_of(case: dict[str, Any]) -> str:
    return f"{case['tcId']}: {case['comment'] or case['flags'][0]}"


@pytest.mark.parametrize("case", ED25519["tests"], ids=name_of)
def test_ed25519_signatures_are_judged_as_published(case: dict[str, Any]) -> None:
    key = MessageKey("wycheproof", algorithm_of("ed25519"), public=bytes.fromhex(ED25519["pk"]))
    judged = holds(key, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]))
    assert judged is (case["result"] == "valid")


@pytest.mark.parametrize("case", X25519["tests"], ids=name_of)
def test_x25519_secrets_are_those_published_and_zero_is_refused(case: dict[str, Any]) -> None:
    """A data key wrapped under the published secret opens; one under a secret of zeros never does."""
    key = MessageKey("wycheproof", algorithm_of("x25519-chacha20-poly1305"), bytes.fromhex(case["private"]))
    public, shared = bytes.fromhex(case["public"]), bytes.fromhex(case["shared"])
    sealed = cipher("chacha20-poly1305", wrapping_key(key, shared, public, CONTEXT)).encrypt(IV, b"k" * 32, None)
    assert len(sealed) == WRAPPED_KEY_BYTES
    if "ZeroSharedSecret" in case["flags"]:
        with pytest.raises(EncryptionError):
            unwrap(key, Wrapped(public, sealed), IV, CONTEXT)
    else:
        assert unwrap(key, Wrapped(public, sealed), IV, CONTEXT) == b"k" * 32

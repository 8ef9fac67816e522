"""Messages that another language signed or encrypted with the keys of the vectors, opened here (M-16 to M-23)."""

from __future__ import annotations

import json
import subprocess

import pytest

from speed.message.keys import key_of_record
from speed.message.protect import TrustedKeys, open_view, verify
from speed.message.view import MessageView
from tests.interop.languages import CHOSEN, LANGUAGES, ROOT
from tests.vectors import load

KEYS = {record["id"]: key_of_record(record) for record in load("encryption")["keys"]}
TRUSTED = TrustedKeys({record["id"]: key_of_record(record) for record in load("signatures")["trusted"]})
OF_EVERY_BUILD = {"aes-256-gcm-1", "chacha20-poly1305-1", "x25519-chacha20-poly1305-1", "mac-1"}
PRODUCERS = [name for name in ("cpp", "java") if name in CHOSEN]


@pytest.mark.parametrize("language", PRODUCERS)
def test_what_another_language_protected_holds_and_opens_here(language: str) -> None:
    LANGUAGES[language].check_built()
    command = [*LANGUAGES[language].vectors, "protected"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    used = set()
    for line in done.stdout.splitlines():
        made = json.loads(line)
        view = MessageView(bytes.fromhex(made["hex"])).validate()
        signer = verify(view, TRUSTED, "verify")
        opened = open_view(view, KEYS.get)
        assert opened.payload == {"amount": 1000}, made["name"]
        assert made["name"] in (opened.opened_by, signer and signer.id)
        used.add(made["name"])
    assert used >= OF_EVERY_BUILD

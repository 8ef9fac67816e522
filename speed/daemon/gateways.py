"""The gateway of a running speedd; its libraries are loaded only for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from speed.daemon.config import Config
from speed.daemon.hosting import Hosting
from speed.errors import ConfigurationError
from speed.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from speed.gateway.server import Gateway

NAME = "speedd-gateway"


def opened_gateway(settings: GatewaySettings, config: Config, hosting: Hosting) -> Gateway:
    """A gateway that listens. Raises ConfigurationError."""
    from speed.gateway.server import Gateway

    return Gateway(settings, config.token_keys, hosting.host, NAME, lambda: not hosting.is_lost)


def gateway_problems(config: Config) -> Iterator[tuple[str, str]]:
    """What keeps a gateway from starting, and what to do; nothing is listened on."""
    if config.gateway is None:
        return
    try:
        from speed.gateway.held_keys import HeldKeys
        from speed.gateway.server import tls_context
        from speed.gateway.tokens import Guests

        Guests(config.gateway, config.token_keys)
        tls_context(config.gateway)
        HeldKeys(config.gateway.keys)
    except ImportError as error:
        yield f"[gateway] needs {error.name}", "install speed-ipc[gateway]"
    except ConfigurationError as error:
        yield str(error), "correct the setting, or the file"

"""The configuration of docs/howto/bridges.md runs as it stands, against a real Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from speed.messages import connect
from tests.bridges.conftest import WAIT_SECONDS, Servers
from tests.system.documents import blocks
from tests.system.topics import TopicSite

pytestmark = [pytest.mark.system, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
SHOWN = "kafka://127.0.0.1:9092"


def test_the_configuration_of_the_guide_carries_both_ways(servers: Servers, tmp_path: Path) -> None:
    (block,) = [one for one in blocks(ROOT / "docs" / "howto" / "bridges.md") if one.language == "toml"]
    address = servers.get("kafka").address
    text = block.text.replace(SHOWN, address)
    config = text.replace("[node]", '[node]\nroot = "root"\nkey = "speed.key"')
    assert config.count(address) == 2
    site = TopicSite(tmp_path, config)
    try:
        site.start()
        with connect(address, name="bank") as kafka, site.node("shop") as shop:
            orders = shop.topic("orders.made")
            orders.publish(1, properties={"region": "us"})
            orders.publish(2, properties={"region": "uk"})
            with kafka.subscribe("eu.orders.*", group="guide", start="earliest") as made:
                message = made.receive(WAIT_SECONDS)
            assert message is not None
            assert (message.payload, message.source) == (2, "shop")
            kafka.publish("payments.made", {"order": 2})
            with site.node("billing") as billing:
                payments = billing.topic("payments.made").consumer("all", start="earliest")
                paid = payments.receive(WAIT_SECONDS)
                payments.close()
            assert paid is not None
            assert paid.payload == {"order": 2}
    finally:
        site.close()

"""A reader: messages from a place on, without a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from speed.gateway import frames, message_ids
from speed.gateway.connection import BAD_POLICY, Connection, beside
from speed.gateway.counters import Counters
from speed.gateway.limits import HEAVY_SECONDS, LOOK_SECONDS, MOST_AT_ONCE
from speed.gateway.message_ids import MessageId
from speed.gateway.opener import Fate, Opener
from speed.gateway.refusal import RefusedError, refused
from speed.gateway.topics import Topics, set_within
from speed.gateway.window import Window
from speed.topics.subscription import SubscriptionError


class Reader:
    """One reads what the client settles, one sends. ``start`` is ``latest``, ``earliest``, or the message before."""

    def __init__(
        self,
        topics: Topics,
        counters: Counters,
        caller: str,
        topic: str,
        start: str | MessageId,
        window: Window,
        opener: Opener,
    ) -> None:
        self._topics, self._counters = topics, counters
        self._caller, self._topic, self._start = caller, topic, start
        self._window, self._opener = window, opener
        self._place: str | int = "latest"
        """The offset that is sent next."""
        self._wake = asyncio.Event()
        self._is_closing = False

    async def open(self) -> None:
        """Find the place. Raises RefusedError."""
        try:
            if isinstance(self._start, MessageId):
                await self._begin_behind(self._start)
            else:
                self._place = self._start
            rows = (await self._read(1))["messages"]
        except SubscriptionError as error:
            raise refused(error) from None
        if rows:
            self._place = rows[0][0]
        self._topics.listen([self._topic], self._wake)

    async def _begin_behind(self, message: MessageId) -> None:
        lane = (await self._read(1))["lane"]
        if message.ledger != message_ids.ledger_of(lane):
            raise RefusedError(400, "messageId is of another topic, or of one that was made anew")
        self._place = message.entry + 1

    async def run(self, connection: Connection) -> None:
        sending = beside(connection, self._send_all(connection))
        try:
            async for data in connection.frames():
                if not await self._take(connection, data):
                    break
        finally:
            self._is_closing = True
            self._opener.end()
            self._wake.set()
            await sending

    async def close(self) -> None:
        """No longer be told of what is new."""
        self._topics.unlisten([self._topic], self._wake)

    async def _take(self, connection: Connection, data: str | bytes) -> bool:
        """Whether that was a command."""
        try:
            command = frames.read_command(data)
            if command.type == "isEndOfTopic":
                return await connection.tell(frames.END_OF_TOPIC)
            if command.type == "permit":
                self._window.permit(command.permit_messages or 0)
            else:
                self._window.settle(message_ids.read(frames.text_of(command.message_id) or ""))
        except ValueError as error:
            await connection.end(BAD_POLICY, str(error)[:100])
            return False
        self._wake.set()
        return True

    async def _send_all(self, connection: Connection) -> None:
        now = asyncio.get_running_loop().time
        while not self._is_closing:
            self._wake.clear()
            room = 0 if connection.is_heavy else min(self._window.room(now()), MOST_AT_ONCE)
            try:
                answer = await self._read(room) if room > 0 else {"messages": []}
            except SubscriptionError as error:
                await connection.end(BAD_POLICY, f"{error.code}: the topic cannot be read on")
                return
            if not answer["messages"]:
                await set_within(self._wake, HEAVY_SECONDS if connection.is_heavy else LOOK_SECONDS)
            elif not await self._send(connection, answer, now):
                return

    async def _send(self, connection: Connection, answer: Mapping[str, Any], now: Any) -> bool:
        ledger = message_ids.ledger_of(answer["lane"])
        connection.weigh(sum(len(row[3]) for row in answer["messages"]))
        for row in answer["messages"]:
            message = frames.delivery(ledger, row)
            fate = await self._opener.open(self._topic, row, message)
            if self._is_closing:
                return False
            if fate is Fate.TOLD:
                self._window.sent(MessageId(ledger, row[0]), now())
                if not await connection.tell(frames.written(message)):
                    return False
                self._counters.count("gateway_messages_delivered")
            self._place = row[0] + 1
            connection.weigh(-len(row[3]))
        return True

    async def _read(self, most: int) -> dict[str, Any]:
        answer = await self._topics.ask(self._caller, "read", topic=self._topic, start=self._place, most=most)
        if not answer["messages"]:
            self._place = answer["next"]
        return dict(answer)

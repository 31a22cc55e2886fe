"""Connections of the async client: a pool of exclusive ones, or one that many calls share."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from .address import Address
from .deadline import Deadline
from .received import Received
from .wire import EXCHANGE_ERRORS, IDLE_SECONDS, Protocol

T = TypeVar("T")


class Connection(asyncio.Protocol):
    """The server sends nothing unasked: bytes that arrive when all requests are answered close the connection."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._received = Received()
        self._lost = False
        #: Done when bytes arrive, or the connection ends. None if no reader waits.
        self._arrival: asyncio.Future[None] | None = None
        self._unanswered = 0
        #: When it became free, if no call uses it.
        self.free_since = 0.0
        #: Every request on it was answered completely.
        self.clean = True

    @classmethod
    async def open(cls, address: Address, protocol: Protocol) -> Connection:
        name = address.host if address.tls is not None else None
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: cls(protocol), address.host, address.port, ssl=address.tls, server_hostname=name
        )
        try:
            greeting = protocol.greeting()
            if greeting is not None:
                protocol.check_greeting(await connection.exchange(greeting))
        except BaseException:
            connection.close()
            raise
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._unanswered:
            self._feed(data)
        else:
            self.close()

    def eof_received(self) -> None:
        self._lost = True

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        self._feed(b"")

    def _feed(self, data: bytes) -> None:
        self._received.feed(data)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    async def exchange(self, data: bytes) -> Any:
        """Sends a request once and reads its reply."""
        self.clean = False
        self.send(data)
        reply = await self.receive()
        self.clean = self._received.empty and not self._protocol.closes(reply)
        return reply

    def send(self, data: bytes) -> None:
        self._unanswered += 1
        self._transport.write(data)

    async def receive(self) -> Any:
        loop = asyncio.get_running_loop()
        reading = self._protocol.reply(self._received)
        try:
            while True:
                next(reading)
                self._arrival = loop.create_future()
                await self._arrival
        except StopIteration as done:
            self._unanswered -= 1
            return done.value
        finally:
            self._arrival = None

    def usable(self, now: float) -> bool:
        """Whether the server most likely still listens."""
        closed = self._lost or self._transport.is_closing()
        return now - self.free_since < IDLE_SECONDS and not closed

    def close(self) -> None:
        # At once: nothing that matters is left to send, and TLS would wait for the server's good-bye.
        self._transport.abort()


class Pool:
    """A bounded number of connections, each for one call at a time."""

    def __init__(self, address: Address, protocol: Protocol, size: int) -> None:
        self._address, self._protocol, self._size = address, protocol, size
        self._slots = asyncio.Semaphore(size)
        self._free: list[Connection] = []
        self._closed = False

    async def exchange(self, request: Callable[[], bytes], deadline: Deadline) -> Any:
        return await _within(deadline, self._exchange(request))

    async def _exchange(self, request: Callable[[], bytes]) -> Any:
        async with self._slots, self._connection() as connection:
            return await connection.exchange(request())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Connection]:
        connection = self._take() or await Connection.open(self._address, self._protocol)
        try:
            yield connection
        finally:
            connection.free_since = time.monotonic()
            if connection.clean and not self._closed:
                self._free.append(connection)
            else:
                connection.close()

    def _take(self) -> Connection | None:
        now = time.monotonic()
        while self._free:
            connection = self._free.pop()
            if connection.usable(now):
                return connection
            connection.close()
        return None

    def close(self) -> None:
        self._closed = True
        while self._free:
            self._free.pop().close()


class Pipeline:
    """One connection on which many calls wait for their replies, which come in order."""

    def __init__(self, address: Address, protocol: Protocol, size: int) -> None:
        self._address, self._protocol, self._size = address, protocol, size
        self._slots = asyncio.Semaphore(size)
        self._connecting = asyncio.Lock()
        self._connection: _SharedConnection | None = None
        self._closed = False

    async def exchange(self, request: Callable[[], bytes], deadline: Deadline) -> Any:
        connection: _SharedConnection | None = None

        async def exchange() -> Any:
            nonlocal connection
            async with self._slots:
                connection = await self._connected()
                reply = connection.send(request(), deadline)
                if self._closed:
                    connection.retire()
                return await reply

        try:
            return await _within(deadline, exchange())
        except asyncio.TimeoutError:
            if connection is not None:
                # It may hang. Calls before this one still get their replies; new ones use another connection.
                connection.retire()
            raise

    async def _connected(self) -> _SharedConnection:
        async with self._connecting:
            if self._connection is None or not self._connection.usable(self._size):
                self._retire()
                self._connection = _SharedConnection(await Connection.open(self._address, self._protocol))
            return self._connection

    def _retire(self) -> None:
        if self._connection is not None:
            self._connection.retire()
            self._connection = None

    def close(self) -> None:
        self._closed = True
        self._retire()


class _SharedConnection:
    """A connection, and the calls that wait for its replies."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._connection.free_since = time.monotonic()
        self._awaited: deque[tuple[asyncio.Future[Any], Deadline]] = deque()
        self._retired = False
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def usable(self, size: int) -> bool:
        if self._retired or self._reading.done() or len(self._awaited) > size:
            return False
        if not self._awaited:
            return self._connection.usable(time.monotonic())
        # If the oldest call was not answered in time, the connection hangs, even if the caller left before that.
        _, deadline = self._awaited[0]
        return not deadline.is_over()

    def send(self, data: bytes, deadline: Deadline) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        reply.add_done_callback(self._close_if_retired)
        # A call that is cancelled keeps its place: the reply still comes, and is dropped.
        self._awaited.append((reply, deadline))
        self._connection.send(data)
        return reply

    def retire(self) -> None:
        """Takes no more calls; closes when no call waits for a reply any more."""
        self._retired = True
        if self._done():
            self._reading.cancel()
            self._connection.close()

    def _close_if_retired(self, reply: asyncio.Future[Any]) -> None:
        if self._retired:
            self.retire()

    def _done(self) -> bool:
        return all(reply.done() for reply, _ in self._awaited)

    async def _read(self) -> None:
        error: BaseException = EOFError("the server closed the connection")
        try:
            while not (self._retired and self._done()):
                reply = await self._connection.receive()
                if not self._awaited:
                    break
                waiting, _ = self._awaited.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
                self._connection.free_since = time.monotonic()
        except EXCHANGE_ERRORS as broken:
            error = broken
        finally:
            self._connection.close()
            for waiting, _ in self._awaited:
                if not waiting.done():
                    waiting.set_exception(error)


async def _within(deadline: Deadline, work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, deadline.remaining())

"""Connections of the async client: a pool of exclusive ones, or one that many calls share."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from .address import Address
from .deadline import Deadline
from .received import Received
from .wire import EXCHANGE_ERRORS, IDLE_SECONDS, Protocol

T = TypeVar("T")

_CHUNK = 65_536


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, protocol: Protocol) -> None:
        self._reader, self._writer, self._protocol = reader, writer, protocol
        self._received = Received()
        #: When it became free, if no call uses it.
        self.free_since = 0.0
        #: Every request on it was answered completely.
        self.clean = True

    @classmethod
    async def open(cls, address: Address, protocol: Protocol) -> Connection:
        name = address.host if address.tls is not None else None
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=address.tls, server_hostname=name
        )
        connection = cls(reader, writer, protocol)
        try:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            greeting = protocol.greeting()
            if greeting is not None:
                protocol.check_greeting(await connection.exchange(greeting))
        except BaseException:
            connection.close()
            raise
        return connection

    async def exchange(self, data: bytes) -> Any:
        """Sends a request once and reads its reply."""
        self.clean = False
        self._writer.write(data)
        await self._writer.drain()
        reply = await self.receive()
        self.clean = self._received.empty and not self._protocol.closes(reply)
        return reply

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def receive(self) -> Any:
        reading = self._protocol.reply(self._received)
        while True:
            try:
                next(reading)
            except StopIteration as done:
                return done.value
            self._received.feed(await self._reader.read(_CHUNK))

    def usable(self, now: float) -> bool:
        """Whether the server most likely still listens."""
        closed = self._reader.at_eof() or self._writer.is_closing()
        return now - self.free_since < IDLE_SECONDS and not closed

    def close(self) -> None:
        # At once: nothing that matters is left to send, and TLS would wait for the server's good-bye.
        self._writer.transport.abort()


class Pool:
    """A bounded number of connections, each for one call at a time."""

    def __init__(self, address: Address, protocol: Protocol, size: int) -> None:
        self._address, self._protocol, self._size = address, protocol, size
        self._slots = asyncio.Semaphore(size)
        self._free: list[Connection] = []
        self._closed = False

    async def exchange(self, data: bytes, deadline: Deadline) -> Any:
        return await _within(deadline, self._exchange(data))

    async def _exchange(self, data: bytes) -> Any:
        async with self._slots, self._connection() as connection:
            return await connection.exchange(data)

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

    async def exchange(self, data: bytes, deadline: Deadline) -> Any:
        connection: _SharedConnection | None = None

        async def exchange() -> Any:
            nonlocal connection
            async with self._slots:
                connection = await self._connected()
                return await connection.send(data)

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
                self.close()
                self._connection = _SharedConnection(await Connection.open(self._address, self._protocol))
            return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.retire()
            self._connection = None


class _SharedConnection:
    """A connection, and the calls that wait for its replies."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._connection.free_since = time.monotonic()
        self._awaited: deque[asyncio.Future[Any]] = deque()
        self._retired = False
        self._reading = asyncio.get_running_loop().create_task(self._read())

    def usable(self, size: int) -> bool:
        if self._retired or self._reading.done() or len(self._awaited) > size:
            return False
        # One that waits for replies is not idle.
        return bool(self._awaited) or self._connection.usable(time.monotonic())

    def send(self, data: bytes) -> asyncio.Future[Any]:
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        # A call that is cancelled leaves its place: the reply still comes, and is dropped.
        self._awaited.append(reply)
        self._connection.send(data)
        return reply

    def retire(self) -> None:
        """Takes no more calls; closes when no call waits for a reply any more."""
        self._retired = True
        if self._done():
            self._reading.cancel()
            self._connection.close()

    def _done(self) -> bool:
        return all(reply.done() for reply in self._awaited)

    async def _read(self) -> None:
        error: BaseException = EOFError("the server closed the connection")
        try:
            while not (self._retired and self._done()):
                reply = await self._connection.receive()
                if not self._awaited:
                    break
                waiting = self._awaited.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
                self._connection.free_since = time.monotonic()
        except EXCHANGE_ERRORS as broken:
            error = broken
        finally:
            self._connection.close()
            for waiting in self._awaited:
                if not waiting.done():
                    waiting.set_exception(error)


async def _within(deadline: Deadline, work: Awaitable[T]) -> T:
    return await asyncio.wait_for(work, deadline.remaining())

"""Connections of the sync client: a bounded number, each for one call at a time."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .address import Address
from .deadline import Deadline
from .received import Received
from .wire import IDLE_SECONDS, Protocol

_CHUNK = 65_536


class Connection:
    def __init__(self, address: Address, protocol: Protocol, deadline: Deadline) -> None:
        self._protocol = protocol
        self._received = Received()
        #: When it became free, if no call uses it.
        self.free_since = 0.0
        #: Every request on it was answered completely.
        self.clean = True
        sock = socket.create_connection((address.host, address.port), timeout=deadline.remaining())
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.tls is not None:
                sock.settimeout(deadline.remaining())
                sock = address.tls.wrap_socket(sock, server_hostname=address.host)
            self._socket = sock
            greeting = protocol.greeting()
            if greeting is not None:
                protocol.check_greeting(self.exchange(greeting, deadline))
        except BaseException:
            sock.close()
            raise

    def exchange(self, data: bytes, deadline: Deadline) -> Any:
        """Sends a request once and reads its reply."""
        self.clean = False
        self._socket.settimeout(deadline.remaining())
        self._socket.sendall(data)
        reading = self._protocol.reply(self._received)
        while True:
            try:
                next(reading)
            except StopIteration as done:
                reply = done.value
                break
            self._socket.settimeout(deadline.remaining())
            self._received.feed(self._socket.recv(_CHUNK))
        self.clean = self._received.empty and not self._protocol.closes(reply)
        return reply

    def usable(self, now: float) -> bool:
        """Whether the server most likely still listens: it sends nothing unasked, so any input is its good-bye."""
        return now - self.free_since < IDLE_SECONDS and not _has_input(self._socket)

    def close(self) -> None:
        self._socket.close()


class Pool:
    def __init__(self, address: Address, protocol: Protocol, size: int, option: str) -> None:
        """`option` is what the size is called among the options of the client."""
        self._address, self._protocol, self._size, self._option = address, protocol, size, option
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(self._size)
        self._free: list[Connection] = []
        # Last: until then, no thread of a forked process takes the lock, which may be one that the parent holds.
        self._process = os.getpid()

    def _notice_fork(self) -> None:
        if self._process != os.getpid():
            # The parent goes on with the connections.
            self._start()

    def exchange(self, request: Callable[[], bytes], deadline: Deadline) -> Any:
        with self._connection(deadline) as connection:
            return connection.exchange(request(), deadline)

    @contextmanager
    def _connection(self, deadline: Deadline) -> Iterator[Connection]:
        self._notice_fork()
        slots = self._slots
        if not slots.acquire(timeout=deadline.remaining()):
            raise OSError(f"all {self._size} connections were busy; raise `{self._option}`, or ask from fewer threads")
        try:
            connection = self._take() or Connection(self._address, self._protocol, deadline)
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            slots.release()

    def _take(self) -> Connection | None:
        now = time.monotonic()
        while True:
            with self._lock:
                if self._closed:
                    raise RuntimeError("this Waterclock client was closed")
                if not self._free:
                    return None
                connection = self._free.pop()
            if connection.usable(now):
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        connection.free_since = time.monotonic()
        with self._lock:
            keep = connection.clean and not self._closed
            if keep:
                self._free.append(connection)
        if not keep:
            connection.close()

    def close(self) -> None:
        self._notice_fork()
        with self._lock:
            self._closed = True
            connections, self._free = self._free, []
        for connection in connections:
            connection.close()


def _has_input(sock: socket.socket) -> bool:
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(0))
    return bool(select.select([sock], [], [], 0)[0])

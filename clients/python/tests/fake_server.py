"""A server that misbehaves on purpose, and counts what it is asked."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType


def silent(connection: socket.socket) -> None:
    """Reads, and never answers."""
    while connection.recv(65_536):
        pass


def closes(connection: socket.socket) -> None:
    """Reads a request, and closes without an answer."""
    connection.recv(65_536)


def says(*pieces: bytes) -> Callable[[socket.socket], None]:
    """Answers each request with these bytes, in as many writes."""

    def answer(connection: socket.socket) -> None:
        while connection.recv(65_536):
            for piece in pieces:
                connection.sendall(piece)

    return answer


class FakeServer:
    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self.answered = threading.Semaphore(0)

    def __enter__(self) -> FakeServer:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for connection in self._connections:
            connection.close()

    def url(self, transport: str) -> str:
        return f"{'http' if transport == 'http' else 'redis'}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._behave(connection)
        except OSError:
            pass
        connection.close()
        self.answered.release()

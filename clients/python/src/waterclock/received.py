"""Bytes that arrived and were not read yet.

The readers of both protocols are generators over this buffer. They pause when they need more bytes, so threads and
asyncio share them: the owner of the socket feeds the buffer and resumes the reader.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

#: Pauses until more bytes were fed; returns what it read.
Reading = Generator[None, None, T]

#: No answer of the server is longer; the longest is that of 1,024 checks.
MAX_REPLY = 16 * 1024 * 1024
_MAX_LINE = 64 * 1024


class ProtocolError(Exception):
    """The bytes are not what the protocol has here."""


class Received:
    def __init__(self) -> None:
        self._bytes = bytearray()
        self._ended = False

    def feed(self, data: bytes) -> None:
        """Appends what the socket had; no bytes are its end."""
        self._bytes += data
        self._ended = not data

    @property
    def empty(self) -> bool:
        return not self._bytes

    def line(self) -> Reading[bytes]:
        """The bytes in front of the next line break."""
        searched = 0
        while (end := self._bytes.find(b"\r\n", searched)) < 0:
            searched = max(len(self._bytes) - 1, 0)
            if searched > _MAX_LINE:
                raise ProtocolError("a line without an end")
            yield from self._more()
        line = self._take(end)
        self._take(2)
        return line

    def exactly(self, count: int) -> Reading[bytes]:
        if not 0 <= count <= MAX_REPLY:
            raise ProtocolError(f"a length of {count} bytes")
        while len(self._bytes) < count:
            yield from self._more()
        return self._take(count)

    def rest(self) -> Reading[bytes]:
        """Everything up to the end of the connection."""
        while not self._ended:
            if len(self._bytes) > MAX_REPLY:
                raise ProtocolError(f"more than {MAX_REPLY} bytes")
            yield
        return self._take(len(self._bytes))

    def _more(self) -> Reading[None]:
        if self._ended:
            raise EOFError("the server closed the connection")
        yield

    def _take(self, count: int) -> bytes:
        taken = bytes(self._bytes[:count])
        del self._bytes[:count]
        return taken

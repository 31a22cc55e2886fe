"""The Redis protocol: commands as bytes, bytes as replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar, Union

from .address import Address
from .errors import Invalid, Unauthorized, Unavailable, WaterclockError
from .received import ProtocolError, Reading, Received

if TYPE_CHECKING:
    from .calls import Call

T = TypeVar("T")

#: A reply: a number, a text, nothing, an error, or several of these.
Value = Union[int, str, None, "ErrorReply", list["Value"]]

_MAX_ITEMS = 65_536
_MAX_DEPTH = 4


class ErrorReply:
    """What `-ERR …` says."""

    def __init__(self, message: str) -> None:
        self.kind, _, rest = message.partition(" ")
        self.message = rest if self.kind == "ERR" else message

    def to_exception(self) -> WaterclockError:
        if self.kind in ("NOAUTH", "WRONGPASS", "NOPERM"):
            return Unauthorized(self.message)
        if self.kind in ("BUSY", "UNAVAILABLE"):
            return Unavailable(self.message, denied=self.kind == "UNAVAILABLE")
        return Invalid(self.message)


class RespProtocol:
    #: Replies come in the order of the commands, so many calls can share a connection.
    pipelines = True

    def __init__(self, address: Address) -> None:
        self._token = address.token

    def greeting(self) -> bytes | None:
        """What to send on a new connection; its reply goes to `check_greeting`."""
        return None if self._token is None else encode(("AUTH", self._token))

    def check_greeting(self, reply: Value) -> None:
        if isinstance(reply, ErrorReply):
            raise reply.to_exception()

    def encode(self, call: Call[T]) -> bytes:
        if call.command is None:
            raise Invalid(f"{call.only_http}; use an http:// address")
        return encode(call.command)

    def reply(self, received: Received) -> Reading[Value]:
        return read(received)

    def read(self, call: Call[T], reply: Value) -> T:
        if isinstance(reply, ErrorReply):
            raise reply.to_exception()
        return call.from_resp(reply)

    def closes(self, reply: Value) -> bool:
        """Whether the server closes the connection after this reply."""
        return False


def encode(command: Sequence[str]) -> bytes:
    try:
        words = [word.encode() for word in command]
    except UnicodeEncodeError as error:
        raise Invalid(f"{error.object!r} is not valid Unicode; it has half of a surrogate pair") from None
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def read(received: Received, depth: int = 0) -> Reading[Value]:
    line = yield from received.line()
    kind, rest = line[:1], line[1:]
    if kind == b"+":
        return rest.decode(errors="replace")
    if kind == b"-":
        return ErrorReply(rest.decode(errors="replace"))
    if kind == b":":
        return _number(rest)
    if kind == b"$":
        length = _number(rest)
        if length < 0:
            return None
        text = yield from received.exactly(length)
        yield from received.exactly(2)
        return text.decode(errors="replace")
    if kind == b"*":
        count = _number(rest)
        if count < 0:
            return None
        if count > _MAX_ITEMS or depth == _MAX_DEPTH:
            raise ProtocolError(f"an array of {count} replies")
        values: list[Value] = []
        for _ in range(count):
            values.append((yield from read(received, depth + 1)))
        return values
    raise ProtocolError(f"{line[:40]!r}")


def _number(text: bytes) -> int:
    try:
        return int(text)
    except ValueError:
        raise ProtocolError(f"{text[:40]!r} in place of a number") from None

"""HTTP/1.1: calls as bytes, bytes as responses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .address import Address
from .errors import Invalid, Unauthorized, Unavailable, WaterclockError
from .received import MAX_REPLY, ProtocolError, Reading, Received

if TYPE_CHECKING:
    from .calls import Call

T = TypeVar("T")

_MAX_FIELDS = 256


@dataclass(frozen=True)
class Response:
    status: int
    #: By lower-case name; the values of a repeated field are joined.
    fields: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def to_exception(self) -> WaterclockError:
        """The error that a response without a decision stands for."""
        problem: Any
        try:
            problem = self.json()
        except ValueError:
            problem = None
        if not isinstance(problem, dict):
            problem = {}
        message = str(problem.get("detail") or f"the server answered with status {self.status}")
        if self.status in (401, 403):
            return Unauthorized(message)
        if (400 <= self.status < 500 and self.status not in (408, 429)) or self.status == 507:
            return Invalid(message)
        return Unavailable(message, denied="failure" in problem)


class HttpProtocol:
    #: A connection serves one call at a time.
    pipelines = False

    def __init__(self, address: Address) -> None:
        self._prefix = address.prefix
        head = f"Host: {address.authority}\r\nAccept: application/json\r\nUser-Agent: waterclock-python\r\n"
        if address.token is not None:
            head += f"Authorization: Bearer {address.token}\r\n"
        self._fields = head.encode()

    def greeting(self) -> bytes | None:
        return None

    def check_greeting(self, reply: Response) -> None:
        pass

    def encode(self, call: Call[T]) -> bytes:
        body = b"" if call.body is None else json.dumps(call.body).encode()
        request_line = f"{call.method} {self._prefix}{call.path} HTTP/1.1\r\n".encode()
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        return request_line + self._fields + length + body

    def reply(self, received: Received) -> Reading[Response]:
        return read(received)

    def read(self, call: Call[T], reply: Response) -> T:
        return call.from_http(reply)

    def closes(self, reply: Response) -> bool:
        options = reply.fields.get("connection", "").lower()
        return "close" in options or not _has_length(reply.fields)


def read(received: Received) -> Reading[Response]:
    while True:
        status = _status((yield from received.line()))
        fields = yield from _fields(received)
        if status >= 200:
            break
    if status in (204, 304):
        body = b""
    elif "chunked" in fields.get("transfer-encoding", "").lower():
        body = yield from _chunks(received)
    elif "content-length" in fields:
        body = yield from received.exactly(_number(fields["content-length"], 10))
    else:
        body = yield from received.rest()
    return Response(status, fields, body)


def _status(line: bytes) -> int:
    version, _, rest = line.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise ProtocolError(f"{line[:40]!r}")
    return int(rest[:3])


def _fields(received: Received) -> Reading[dict[str, str]]:
    fields: dict[str, str] = {}
    for _ in range(_MAX_FIELDS):
        line = yield from received.line()
        if not line:
            return fields
        name, _, value = line.decode("latin-1").partition(":")
        name, value = name.lower(), value.strip()
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    raise ProtocolError(f"more than {_MAX_FIELDS} header fields")


def _chunks(received: Received) -> Reading[bytes]:
    body = bytearray()
    while True:
        line = yield from received.line()
        size = _number(line.partition(b";")[0].decode("latin-1"), 16)
        if size == 0:
            yield from _fields(received)
            return bytes(body)
        body += yield from received.exactly(size)
        yield from received.exactly(2)
        if len(body) > MAX_REPLY:
            raise ProtocolError(f"a body of more than {MAX_REPLY} bytes")


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ProtocolError(f"{text[:40]!r} in place of a length") from None


def _has_length(fields: dict[str, str]) -> bool:
    return "content-length" in fields or "transfer-encoding" in fields

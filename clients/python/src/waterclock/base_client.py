"""What both clients do around an exchange of bytes: errors become the client's own, and fail modes apply."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

from . import address
from .calls import Call
from .deadline import Deadline
from .errors import Unavailable
from .http_protocol import HttpProtocol
from .received import ProtocolError
from .resp_protocol import RespProtocol
from .wire import Protocol

T = TypeVar("T")

#: What a client does when the server cannot be asked.
OnUnavailable: TypeAlias = Literal["raise", "allow", "refuse"]


class BaseClient:
    def __init__(
        self, url: str, token: str | None, tls: ssl.SSLContext | None, timeout: float, on_unavailable: OnUnavailable
    ) -> None:
        if on_unavailable not in ("raise", "allow", "refuse"):
            raise ValueError(f"on_unavailable is {on_unavailable!r}; write 'raise', 'allow' or 'refuse'")
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; write a number of seconds above 0")
        self._address = address.parse(url, token, tls)
        self._protocol: Protocol
        if self._address.speaks_http:
            self._protocol = HttpProtocol(self._address)
        else:
            self._protocol = RespProtocol(self._address)
        self._timeout = timeout
        self._on_unavailable = on_unavailable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address}>"

    def _deadline(self, call: Call[T]) -> Deadline:
        return Deadline(self._timeout + call.waits)

    def _request(self, call: Call[T], deadline: Deadline) -> Callable[[], bytes]:
        """The bytes to send, made when there is a connection to send them on."""
        data = self._protocol.encode(call)
        shortened = call.shortened
        if shortened is None:
            return lambda: data
        return lambda: self._protocol.encode(shortened(deadline.passed()))

    def _read(self, call: Call[T], reply: Any) -> T:
        try:
            return self._protocol.read(call, reply)
        except (KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"{self._address} answered something that is no answer to this call: {error}") from error

    def _unavailable(self, error: BaseException, deadline: Deadline) -> Unavailable:
        """The error of an exchange that was not completed."""
        if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
            error = deadline.missed()
        if isinstance(error, ProtocolError):
            kind = "HTTP" if self._address.speaks_http else "Redis"
            return Unavailable(f"{self._address} answered {error}; is this the server's {kind} port?")
        if isinstance(error, ssl.SSLCertVerificationError):
            return Unavailable(f"{self._address} has a certificate that is not trusted: {error.verify_message}")
        if isinstance(error, ConnectionRefusedError):
            return Unavailable(f"nothing listens at {self._address}; start the server, or correct the address")
        return Unavailable(f"cannot ask {self._address}: {error}")

    def _fall_back(self, call: Call[T], error: Unavailable) -> T:
        """The answer in place of the server's, if `on_unavailable` wants one."""
        if self._on_unavailable == "raise" or call.fallback is None:
            raise error
        return call.fallback(self._on_unavailable == "allow" and not error.denied)

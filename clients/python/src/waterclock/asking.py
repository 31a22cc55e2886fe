"""What both clients do around an exchange of bytes: errors become the client's own, and fail modes apply."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, Literal, TypeVar

from .address import Address
from .calls import Call
from .deadline import Deadline
from .errors import Unavailable
from .http_protocol import HttpProtocol
from .received import Garbled
from .resp_protocol import RespProtocol

T = TypeVar("T")

Protocol = HttpProtocol | RespProtocol

#: What a client does when the server cannot be asked.
OnUnavailable = Literal["raise", "allow", "refuse"]

#: The server closes connections that are idle for 60 s; the client stops using them before that.
IDLE_SECONDS = 50.0

#: What a broken exchange raises: no connection, a closed one, a missed deadline, bytes of another protocol.
BROKEN = (OSError, EOFError, Garbled, asyncio.TimeoutError)


class Asking:
    """The server's address and the settings of one client."""

    def __init__(self, address: Address, timeout: float, on_unavailable: OnUnavailable) -> None:
        if on_unavailable not in ("raise", "allow", "refuse"):
            raise ValueError(f"on_unavailable is {on_unavailable!r}; write 'raise', 'allow' or 'refuse'")
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout!r}; write a number of seconds above 0")
        self.address = address
        self.protocol: Protocol = HttpProtocol(address) if address.speaks_http else RespProtocol(address)
        self.timeout = timeout
        self.on_unavailable = on_unavailable

    def read(self, call: Call[T], reply: Any) -> T:
        try:
            return self.protocol.read(call, reply)
        except (KeyError, TypeError, ValueError) as error:
            raise Unavailable(f"{self.address} answered something that is no answer to this call: {error}") from error

    def broken(self, error: BaseException, deadline: Deadline) -> Unavailable:
        """The error of an exchange that was not completed."""
        if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
            error = deadline.missed()
        if isinstance(error, Garbled):
            kind = "HTTP" if self.address.speaks_http else "Redis"
            return Unavailable(f"{self.address} answered {error}; is this the server's {kind} port?")
        if isinstance(error, ssl.SSLCertVerificationError):
            return Unavailable(f"{self.address} has a certificate that is not trusted: {error.verify_message}")
        if isinstance(error, ConnectionRefusedError):
            return Unavailable(f"nothing listens at {self.address}; start the server, or correct the address")
        return Unavailable(f"cannot ask {self.address}: {error}")

    def settle(self, call: Call[T], error: Unavailable) -> T:
        """The answer in place of the server's, if the client's `on_unavailable` wants one."""
        if self.on_unavailable == "raise" or call.otherwise is None:
            raise error
        return call.otherwise(self.on_unavailable == "allow" and not error.denied)

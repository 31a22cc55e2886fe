"""What the connections of both clients have in common."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

from .http_protocol import HttpProtocol
from .received import ProtocolError
from .resp_protocol import RespProtocol

Protocol: TypeAlias = HttpProtocol | RespProtocol

#: The server closes connections that are idle for 60 s; the clients stop using them before that.
IDLE_SECONDS = 50.0

#: What an exchange raises: no connection, a closed one, a missed deadline, bytes of another protocol.
EXCHANGE_ERRORS = (OSError, EOFError, ProtocolError, asyncio.TimeoutError)

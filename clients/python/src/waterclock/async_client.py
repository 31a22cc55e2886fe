"""The async client."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import calls
from .async_connections import Pipeline, Pool
from .base_client import BaseClient, OnUnavailable
from .calls import Call, Charge, Factor, Reserved
from .decision import Cost, Decision, Decisions
from .errors import Invalid, Refused, Unavailable
from .reservation import AsyncReservation, Reserving
from .wire import EXCHANGE_ERRORS

T = TypeVar("T")


class AsyncWaterclock(BaseClient):
    """A client for asyncio. Event loops may share one; each has connections of its own.

    The URL says how to ask: `http://HOST:8080` and `https://HOST` by HTTP, `redis://HOST:6380` and
    `rediss://HOST:6380` by the Redis protocol.

    By the Redis protocol, up to `pipelined` calls share one connection; by HTTP, each takes one of `connections`. A
    call takes at most `timeout` seconds, the wait for its place included (`wait`: `within` more, on one of `waiters`
    connections). No call is sent twice. `on_unavailable` says what check, check_all, peek, wait and reserve do when
    the server cannot be asked: "raise" Unavailable, "allow" or "refuse".
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 1.0,
        on_unavailable: OnUnavailable = "raise",
        connections: int = 16,
        pipelined: int = 1024,
        waiters: int = 64,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, tls, timeout, on_unavailable)
        self._sizes = connections, pipelined, waiters
        self._of_loops: dict[asyncio.AbstractEventLoop, _Connections] = {}
        self._loops_lock = threading.Lock()
        self._closed = False

    async def check(
        self, policy: str, key: str, *, cost: Cost | None = None, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """Charges the cost if the policy admits it."""
        return await self._ask(calls.check(Charge(policy, key, cost, tier, factor)))

    async def check_all(self, charges: Iterable[Charge]) -> Decisions:
        """Charges all or nothing, up to 1,024 charges."""
        return await self._ask(calls.check_all(list(charges)))

    async def peek(
        self, policy: str, key: str, *, cost: Cost | None = None, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """What `check` would decide now. Charges nothing."""
        return await self._ask(calls.peek(Charge(policy, key, cost, tier, factor)))

    async def wait(
        self,
        policy: str,
        key: str,
        *,
        within: float,
        cost: Cost | None = None,
        tier: str | None = None,
        factor: Factor | None = None,
    ) -> Decision:
        """Returns when the cost is admitted; refused at once if that takes more than `within` seconds (at most 60)."""
        return await self._ask(calls.wait(Charge(policy, key, cost, tier, factor), within))

    async def refund(
        self, policy: str, key: str, *, cost: Cost = 1, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """Gives units back; answers like a peek right after it."""
        return await self._ask(calls.refund(Charge(policy, key, cost, tier, factor)))

    async def reset(self, policy: str, key: str) -> Decision:
        """Clears what the key has used; answers like a peek right after it."""
        return await self._ask(calls.reset(policy, key))

    async def report(
        self,
        policy: str,
        key: str,
        outcome: Literal["ok", "error"] | None = None,
        *,
        cost: Cost | None = None,
        tier: str | None = None,
        factor: Factor | None = None,
    ) -> Decision:
        """Reports an outcome to an error-rate limit; without one, charges a cost that is known only now, into debt."""
        if outcome is None and cost is None:
            raise Invalid("report needs an outcome or a cost")
        charge = Charge(policy, key, 1 if cost is None else cost, tier, factor)
        return await self._ask(calls.report(charge, outcome))

    def reserve(
        self,
        policy: str,
        key: str,
        *,
        cost: Cost | None = None,
        ttl: float | None = None,
        id: str | None = None,
        on_expiry: Literal["keep", "release"] = "keep",
        tier: str | None = None,
        factor: Factor | None = None,
    ) -> Reserving:
        """Sets an estimate aside for `ttl` seconds (60); raises `Refused` if there is no room.

        Use `async with client.reserve(…) as reservation`, or `reservation = await client.reserve(…)`.
        """
        return Reserving(self._reserve(calls.reserve(Charge(policy, key, cost, tier, factor), ttl, id, on_expiry)))

    async def _reserve(self, call: Call[Reserved]) -> AsyncReservation:
        reserved = await self._ask(call)
        if reserved.id is None and not reserved.decision.allowed:
            raise Refused(reserved.decision)
        return AsyncReservation(self, reserved)

    async def set_override(self, policy: str, key: str, override: Mapping[str, Any]) -> None:
        """Gives a key limits of its own, such as `{"factor": 0.5, "expires_in": "2d"}`. Needs the role `admin`."""
        await self._ask(calls.set_override(policy, key, override))

    async def get_override(self, policy: str, key: str) -> dict[str, Any] | None:
        """The override of a key, if it has one."""
        return await self._ask(calls.get_override(policy, key))

    async def clear_override(self, policy: str, key: str) -> None:
        """Removes the override of a key, if it has one."""
        await self._ask(calls.clear_override(policy, key))

    async def put_policy(self, name: str, definition: Mapping[str, Any]) -> None:
        """Sets a policy at run time, such as `{"limits": ["5/m"]}`. Needs the role `admin`."""
        await self._ask(calls.put_policy(name, definition))

    async def get_policy(self, name: str) -> dict[str, Any] | None:
        """The policy in force, if there is one of this name."""
        return await self._ask(calls.get_policy(name))

    async def delete_policy(self, name: str) -> bool:
        """Deletes a policy that was set at run time; False if there was none."""
        return await self._ask(calls.delete_policy(name))

    async def aclose(self) -> None:
        """Closes the connections of this event loop. Calls that are under way are answered."""
        self._closed = True
        with self._loops_lock:
            connections = self._of_loops.pop(asyncio.get_running_loop(), None)
        if connections is not None:
            connections.calls.close()
            connections.waits.close()

    async def __aenter__(self) -> AsyncWaterclock:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _ask(self, call: Call[T]) -> T:
        deadline = self._deadline(call)
        request = self._request(call, deadline)
        connections = self._of_loops.get(asyncio.get_running_loop()) or self._start()
        chosen = connections.waits if call.waits else connections.calls
        try:
            try:
                reply = await chosen.exchange(request, deadline)
            except EXCHANGE_ERRORS as error:
                raise self._unavailable(error, deadline) from error
            return self._read(call, reply)
        except Unavailable as error:
            return self._fall_back(call, error)

    def _start(self) -> _Connections:
        """Makes what the running event loop needs."""
        if self._closed:
            raise RuntimeError("this AsyncWaterclock client was closed")
        size, pipelined, waiters = self._sizes
        shared: Pool | Pipeline
        if self._protocol.pipelines:
            shared = Pipeline(self._address, self._protocol, pipelined)
        else:
            shared = Pool(self._address, self._protocol, size)
        connections = _Connections(shared, Pool(self._address, self._protocol, waiters))
        with self._loops_lock:
            # The connections of a loop that was closed went with it.
            for loop in [loop for loop in self._of_loops if loop.is_closed()]:
                del self._of_loops[loop]
            self._of_loops[asyncio.get_running_loop()] = connections
        return connections


@dataclass(frozen=True)
class _Connections:
    """The connections of one event loop."""

    calls: Pool | Pipeline
    waits: Pool

"""The async client."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import address, calls
from .asking import BROKEN, Asking, OnUnavailable
from .async_connections import Pipeline, Pool
from .calls import Call, Charge, Factor, Reserved
from .deadline import Deadline
from .decision import Cost, Decision, Decisions
from .errors import Refused, Unavailable
from .reservation import AsyncReservation, Reserving

T = TypeVar("T")


class AsyncWaterclock:
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
        self._asking = Asking(address.parse(url, token, tls), timeout, on_unavailable)
        self._connections, self._pipelined, self._waiters = connections, pipelined, waiters
        self._ways: dict[asyncio.AbstractEventLoop, _Ways] = {}
        self._new_loop = threading.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"<AsyncWaterclock {self._asking.address}>"

    async def check(
        self, policy: str, key: str, *, cost: Cost = 1, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """Charges the cost if the policy admits it."""
        return await self._ask(calls.check(Charge(policy, key, cost, tier, factor)))

    async def check_all(self, charges: Iterable[Charge]) -> Decisions:
        """Charges all or nothing, up to 1,024 charges."""
        return await self._ask(calls.check_all(list(charges)))

    async def peek(
        self, policy: str, key: str, *, cost: Cost = 1, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """What `check` would decide now. Charges nothing."""
        return await self._ask(calls.peek(Charge(policy, key, cost, tier, factor)))

    async def wait(
        self,
        policy: str,
        key: str,
        *,
        within: float,
        cost: Cost = 1,
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
        """Clears the state of a key. By HTTP this needs the role `admin`."""
        return await self._ask(calls.reset(policy, key))

    async def report(
        self,
        policy: str,
        key: str,
        outcome: Literal["ok", "error"] | None = None,
        *,
        cost: Cost = 1,
        tier: str | None = None,
        factor: Factor | None = None,
    ) -> Decision:
        """Reports an outcome to an error-rate limit; without one, charges a cost that is known only now, into debt."""
        return await self._ask(calls.report(Charge(policy, key, cost, tier, factor), outcome))

    def reserve(
        self,
        policy: str,
        key: str,
        *,
        cost: Cost = 1,
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
        ways = self._ways.pop(asyncio.get_running_loop(), None)
        if ways is not None:
            ways.calls.close()
            ways.waits.close()

    async def __aenter__(self) -> AsyncWaterclock:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _ask(self, call: Call[T]) -> T:
        asking = self._asking
        data = asking.protocol.encode(call)
        deadline = Deadline(asking.timeout + call.waits)
        ways = self._ways.get(asyncio.get_running_loop()) or self._start()
        way = ways.waits if call.waits else ways.calls
        try:
            try:
                reply = await way.exchange(data, deadline)
            except BROKEN as error:
                raise asking.broken(error, deadline) from error
            return asking.read(call, reply)
        except Unavailable as error:
            return asking.settle(call, error)

    def _start(self) -> _Ways:
        if self._closed:
            raise RuntimeError("this AsyncWaterclock client was closed")
        address, protocol = self._asking.address, self._asking.protocol
        shared: Pool | Pipeline
        if protocol.pipelines:
            shared = Pipeline(address, protocol, self._pipelined)
        else:
            shared = Pool(address, protocol, self._connections)
        ways = _Ways(shared, Pool(address, protocol, self._waiters))
        with self._new_loop:
            # Connections of a loop that was closed went with it.
            for loop in [loop for loop in self._ways if loop.is_closed()]:
                del self._ways[loop]
            self._ways[asyncio.get_running_loop()] = ways
        return ways


@dataclass(frozen=True)
class _Ways:
    """The connections of one event loop."""

    calls: Pool | Pipeline
    waits: Pool

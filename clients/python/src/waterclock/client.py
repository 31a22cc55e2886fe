"""The sync client."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, TypeVar

from . import calls
from .base_client import BaseClient, OnUnavailable
from .calls import Call, Charge, Factor
from .decision import Cost, Decision, Decisions
from .errors import Invalid, Refused, Unavailable
from .pool import Pool
from .reservation import Reservation
from .wire import EXCHANGE_ERRORS

T = TypeVar("T")


class Waterclock(BaseClient):
    """A client for threads. Threads and forked processes may share one.

    The URL says how to ask: `http://HOST:8080` and `https://HOST` by HTTP, `redis://HOST:6380` and
    `rediss://HOST:6380` by the Redis protocol.

    A call takes at most `timeout` seconds, the wait for one of `connections` included (`wait`: `within` more, on
    one of `waiters`). No call is sent twice. `on_unavailable` says what check, check_all, peek, wait and reserve do
    when the server cannot be asked: "raise" Unavailable, "allow" or "refuse".
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = 1.0,
        on_unavailable: OnUnavailable = "raise",
        connections: int = 16,
        waiters: int = 64,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(url, token, tls, timeout, on_unavailable)
        self._calls = Pool(self._address, self._protocol, connections, "connections")
        self._waits = Pool(self._address, self._protocol, waiters, "waiters")

    def check(
        self, policy: str, key: str, *, cost: Cost | None = None, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """Charges the cost if the policy admits it."""
        return self._ask(calls.check(Charge(policy, key, cost, tier, factor)))

    def check_all(self, charges: Iterable[Charge]) -> Decisions:
        """Charges all or nothing, up to 1,024 charges."""
        return self._ask(calls.check_all(list(charges)))

    def peek(
        self, policy: str, key: str, *, cost: Cost | None = None, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """What `check` would decide now. Charges nothing."""
        return self._ask(calls.peek(Charge(policy, key, cost, tier, factor)))

    def wait(
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
        return self._ask(calls.wait(Charge(policy, key, cost, tier, factor), within))

    def refund(
        self, policy: str, key: str, *, cost: Cost = 1, tier: str | None = None, factor: Factor | None = None
    ) -> Decision:
        """Gives units back; answers like a peek right after it."""
        return self._ask(calls.refund(Charge(policy, key, cost, tier, factor)))

    def reset(self, policy: str, key: str) -> Decision:
        """Clears what the key has used; answers like a peek right after it."""
        return self._ask(calls.reset(policy, key))

    def report(
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
        return self._ask(calls.report(charge, outcome))

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
    ) -> Reservation:
        """Sets an estimate aside for `ttl` seconds (60); raises `Refused` if there is no room."""
        reserved = self._ask(calls.reserve(Charge(policy, key, cost, tier, factor), ttl, id, on_expiry))
        if reserved.id is None and not reserved.decision.allowed:
            raise Refused(reserved.decision)
        return Reservation(self, reserved)

    def set_override(self, policy: str, key: str, override: Mapping[str, Any]) -> None:
        """Gives a key limits of its own, such as `{"factor": 0.5, "expires_in": "2d"}`. Needs the role `admin`."""
        self._ask(calls.set_override(policy, key, override))

    def get_override(self, policy: str, key: str) -> dict[str, Any] | None:
        """The override of a key, if it has one."""
        return self._ask(calls.get_override(policy, key))

    def clear_override(self, policy: str, key: str) -> None:
        """Removes the override of a key, if it has one."""
        self._ask(calls.clear_override(policy, key))

    def put_policy(self, name: str, definition: Mapping[str, Any]) -> None:
        """Sets a policy at run time, such as `{"limits": ["5/m"]}`. Needs the role `admin`."""
        self._ask(calls.put_policy(name, definition))

    def get_policy(self, name: str) -> dict[str, Any] | None:
        """The policy in force, if there is one of this name."""
        return self._ask(calls.get_policy(name))

    def delete_policy(self, name: str) -> bool:
        """Deletes a policy that was set at run time; False if there was none."""
        return self._ask(calls.delete_policy(name))

    def close(self) -> None:
        """Closes the connections. Calls that are under way are answered."""
        self._calls.close()
        self._waits.close()

    def __enter__(self) -> Waterclock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, call: Call[T]) -> T:
        deadline = self._deadline(call)
        request = self._request(call, deadline)
        pool = self._waits if call.waits else self._calls
        try:
            try:
                reply = pool.exchange(request, deadline)
            except EXCHANGE_ERRORS as error:
                raise self._unavailable(error, deadline) from error
            return self._read(call, reply)
        except Unavailable as error:
            return self._fall_back(call, error)

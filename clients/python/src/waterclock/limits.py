"""Waterclock under the `limits` package, and so under slowapi and Flask-Limiter.

Importing this module registers the storages `waterclock://…` and `async+waterclock://…` and the strategy
"waterclock". The strategy asks the server, which has one policy for each pair of numbers: "5/minute" is
`limits/rolling-window/5:60s`. A policy that the server does not know is set at its first use, which needs a token with
the role `admin`; the role `check` suffices if the server's file has the policies.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import limits.aio.storage
import limits.aio.strategies
import limits.storage
import limits.strategies
from limits import RateLimitItem
from limits.errors import ConfigurationError, StorageError
from limits.limits import safe_string
from limits.util import WindowStats

from .async_client import AsyncWaterclock
from .client import Waterclock
from .decision import Decision
from .errors import Invalid, Unauthorized, Unavailable, WaterclockError

_SCHEMES = {
    "waterclock": "redis",
    "waterclocks": "rediss",
    "waterclock+http": "http",
    "waterclock+https": "https",
}
_ALGORITHMS = ("rolling-window", "sliding-window", "fixed-window", "gcra")
#: Above this, a rolling window is no exact log; it counts by buckets, which admit less, never more.
_MAX_LOG = 65_536
_BUCKETS = 1_000


class WaterclockStorage(limits.storage.Storage):
    """`waterclock://HOST:6380?token=…`; more options are `algorithm`, `timeout` and `on_unavailable`."""

    STORAGE_SCHEME = list(_SCHEMES)

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions, **options)
        url, self.algorithm, client_options = _parse(uri, options)
        self.client = Waterclock(url, **client_options)

    @property
    def base_exceptions(self) -> type[Exception]:
        return WaterclockError

    def check(self) -> bool:
        try:
            self.client.get_policy("limits")
        except Unavailable:
            return False
        except WaterclockError:
            # It answers, and this token may not read policies.
            pass
        return True

    def incr(self, key: str, expiry: int, amount: int = 1) -> NoReturn:
        raise _only_our_strategy()

    def get(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    def get_expiry(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    def clear(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    def reset(self) -> NoReturn:
        raise NotImplementedError("Waterclock clears single keys only; use `clear` of the strategy")


class AsyncWaterclockStorage(limits.aio.storage.Storage):
    """`async+waterclock://HOST:6380?token=…`; more options are `algorithm`, `timeout` and `on_unavailable`."""

    STORAGE_SCHEME = [f"async+{scheme}" for scheme in _SCHEMES]

    def __init__(self, uri: str, wrap_exceptions: bool = False, **options: Any) -> None:
        super().__init__(uri, wrap_exceptions, **options)
        url, self.algorithm, client_options = _parse(uri.removeprefix("async+"), options)
        self.client = AsyncWaterclock(url, **client_options)

    @property
    def base_exceptions(self) -> type[Exception]:
        return WaterclockError

    async def check(self) -> bool:
        try:
            await self.client.get_policy("limits")
        except Unavailable:
            return False
        except WaterclockError:
            # It answers, and this token may not read policies.
            pass
        return True

    async def incr(self, key: str, expiry: int, amount: int = 1) -> NoReturn:
        raise _only_our_strategy()

    async def get(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    async def get_expiry(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    async def clear(self, key: str) -> NoReturn:
        raise _only_our_strategy()

    async def reset(self) -> NoReturn:
        raise NotImplementedError("Waterclock clears single keys only; use `clear` of the strategy")


class WaterclockRateLimiter(limits.strategies.RateLimiter):
    """The strategy "waterclock": each hit is one check of the server."""

    def __init__(self, storage: WaterclockStorage) -> None:
        super().__init__(storage)
        self._storage = storage

    def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        return self._ask(self._storage.client.check, item, identifiers, cost=cost).allowed

    def test(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        return self._ask(self._storage.client.peek, item, identifiers, cost=cost).allowed

    def get_window_stats(self, item: RateLimitItem, *identifiers: str) -> WindowStats:
        return _stats(item, self._ask(self._storage.client.peek, item, identifiers))

    def clear(self, item: RateLimitItem, *identifiers: str) -> None:
        self._ask(self._storage.client.reset, item, identifiers)

    def _ask(
        self, verb: Callable[..., Decision], item: RateLimitItem, identifiers: tuple[str, ...], **terms: int
    ) -> Decision:
        policy, key = _policy(self._storage.algorithm, item), _key(item, identifiers)
        try:
            try:
                return verb(policy, key, **terms)
            except Invalid:
                # Nothing was charged. If the server does not know the policy, it learns it now.
                if self._knows(policy):
                    raise
                self._storage.client.put_policy(policy, _definition(self._storage.algorithm, item))
                return verb(policy, key, **terms)
        except WaterclockError as error:
            if self._storage.wrap_exceptions:
                raise StorageError(error) from error
            raise

    def _knows(self, policy: str) -> bool:
        """Also true if the token may not ask: then the server's first answer says more than this one."""
        try:
            return self._storage.client.get_policy(policy) is not None
        except Unauthorized:
            return True


class AsyncWaterclockRateLimiter(limits.aio.strategies.RateLimiter):
    """The strategy "waterclock": each hit is one check of the server."""

    def __init__(self, storage: AsyncWaterclockStorage) -> None:
        super().__init__(storage)
        self._storage = storage

    async def hit(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        return (await self._ask(self._storage.client.check, item, identifiers, cost=cost)).allowed

    async def test(self, item: RateLimitItem, *identifiers: str, cost: int = 1) -> bool:
        return (await self._ask(self._storage.client.peek, item, identifiers, cost=cost)).allowed

    async def get_window_stats(self, item: RateLimitItem, *identifiers: str) -> WindowStats:
        return _stats(item, await self._ask(self._storage.client.peek, item, identifiers))

    async def clear(self, item: RateLimitItem, *identifiers: str) -> None:
        await self._ask(self._storage.client.reset, item, identifiers)

    async def _ask(
        self,
        verb: Callable[..., Awaitable[Decision]],
        item: RateLimitItem,
        identifiers: tuple[str, ...],
        **terms: int,
    ) -> Decision:
        policy, key = _policy(self._storage.algorithm, item), _key(item, identifiers)
        try:
            try:
                return await verb(policy, key, **terms)
            except Invalid:
                # Nothing was charged. If the server does not know the policy, it learns it now.
                if await self._knows(policy):
                    raise
                await self._storage.client.put_policy(policy, _definition(self._storage.algorithm, item))
                return await verb(policy, key, **terms)
        except WaterclockError as error:
            if self._storage.wrap_exceptions:
                raise StorageError(error) from error
            raise

    async def _knows(self, policy: str) -> bool:
        """Also true if the token may not ask: then the server's first answer says more than this one."""
        try:
            return await self._storage.client.get_policy(policy) is not None
        except Unauthorized:
            return True


def _strategy(storage: Any) -> limits.strategies.RateLimiter:
    """slowapi and Flask-Limiter use the strategy for their fallback in memory, too."""
    if isinstance(storage, WaterclockStorage):
        return WaterclockRateLimiter(storage)
    return limits.strategies.MovingWindowRateLimiter(storage)


def _async_strategy(storage: Any) -> limits.aio.strategies.RateLimiter:
    if isinstance(storage, AsyncWaterclockStorage):
        return AsyncWaterclockRateLimiter(storage)
    return limits.aio.strategies.MovingWindowRateLimiter(storage)


# Their types say classes; all that their users do is call them.
limits.strategies.STRATEGIES["waterclock"] = _strategy  # type: ignore[assignment]
limits.aio.strategies.STRATEGIES["waterclock"] = _async_strategy  # type: ignore[assignment]


def _parse(uri: str, options: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """The URL of the server, the algorithm, and the options of the client."""
    parts = urlsplit(uri)
    options = {**dict(parse_qsl(parts.query)), **options}
    unknown = options.keys() - {"token", "algorithm", "timeout", "on_unavailable"}
    if unknown:
        raise ConfigurationError(
            f"{parts.scheme}:// does not know {', '.join(sorted(unknown))}; "
            "it takes token, algorithm, timeout and on_unavailable"
        )
    algorithm = options.pop("algorithm", _ALGORITHMS[0])
    if algorithm not in _ALGORITHMS:
        raise ConfigurationError(f"{algorithm!r} is no algorithm; write one of {', '.join(_ALGORITHMS)}")
    if "timeout" in options:
        options["timeout"] = float(options["timeout"])
    return urlunsplit((_SCHEMES[parts.scheme], parts.netloc, parts.path, "", "")), algorithm, options


def _policy(algorithm: str, item: RateLimitItem) -> str:
    return f"limits/{algorithm}/{item.amount}:{item.get_expiry()}s"


def _definition(algorithm: str, item: RateLimitItem) -> dict[str, Any]:
    limit: dict[str, Any] = {"algorithm": algorithm, "limit": item.amount, "per": f"{item.get_expiry()}s"}
    if algorithm == "rolling-window" and item.amount > _MAX_LOG:
        limit["buckets"] = _BUCKETS
    return {"limits": [limit]}


def _key(item: RateLimitItem, identifiers: tuple[str, ...]) -> str:
    """As `limits` writes it, without the numbers, which are the policy's name."""
    return "/".join([item.namespace, *(safe_string(identifier) for identifier in identifiers)])


def _stats(item: RateLimitItem, decision: Decision) -> WindowStats:
    # A whole second, rounded up: slowapi and Flask-Limiter cut off the rest.
    reset = math.ceil(time.time() + (decision.next_unit or 0.0))
    if decision.remaining is not None:
        return WindowStats(reset, decision.remaining)
    return WindowStats(reset, item.amount if decision.allowed else 0)


def _only_our_strategy() -> ConfigurationError:
    return ConfigurationError(
        "Waterclock decides on the server, and this strategy does not tell it the limit; "
        'choose strategy="waterclock" (RATELIMIT_STRATEGY = "waterclock")'
    )

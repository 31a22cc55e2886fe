"""What a middleware asks about a request."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from .calls import Charge, Factor
from .decision import Cost

R = TypeVar("R")
T = TypeVar("T")

#: A value, or a function of the request.
Option: TypeAlias = T | Callable[[R], T]
#: A value, or a function of the request that may be async.
AsyncOption: TypeAlias = T | Callable[[R], T | Awaitable[T]]


@dataclass(frozen=True)
class Rule(Generic[R]):
    """The options that all middleware has; each but the policy may be a function of the request."""

    policy: str
    key: AsyncOption[str, R]
    cost: AsyncOption[Cost | None, R] = None
    tier: AsyncOption[str | None, R] = None
    factor: AsyncOption[Factor | None, R] = None
    #: Requests that are not limited.
    skip: AsyncOption[bool, R] = False

    def charge(self, request: R) -> Charge | None:
        """The charge for a request; None if the rule skips it."""
        if _value(self.skip, request):
            return None
        key, cost = _value(self.key, request), _value(self.cost, request)
        return Charge(self.policy, key, cost, _value(self.tier, request), _value(self.factor, request))

    async def charge_async(self, request: R) -> Charge | None:
        """The same with functions that may be async."""
        if await _awaited(self.skip, request):
            return None
        key, cost = await _awaited(self.key, request), await _awaited(self.cost, request)
        tier, factor = await _awaited(self.tier, request), await _awaited(self.factor, request)
        return Charge(self.policy, key, cost, tier, factor)


def _value(option: Any, request: object) -> Any:
    return option(request) if callable(option) else option


async def _awaited(option: Any, request: object) -> Any:
    value = _value(option, request)
    return await value if inspect.isawaitable(value) else value

"""Rate limits for Django, sync and async: a middleware for all requests, and a decorator for single views.

Both take their client from the setting `WATERCLOCK`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from . import problem
from .async_client import AsyncWaterclock
from .calls import Charge, Factor
from .client import Waterclock
from .decision import Cost, Decision
from .rule import AsyncOption, Rule

View = TypeVar("View", bound=Callable[..., Any])
Refused = Callable[[HttpRequest, Decision], HttpResponseBase | Awaitable[HttpResponseBase]]

_OF_CLIENT = {"URL", "TOKEN", "TIMEOUT", "ON_UNAVAILABLE"}
_OF_MIDDLEWARE = {"POLICY", "KEY", "COST", "TIER", "FACTOR", "SKIP", "REFUSED"}


class RateLimitMiddleware:
    """Checks every request by the policy and the key that the setting `WATERCLOCK` names.

    The application finds the decision in `request.rate_limit`.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._limit = _limit_of_settings()
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        run = self._limit.run_async if self._is_async else self._limit.run
        return run(self._get_response, request)


def rate_limit(
    policy: str,
    *,
    key: AsyncOption[str, HttpRequest],
    cost: AsyncOption[Cost | None, HttpRequest] = None,
    tier: AsyncOption[str | None, HttpRequest] = None,
    factor: AsyncOption[Factor | None, HttpRequest] = None,
    skip: AsyncOption[bool, HttpRequest] = False,
    refused: Refused | None = None,
) -> Callable[[View], View]:
    """Decorates a view, sync or async: checks its requests before it runs.

    `key`, `cost`, `tier`, `factor` and `skip` are values or functions of the request. `refused` makes the response of a
    refusal from the request and the decision. For an async view, these functions may be async.
    """
    limit = _Limit(Rule(policy, key, cost, tier, factor, skip), refused)

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):

            @wraps(view)
            async def limited_async(request: HttpRequest, *arguments: Any, **options: Any) -> Any:
                return await limit.run_async(view, request, *arguments, **options)

            return cast(View, limited_async)

        @wraps(view)
        def limited(request: HttpRequest, *arguments: Any, **options: Any) -> Any:
            return limit.run(view, request, *arguments, **options)

        return cast(View, limited)

    return decorate


class _Limit:
    def __init__(self, rule: Rule[HttpRequest], refused: Refused | None) -> None:
        self._rule, self._refused = rule, refused

    def run(self, view: Callable[..., Any], request: HttpRequest, *arguments: Any, **options: Any) -> Any:
        charge = self._rule.charge(request)
        if charge is None:
            return view(request, *arguments, **options)
        decision = client().check(charge.policy, charge.key, **_terms(charge))
        request.rate_limit = decision  # type: ignore[attr-defined]
        response = view(request, *arguments, **options) if decision else self._refusal(request, decision)
        return _with_fields(response, decision)

    async def run_async(self, view: Callable[..., Any], request: HttpRequest, *arguments: Any, **options: Any) -> Any:
        charge = await self._rule.charge_async(request)
        if charge is None:
            return await view(request, *arguments, **options)
        decision = await async_client().check(charge.policy, charge.key, **_terms(charge))
        request.rate_limit = decision  # type: ignore[attr-defined]
        answer = view(request, *arguments, **options) if decision else self._refusal(request, decision)
        response = await answer if inspect.isawaitable(answer) else answer
        return _with_fields(response, decision)

    def _refusal(self, request: HttpRequest, decision: Decision) -> Any:
        if self._refused is not None:
            return self._refused(request, decision)
        body, status = problem.body(decision), problem.status(decision)
        return HttpResponse(body, status=status, content_type=problem.CONTENT_TYPE)


@lru_cache(maxsize=1)
def client() -> Waterclock:
    """The sync client of the setting `WATERCLOCK`."""
    return Waterclock(**_client_options())


@lru_cache(maxsize=1)
def async_client() -> AsyncWaterclock:
    """The async client of the setting `WATERCLOCK`."""
    return AsyncWaterclock(**_client_options())


@receiver(setting_changed)
def _forget_clients(*, setting: str, **others: Any) -> None:
    """Tests change settings while the process runs."""
    if setting == "WATERCLOCK":
        client.cache_clear()
        async_client.cache_clear()


def _settings() -> dict[str, Any]:
    configured: dict[str, Any] = getattr(settings, "WATERCLOCK", {})
    unknown = configured.keys() - _OF_CLIENT - _OF_MIDDLEWARE
    if unknown or "URL" not in configured:
        known = ", ".join(sorted(_OF_CLIENT | _OF_MIDDLEWARE))
        wrong = f"does not know {', '.join(sorted(unknown))}" if unknown else "needs URL"
        raise ImproperlyConfigured(f"the setting WATERCLOCK {wrong}; it takes {known}")
    return configured


def _client_options() -> dict[str, Any]:
    return {name.lower(): value for name, value in _settings().items() if name in _OF_CLIENT}


def _limit_of_settings() -> _Limit:
    configured = _settings()
    if "POLICY" not in configured or "KEY" not in configured:
        raise ImproperlyConfigured("the setting WATERCLOCK needs POLICY and KEY for RateLimitMiddleware")
    options = {name: value for name, value in configured.items() if name in _OF_MIDDLEWARE}
    for name in ("KEY", "SKIP", "REFUSED"):
        if isinstance(options.get(name), str):
            options[name] = import_string(options[name])
    refused = options.pop("REFUSED", None)
    return _Limit(Rule(**{name.lower(): value for name, value in options.items()}), refused)


def _terms(charge: Charge) -> dict[str, Any]:
    return {"cost": charge.cost, "tier": charge.tier, "factor": charge.factor}


def _with_fields(response: HttpResponseBase, decision: Decision) -> HttpResponseBase:
    """Fields that the response has already stay: they come from a limit that is closer to the view."""
    for name, value in decision.headers.items():
        response.headers.setdefault(name, value)
    return response

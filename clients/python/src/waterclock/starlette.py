"""Rate limits for Starlette and FastAPI: a middleware for all requests, a dependency for single routes of FastAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from . import problem
from .async_client import AsyncWaterclock
from .calls import Charge, Factor
from .decision import Cost, Decision
from .rule import AsyncOption, Rule

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class RateLimitMiddleware:
    """Checks every HTTP request, and sets the decision's header fields on every response.

    `key`, `cost`, `tier`, `factor` and `skip` are values or functions of the request; these may be async. They cannot
    read the body, which belongs to the application. `refused` makes the response of a refusal from the request and the
    decision. The application finds the decision in `request.state.rate_limit`.
    """

    def __init__(
        self,
        app: ASGIApp,
        client: AsyncWaterclock,
        policy: str,
        *,
        key: AsyncOption[str, Request],
        cost: AsyncOption[Cost | None, Request] = None,
        tier: AsyncOption[str | None, Request] = None,
        factor: AsyncOption[Factor | None, Request] = None,
        skip: AsyncOption[bool, Request] = False,
        refused: Callable[[Request, Decision], Response | Awaitable[Response]] | None = None,
    ) -> None:
        self._app, self._client, self._refused = app, client, refused
        self._rule = Rule(policy, key, cost, tier, factor, skip)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        charge = await self._rule.charge_async(request)
        if charge is None:
            await self._app(scope, receive, send)
            return
        decision = await _check(self._client, charge)
        request.state.rate_limit = decision

        async def send_with_fields(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                _set_fields(MutableHeaders(scope=message), decision)
            await send(message)

        answer: ASGIApp = self._app if decision else await self._refusal(request, decision)
        await answer(scope, receive, send_with_fields)

    async def _refusal(self, request: Request, decision: Decision) -> Response:
        if self._refused is None:
            body, status = problem.body(decision), problem.status(decision)
            return Response(body, status, media_type=problem.CONTENT_TYPE)
        response = self._refused(request, decision)
        return response if isinstance(response, Response) else await response


class RateLimited(HTTPException):
    """What `RateLimit` raises; an exception handler of the application may answer it in its own way."""

    def __init__(self, decision: Decision) -> None:
        fields = {**decision.headers, "content-type": problem.CONTENT_TYPE}
        super().__init__(problem.status(decision), problem.detail(decision), fields)
        self.decision = decision


class RateLimit:
    """A dependency of FastAPI: `@app.post("/login", dependencies=[Depends(RateLimit(client, "login", key=…))])`.

    Options are those of the middleware; here, functions may read the body. As a parameter of the route, it is the
    decision. FastAPI drops header fields of dependencies if the route returns a `Response` of its own.
    """

    def __init__(
        self,
        client: AsyncWaterclock,
        policy: str,
        *,
        key: AsyncOption[str, Request],
        cost: AsyncOption[Cost | None, Request] = None,
        tier: AsyncOption[str | None, Request] = None,
        factor: AsyncOption[Factor | None, Request] = None,
        skip: AsyncOption[bool, Request] = False,
    ) -> None:
        self._client = client
        self._rule = Rule(policy, key, cost, tier, factor, skip)

    async def __call__(self, request: Request, response: Response) -> Decision | None:
        charge = await self._rule.charge_async(request)
        if charge is None:
            return None
        decision = await _check(self._client, charge)
        if not decision:
            _answer_with_problem(request)
            raise RateLimited(decision)
        _set_fields(response.headers, decision)
        return decision


def _answer_with_problem(request: Request) -> None:
    """FastAPI's own handler of HTTPException answers `detail` only. Handlers of the application stay in force."""
    from fastapi.exception_handlers import http_exception_handler

    handlers, _ = request.scope.get("starlette.exception_handlers", ({}, {}))
    if handlers.get(HTTPException) is http_exception_handler:
        handlers.setdefault(RateLimited, _problem_response)


async def _problem_response(request: Request, error: RateLimited) -> Response:
    return Response(problem.body(error.decision), error.status_code, error.headers)


async def _check(client: AsyncWaterclock, charge: Charge) -> Decision:
    return await client.check(charge.policy, charge.key, cost=charge.cost, tier=charge.tier, factor=charge.factor)


def _set_fields(headers: MutableHeaders, decision: Decision) -> None:
    """Fields that the response has already stay: they come from a limit that is closer to the route."""
    for name, value in decision.headers.items():
        headers.setdefault(name, value)

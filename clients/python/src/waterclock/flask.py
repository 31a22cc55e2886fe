"""Rate limits for Flask: for a whole application or blueprint, or for single views."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import flask
from flask.sansio.scaffold import Scaffold

from . import problem
from .calls import Factor
from .client import Waterclock
from .decision import Cost, Decision
from .rule import Option, Rule

View = TypeVar("View", bound=Callable[..., Any])


class RateLimit:
    """One policy for the requests of an application, a blueprint or a view.

    `limit.init_app(app)` checks every request, `@limit` those of one view. `key`, `cost`, `tier`, `factor` and `skip`
    are values or functions of the request. `refused` makes the response of a refusal from the decision. The
    application finds the decision in `flask.g.rate_limit`.
    """

    def __init__(
        self,
        client: Waterclock,
        policy: str,
        *,
        key: Option[str, flask.Request],
        cost: Option[Cost | None, flask.Request] = None,
        tier: Option[str | None, flask.Request] = None,
        factor: Option[Factor | None, flask.Request] = None,
        skip: Option[bool, flask.Request] = False,
        refused: Callable[[Decision], Any] | None = None,
    ) -> None:
        self._client, self._refused = client, refused
        self._rule = Rule(policy, key, cost, tier, factor, skip)

    def init_app(self, app: Scaffold) -> None:
        """Checks every request of an application or a blueprint."""
        app.before_request(self._check)

    def __call__(self, view: View) -> View:
        """Checks the requests of one view."""

        @wraps(view)
        def limited(*arguments: Any, **options: Any) -> Any:
            refusal = self._check()
            if refusal is not None:
                return refusal
            return flask.current_app.ensure_sync(view)(*arguments, **options)

        return cast(View, limited)

    def _check(self) -> Any:
        charge = self._rule.charge(flask.request)
        if charge is None:
            return None
        decision = self._client.check(
            charge.policy, charge.key, cost=charge.cost, tier=charge.tier, factor=charge.factor
        )
        flask.g.rate_limit = decision
        self._set_fields_of(decision)
        return None if decision else self._refusal(decision)

    def _set_fields_of(self, decision: Decision) -> None:
        # Not in `flask.g`, which several requests of a test may share.
        decisions: list[Decision] = flask.request.environ.setdefault("waterclock.decisions", [])
        decisions.insert(0, decision)
        if len(decisions) > 1:
            return

        @flask.after_this_request
        def set_fields(response: flask.Response) -> flask.Response:
            # The last decision comes first: its limit is closest to the view. The view's own fields stay, too.
            for decision in decisions:
                for name, value in decision.headers.items():
                    response.headers.setdefault(name, value)
            return response

    def _refusal(self, decision: Decision) -> Any:
        if self._refused is not None:
            return self._refused(decision)
        body, status = problem.body(decision), problem.status(decision)
        return flask.Response(body, status, content_type=problem.CONTENT_TYPE)

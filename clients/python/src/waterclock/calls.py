"""Every verb as a request of HTTP and as a command of the Redis protocol, and how to read both answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote

from .decision import Cost, Decision, Decisions, made_up, parse
from .errors import Invalid
from .http_protocol import Response
from .resp_protocol import Value

T = TypeVar("T")

#: How much stricter the limits are for one call; text and Decimal are exact.
Factor = int | float | str | Decimal

_DEFAULT_TTL = 60.0


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    path: str
    body: object
    #: None if the Redis protocol cannot express the call; `only_http` says why.
    command: tuple[str, ...] | None
    from_http: Callable[[Response], T]
    from_resp: Callable[[Value], T]
    #: The answer if the server cannot be asked and the client goes on: allowed or refused.
    fallback: Callable[[bool], T] | None = None
    #: How long the server may hold the call back, in seconds.
    waits: float = 0.0
    #: The call after so many seconds in the client, which count as waited. None if time does not change it.
    shortened: Callable[[float], Call[T]] | None = None
    only_http: str = ""


@dataclass(frozen=True)
class Charge:
    """One of several charges that `check_all` admits together."""

    policy: str
    key: str
    #: None is the server's default: 1 request, and nothing of other units.
    cost: Cost | None = None
    tier: str | None = None
    factor: Factor | None = None

    def __post_init__(self) -> None:
        for name in ("policy", "key"):
            if not isinstance(getattr(self, name), str):
                raise Invalid(f"the {name} is {getattr(self, name)!r}; write a text")
        if self.cost is not None:
            _check_cost(self.cost)


@dataclass(frozen=True)
class Reserved:
    """The answer to `reserve`."""

    decision: Decision
    #: None if it was refused, or the server could not be asked.
    id: str | None


# Decisions


def check(charge: Charge) -> Call[Decision]:
    return _decide("check", charge)


def peek(charge: Charge) -> Call[Decision]:
    return _decide("peek", charge)


def refund(charge: Charge) -> Call[Decision]:
    return _decide("refund", charge, can_be_made_up=False)


def check_all(charges: Sequence[Charge]) -> Call[Decisions]:
    body = {"checks": [_question(charge) for charge in charges]}
    words = [word for charge in charges for word in (charge.policy, charge.key, _cost_word(charge.cost))]
    options = {tuple(_options(charge)) for charge in charges}
    command = None
    if len(options) <= 1:
        command = ("RL.CHECKS", str(len(charges)), *words, *(options.pop() if options else ()), "JSON")

    def fallback(allowed: bool) -> Decisions:
        decided = tuple(made_up(allowed, charge.policy, charge.key, charge.cost) for charge in charges)
        return Decisions(allowed, decided)

    def complete(decisions: Decisions) -> Decisions:
        if len(decisions) != len(charges):
            raise ValueError(f"{len(decisions)} decisions about {len(charges)} charges")
        return decisions

    return Call(
        "POST",
        "/v1/check",
        body,
        command,
        lambda response: complete(_decisions_from_http(response)),
        lambda value: complete(_decisions_from_resp(value)),
        fallback,
        only_http="the Redis protocol has one tier and one factor for all charges of check_all",
    )


def wait(charge: Charge, within: float) -> Call[Decision]:
    body = {**_question(charge), "within": _duration("within", within)}
    words = (charge.policy, charge.key, _cost_word(charge.cost), _milliseconds("within", within))
    return Call(
        "POST",
        "/v1/wait",
        body,
        ("RL.WAIT", *words, *_options(charge), "JSON"),
        _decision_from_http,
        _decision_from_resp,
        _made_up(charge),
        waits=within,
        shortened=lambda queued: wait(charge, max(within - queued, 0.0)),
    )


def reset(policy: str, key: str) -> Call[Decision]:
    command = ("RL.RESET", policy, key, "JSON")
    body = {"policy": policy, "key": key}
    return Call("POST", "/v1/reset", body, command, _decision_from_http, _decision_from_resp)


def report(charge: Charge, outcome: Literal["ok", "error"] | None) -> Call[Decision]:
    if outcome not in ("ok", "error", None):
        raise Invalid(f"the outcome is {outcome!r}; write 'ok' or 'error'")
    body = _question(charge)
    if outcome is not None:
        body["outcome"] = outcome
    word = _cost_word(charge.cost) if outcome is None else outcome
    command = ("RL.REPORT", charge.policy, charge.key, word, *_options(charge), "JSON")
    return Call(
        "POST",
        "/v1/report",
        body,
        None if outcome is not None and charge.cost != 1 else command,
        _decision_from_http,
        _decision_from_resp,
        only_http="the Redis protocol reports one outcome at a time",
    )


# Reservations


def reserve(charge: Charge, ttl: float | None, id: str | None, on_expiry: Literal["keep", "release"]) -> Call[Reserved]:
    if on_expiry not in ("keep", "release"):
        raise Invalid(f"on_expiry is {on_expiry!r}; write 'keep' or 'release'")
    ttl = _DEFAULT_TTL if ttl is None else ttl
    body = {**_question(charge), "ttl": _duration("ttl", ttl)}
    options = _options(charge)
    if id is not None:
        body["id"] = id
        options += ["ID", id]
    if on_expiry == "release":
        body["on_expiry"] = on_expiry
        options += ["RELEASE"]
    words = (charge.policy, charge.key, _cost_word(charge.cost), _milliseconds("ttl", ttl))

    def fallback(allowed: bool) -> Reserved:
        return Reserved(made_up(allowed, charge.policy, charge.key, charge.cost), None)

    return Call(
        "POST",
        "/v1/reserve",
        body,
        ("RL.RESERVE", *words, *options, "JSON"),
        lambda response: _reserved(_decision_from_http(response)),
        lambda value: _reserved(_decision_from_resp(value)),
        fallback,
    )


def commit(id: str, cost: Cost) -> Call[None]:
    _check_cost(cost)
    body = {"cost": _plain(cost)}
    path = f"/v1/reservations/{_segment(id)}/commit"
    return Call("POST", path, body, ("RL.COMMIT", id, _cost_word(cost)), _done, _ignored)


def cancel(id: str) -> Call[None]:
    return Call("DELETE", f"/v1/reservations/{_segment(id)}", None, ("RL.CANCEL", id), _done, _ignored)


# Administration


def set_override(policy: str, key: str, override: Mapping[str, Any]) -> Call[None]:
    command = ("RL.OVERRIDE", policy, key, "SET", json.dumps(override))
    return Call("PUT", f"{_key_path(policy, key)}/override", override, command, _done, _ignored)


def get_override(policy: str, key: str) -> Call[dict[str, Any] | None]:
    command = ("RL.OVERRIDE", policy, key, "GET")
    # Not `…/override`: its 404 does not tell an unknown policy from a key without an override.
    path = _key_path(policy, key)
    return Call("GET", path, None, command, lambda response: _object(response).get("override"), _json_or_none)


def clear_override(policy: str, key: str) -> Call[None]:
    command = ("RL.OVERRIDE", policy, key, "CLEAR")
    return Call("DELETE", f"{_key_path(policy, key)}/override", None, command, _done, _ignored)


def put_policy(name: str, definition: Mapping[str, Any]) -> Call[None]:
    command = ("RL.POLICY", name, "SET", json.dumps(definition))
    return Call("PUT", _policy_path(name), definition, command, _done, _ignored)


def get_policy(name: str) -> Call[dict[str, Any] | None]:
    def from_http(response: Response) -> dict[str, Any] | None:
        return None if response.status == 404 else _object(response)

    return Call("GET", _policy_path(name), None, ("RL.POLICY", name, "GET"), from_http, _json_or_none)


def delete_policy(name: str) -> Call[bool]:
    def from_http(response: Response) -> bool:
        return response.status != 404 and bool(_object(response))

    return Call("DELETE", _policy_path(name), None, ("RL.POLICY", name, "DEL"), from_http, bool)


# Questions


def _decide(verb: str, charge: Charge, can_be_made_up: bool = True) -> Call[Decision]:
    cost = [] if charge.cost is None else [_cost_word(charge.cost)]
    return Call(
        "POST",
        f"/v1/{verb}",
        _question(charge),
        (f"RL.{verb.upper()}", charge.policy, charge.key, *cost, *_options(charge), "JSON"),
        _decision_from_http,
        _decision_from_resp,
        _made_up(charge) if can_be_made_up else None,
    )


def _question(charge: Charge) -> dict[str, Any]:
    question: dict[str, Any] = {"policy": charge.policy, "key": charge.key}
    if charge.cost is not None:
        question["cost"] = _plain(charge.cost)
    if charge.tier is not None:
        question["tier"] = charge.tier
    if charge.factor is not None:
        question["factor"] = _decimal(charge.factor)
    return question


def _options(charge: Charge) -> list[str]:
    options = []
    if charge.tier is not None:
        options += ["TIER", charge.tier]
    if charge.factor is not None:
        options += ["FACTOR", _decimal(charge.factor)]
    return options


def _check_cost(cost: Cost) -> None:
    """The Redis protocol writes a cost as text, in which a wrong unit could name others."""
    amounts = cost if isinstance(cost, Mapping) else {"requests": cost}
    if not amounts:
        raise Invalid("the cost names no unit; write for example {'tokens': 800}")
    for unit, amount in amounts.items():
        if not isinstance(unit, str) or not unit or "=" in unit or "," in unit:
            raise Invalid(f"the cost has the unit {unit!r}; write the name that the policy has")
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise Invalid(f"the cost is {amount!r}; write a whole number")


def _plain(cost: Cost) -> object:
    return dict(cost) if isinstance(cost, Mapping) else cost


def _cost_word(cost: Cost | None) -> str:
    """A cost as the Redis protocol writes it; 1 for commands that cannot leave it out."""
    if cost is None:
        return "1"
    if isinstance(cost, Mapping):
        return ",".join(f"{unit}={amount}" for unit, amount in cost.items())
    return str(cost)


def _decimal(factor: Factor) -> str:
    """A factor without an exponent, which the server would not read."""
    try:
        return format(Decimal(str(factor)), "f")
    except InvalidOperation:
        raise Invalid(f"the factor is {factor!r}; write a decimal number such as 0.5") from None


def _duration(name: str, seconds: float) -> str:
    return f"{_whole(name, seconds, 1_000_000)}us"


def _milliseconds(name: str, seconds: float) -> str:
    return str(_whole(name, seconds, 1_000))


def _whole(name: str, seconds: float, per_second: int) -> int:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise Invalid(f"{name} is {seconds!r}; write a number of seconds, 0 or more")
    # Rounded first, since 0.057 seconds are 57.000000000000007 milliseconds.
    return math.ceil(round(seconds * per_second, 3))


def _policy_path(name: str) -> str:
    return f"/v1/policies/{_segment(name)}"


def _key_path(policy: str, key: str) -> str:
    return f"{_policy_path(policy)}/keys/{_segment(key)}"


def _segment(text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise Invalid(f"{text!r} is not valid Unicode; it has half of a surrogate pair") from None


# Answers


def _made_up(charge: Charge) -> Callable[[bool], Decision]:
    return lambda allowed: made_up(allowed, charge.policy, charge.key, charge.cost)


def _object(response: Response) -> dict[str, Any]:
    if not 200 <= response.status < 300:
        raise response.to_exception()
    answer = response.json()
    if not isinstance(answer, dict):
        raise ValueError("not an object")
    return answer


def _decided(response: Response) -> dict[str, Any]:
    """The body of a decision, whatever the status says about it."""
    content_type = response.fields.get("content-type", "").partition(";")[0]
    is_refusal = response.status == 429 and content_type == "application/json"
    if response.status not in (200, 201) and not is_refusal:
        raise response.to_exception()
    answer = response.json()
    if not isinstance(answer, dict):
        raise ValueError("not an object")
    return answer


def _decision_from_http(response: Response) -> Decision:
    return parse(_decided(response), _limit_fields(response))


def _decisions_from_http(response: Response) -> Decisions:
    answer = _decided(response)
    fields = _limit_fields(response)
    return Decisions(answer["allowed"], tuple(parse(raw, fields) for raw in answer["decisions"]))


def _limit_fields(response: Response) -> dict[str, str]:
    """The header fields that tell about limits; of `check_all` they are about all charges together."""
    about_limits = ("retry-after", "ratelimit", "x-ratelimit")
    return {name: value for name, value in response.fields.items() if name.startswith(about_limits)}


def _decision_from_resp(value: Value) -> Decision:
    raw = _json(value)
    return parse(raw, raw["headers"])


def _decisions_from_resp(value: Value) -> Decisions:
    if not isinstance(value, list):
        raise ValueError("not an array")
    decisions = tuple(_decision_from_resp(item) for item in value)
    return Decisions(all(decision.allowed for decision in decisions), decisions)


def _json(value: Value) -> dict[str, Any]:
    if not isinstance(value, str):
        raise ValueError("not a string")
    answer = json.loads(value)
    if not isinstance(answer, dict):
        raise ValueError("not an object")
    return answer


def _json_or_none(value: Value) -> dict[str, Any] | None:
    return None if value is None else _json(value)


def _reserved(decision: Decision) -> Reserved:
    reservation = decision.raw.get("reservation")
    return Reserved(decision, reservation["id"] if reservation else None)


def _done(response: Response) -> None:
    if not 200 <= response.status < 300:
        raise response.to_exception()


def _ignored(value: Value) -> None:
    pass

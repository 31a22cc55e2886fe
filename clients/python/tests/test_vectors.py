"""The table that all clients share, with every client of this package."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from waterclock import Charge, Decision, Decisions, Invalid, Refused, Unauthorized, Unavailable

from .clients import TRANSPORTS
from .server import CLIENTS, Server

VECTORS = json.loads((CLIENTS / "vectors.json").read_text())
ERRORS = {"invalid": Invalid, "unauthorized": Unauthorized, "unavailable": Unavailable}

#: What a step may say besides its call, and which arguments the call takes.
ABOUT_STEPS = {"call", "expect", "error", "repeat", "anonymous", "as"}
ARGUMENTS = {
    "check": {"policy", "key", "cost", "tier", "factor"},
    "check_all": {"charges"},
    "peek": {"policy", "key", "cost", "tier", "factor"},
    "wait": {"policy", "key", "cost", "tier", "factor", "within_ms"},
    "refund": {"policy", "key", "cost", "tier", "factor"},
    "reset": {"policy", "key"},
    "report": {"policy", "key", "cost", "tier", "factor", "outcome"},
    "reserve": {"policy", "key", "cost", "tier", "factor", "ttl_ms", "id", "on_expiry"},
    "commit": {"reservation", "cost"},
    "cancel": {"reservation"},
    "set_override": {"policy", "key", "override"},
    "get_override": {"policy", "key"},
    "clear_override": {"policy", "key"},
    "put_policy": {"policy", "definition"},
    "get_policy": {"policy"},
    "delete_policy": {"policy"},
}


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"].replace(" ", "-"))
def test_case(case: Any, transport: str, connect: Callable[..., Any], fresh_server: Server) -> None:
    assert case.keys() <= {"name", "transports", "steps"}
    if transport not in case.get("transports", TRANSPORTS):
        return
    url = fresh_server.url(transport)
    named, anonymous = connect(url, token=VECTORS["admin_token"]), connect(url)
    reservations: dict[str, Any] = {}
    for step in case["steps"]:
        for _ in range(step.get("repeat", 1)):
            run(step, anonymous if step.get("anonymous") else named, reservations)


def run(step: dict[str, Any], face: Any, reservations: dict[str, Any]) -> None:
    unknown = step.keys() - ABOUT_STEPS - ARGUMENTS[step["call"]]
    assert not unknown, f"this suite does not know {unknown}"
    if "error" in step:
        with pytest.raises(ERRORS[step["error"]]):
            ask(step, face, reservations)
    else:
        compare(ask(step, face, reservations), step.get("expect", {}))


def ask(step: dict[str, Any], face: Any, reservations: dict[str, Any]) -> dict[str, Any]:
    """Makes the call, and shows its answer as the table has it."""
    verb = step["call"]
    options = {name: step[name] for name in ("cost", "tier", "factor", "id", "on_expiry") if name in step}
    if verb in ("check", "peek", "refund"):
        return shown(face.call(verb, step["policy"], step["key"], **options))
    if verb == "check_all":
        answer: Decisions = face.call(verb, [Charge(**charge) for charge in step["charges"]])
        return {"allowed": answer.allowed, "decisions": [shown(decision) for decision in answer]}
    if verb == "wait":
        return shown(face.call(verb, step["policy"], step["key"], within=step["within_ms"] / 1000, **options))
    if verb == "reset":
        return shown(face.call(verb, step["policy"], step["key"]))
    if verb == "report":
        return shown(face.call(verb, step["policy"], step["key"], step.get("outcome"), **options))
    if verb == "reserve":
        try:
            reservation = face.call(verb, step["policy"], step["key"], ttl=step["ttl_ms"] / 1000, **options)
        except Refused as refused:
            return {**shown(refused.decision), "reservation": None}
        reservations[step.get("as", "")] = reservation
        return {**shown(reservation.decision), "reservation": True}
    if verb in ("commit", "cancel"):
        arguments = [step["cost"]] if verb == "commit" else []
        face.settle(reservations[step["reservation"]], verb, *arguments)
        return {"ok": True}
    if verb in ("get_override", "get_policy"):
        return {"value": face.call(verb, *(step[name] for name in ("policy", "key") if name in step))}
    names = ("policy", "key", "override", "definition")
    return {"ok": face.call(verb, *(step[name] for name in names if name in step)) is not False}


def shown(decision: Decision) -> dict[str, Any]:
    def milliseconds(seconds: float | None) -> float | None:
        return None if seconds is None else seconds * 1000

    return {
        "allowed": decision.allowed,
        "granted": decision.granted,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after_ms": milliseconds(decision.retry_after),
        "next_unit_ms": milliseconds(decision.next_unit),
        "next_same_ms": milliseconds(decision.next_same),
        "reset_after_ms": milliseconds(decision.reset_after),
        "refused_by": list(decision.refused_by),
        "source": decision.source,
        "counter": decision.counter,
        "policy": decision.policy,
        "headers": decision.headers,
        "limits": [limit.name for limit in decision.limits],
        "limit_info": decision.limit_info,
    }


def compare(found: Any, expected: dict[str, Any]) -> None:
    for name, value in expected.items():
        assert name in found, f"this suite does not know what to expect of {name!r}"
        actual = found[name]
        if name == "decisions":
            for decision, expectation in zip(actual, value, strict=True):
                compare(decision, expectation)
        elif name.endswith("_ms") and isinstance(value, list):
            assert actual is not None and value[0] <= actual <= value[1], f"{name} is {actual}"
        elif name in ("headers", "limit_info", "value") and isinstance(value, dict):
            assert actual is not None, f"{name} is missing"
            for field, pattern in value.items():
                if isinstance(pattern, str) and pattern.startswith("~"):
                    assert re.search(pattern[1:], actual[field]), f"{field} is {actual[field]}"
                else:
                    assert actual[field] == pattern
        else:
            assert actual == value, f"{name} is {actual!r}"

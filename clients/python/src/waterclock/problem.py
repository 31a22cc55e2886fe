"""The response to a request that is refused, as problem+json."""

from __future__ import annotations

import json
import math

from .decision import Decision

CONTENT_TYPE = "application/problem+json"


def status(decision: Decision) -> int:
    """429; 503 if the server could not be asked."""
    return 503 if decision.source == "unavailable" else 429


def detail(decision: Decision) -> str:
    if decision.source == "unavailable":
        return "The rate limiter cannot be asked; try again later."
    if decision.retry_after is None:
        return "This request is never admitted."
    return f"Too many requests; try again in {math.ceil(decision.retry_after)} s."


def body(decision: Decision) -> bytes:
    problem: dict[str, object] = {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": status(decision),
        "detail": detail(decision),
    }
    if decision.source != "unavailable":
        problem["type"] = "https://iana.org/assignments/http-problem-types#quota-exceeded"
        problem["title"] = "The request exceeds a limit"
        names = [f"{decision.policy}.{limit}" for limit in decision.refused_by]
        problem["violated-policies"] = names or [decision.policy]
    return json.dumps(problem).encode()

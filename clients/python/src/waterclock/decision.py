"""Decisions, in one shape whichever protocol they arrived by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

#: A number, or a number for each unit: `{"requests": 1, "tokens": 800}`.
Cost = int | Mapping[str, int]


@dataclass(frozen=True)
class LimitState:
    """One limit of the policy after the decision. Times are in seconds."""

    name: str
    allowed: bool
    limit: int | None
    remaining: int | None
    retry_after: float | None
    next_unit: float | None
    reset_after: float


@dataclass(frozen=True)
class Decision:
    """What the server decided. It is true in a condition if the whole cost was admitted. Times are in seconds."""

    allowed: bool
    #: How much of the cost was admitted: with `mode = "partial"` also a part of it.
    granted: Cost
    #: The smallest of all limits; None is unbounded.
    limit: int | None
    #: What is left of the tightest limit; None is unbounded.
    remaining: int | None
    #: When the same cost passes: 0 if allowed, None is never.
    retry_after: float | None
    #: When `remaining` grows; None means that it is at its maximum.
    next_unit: float | None
    #: When the same cost passes next, after an admitted call, too; None is never.
    next_same: float | None
    #: When the key is fresh: nothing used.
    reset_after: float
    #: The names of the limits that refused; none if the key is blocked.
    refused_by: tuple[str, ...]
    limits: tuple[LimitState, ...]
    policy: str
    key: str
    cost: Cost
    #: What decided: "authoritative" is the server's store, "unavailable" is this client's `on_unavailable`.
    source: str
    #: The response header fields of the policy's style, by lower-case name.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: With `mode = "count-refusals"`: the limit minus all attempts.
    counter: int | None = None
    #: With `headers = "legacy"`: the numbers as Sharkey has them.
    limit_info: Mapping[str, Any] | None = None
    #: The server's JSON, with exact microseconds and fields that this version does not know.
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True)
class Decisions:
    """The decisions of `check_all`, in the order of the charges. It is true if all were admitted."""

    allowed: bool
    decisions: tuple[Decision, ...]

    def __bool__(self) -> bool:
        return self.allowed

    def __iter__(self) -> Iterator[Decision]:
        return iter(self.decisions)

    def __getitem__(self, index: int) -> Decision:
        return self.decisions[index]

    def __len__(self) -> int:
        return len(self.decisions)


def parse(raw: Mapping[str, Any], headers: Mapping[str, str]) -> Decision:
    """Reads the server's JSON."""
    return Decision(
        allowed=raw["allowed"],
        granted=raw["granted"],
        limit=raw["limit"],
        remaining=raw["remaining"],
        retry_after=_seconds(raw["retry_after_us"]),
        next_unit=_seconds(raw["next_unit_us"]),
        next_same=_seconds(raw["next_same_us"]),
        reset_after=raw["reset_after_us"] / 1e6,
        refused_by=tuple(raw["refused_by"]),
        limits=tuple(_parse_limit(limit) for limit in raw["limits"]),
        policy=raw["policy"],
        key=raw["key"],
        cost=raw["cost"],
        source=raw["source"],
        headers=headers,
        counter=raw.get("counter"),
        limit_info=raw.get("limit_info"),
        raw=raw,
    )


def made_up(allowed: bool, policy: str, key: str, cost: Cost | None) -> Decision:
    """The decision of a client that could not ask the server."""
    cost = 1 if cost is None else cost
    return Decision(
        allowed=allowed,
        granted=cost if allowed else 0,
        limit=None,
        remaining=None,
        retry_after=0.0 if allowed else None,
        next_unit=None,
        next_same=0.0 if allowed else None,
        reset_after=0.0,
        refused_by=(),
        limits=(),
        policy=policy,
        key=key,
        cost=cost,
        source="unavailable",
    )


def _parse_limit(raw: Mapping[str, Any]) -> LimitState:
    return LimitState(
        name=raw["name"],
        allowed=raw["allowed"],
        limit=raw["limit"],
        remaining=raw["remaining"],
        retry_after=_seconds(raw["retry_after_us"]),
        next_unit=_seconds(raw["next_unit_us"]),
        reset_after=raw["reset_after_us"] / 1e6,
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6

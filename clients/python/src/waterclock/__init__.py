"""A client for Waterclock, an exact rate limiter."""

from .async_client import AsyncWaterclock
from .base_client import OnUnavailable
from .calls import Charge, Factor
from .client import Waterclock
from .decision import Cost, Decision, Decisions, LimitState
from .errors import Invalid, Refused, Unauthorized, Unavailable, WaterclockError
from .reservation import AsyncReservation, Reservation

__all__ = [
    "AsyncReservation",
    "AsyncWaterclock",
    "Charge",
    "Cost",
    "Decision",
    "Decisions",
    "Factor",
    "Invalid",
    "LimitState",
    "OnUnavailable",
    "Refused",
    "Reservation",
    "Unauthorized",
    "Unavailable",
    "Waterclock",
    "WaterclockError",
]

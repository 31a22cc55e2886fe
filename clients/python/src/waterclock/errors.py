"""What can go wrong: three kinds of error, and the refusal of a reservation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .decision import Decision


class WaterclockError(Exception):
    """The server gave no decision. Catch one of the three kinds, or all of them by this name."""


class Invalid(WaterclockError):
    """The call is wrong: bad input, an unknown policy, tier or reservation. Repeating it does not help."""


class Unauthorized(WaterclockError):
    """The token is missing, wrong, or lacks the role that the call needs."""


class Unavailable(WaterclockError):
    """The server could not be asked, or did not answer in time. The call may have been charged."""

    def __init__(self, message: str, *, denied: bool = False) -> None:
        super().__init__(message)
        #: The server's store failed, and the policy says `on_store_error = "deny"`: the operator wants a refusal.
        self.denied = denied


class Refused(Exception):
    """A reservation was refused, by the server or by `on_unavailable="refuse"`. It is no `WaterclockError`."""

    def __init__(self, decision: Decision) -> None:
        if decision.source == "unavailable":
            reason = f"the reservation under policy {decision.policy!r} is refused: the server cannot be asked"
        elif decision.retry_after is None:
            reason = f"policy {decision.policy!r} refused the reservation; it can never pass"
        else:
            wait = math.ceil(decision.retry_after)
            reason = f"policy {decision.policy!r} refused the reservation; it can pass in {wait} s"
        super().__init__(reason)
        self.decision = decision

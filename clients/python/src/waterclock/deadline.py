"""How long one call may take, from the first wait for a connection to the last byte of the answer."""

from __future__ import annotations

import time


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()

    def passed(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._began

    def remaining(self) -> float:
        """Seconds that are left, more than 0; raises TimeoutError if there are none."""
        left = self._seconds - self.passed()
        if left <= 0:
            raise self.missed()
        return left

    def is_over(self) -> bool:
        return self.passed() >= self._seconds

    def missed(self) -> TimeoutError:
        return TimeoutError(f"no answer within {self._seconds:g} s")

"""Time that never jumps."""

import time


def boot_time() -> float:
    """Seconds that never jump; where the system can tell, including those in which it was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)

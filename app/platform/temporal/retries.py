"""How activities and workflows are repeated."""

from datetime import timedelta
from typing import NoReturn

from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

_RETRY = timedelta(seconds=1)


def always() -> RetryPolicy:
    """Repeat an activity until it succeeds, a second after each failure."""
    return RetryPolicy(_RETRY, backoff_coefficient=1)


def try_again(reason: str) -> NoReturn:
    """End this attempt of an activity without an alarm: the next one begins in any worker that is free."""
    raise ApplicationError(reason, category=ApplicationErrorCategory.BENIGN, next_retry_delay=_RETRY)

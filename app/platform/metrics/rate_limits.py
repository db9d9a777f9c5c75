"""RateLimits: what is left of the provider's rate limits, from the headers of its answers."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from app.platform.metrics.families import Family, KnownNames, gauges

_HEADER = "anthropic-ratelimit-{kind}-{field}"
_KINDS = {
    "requests": "requests",
    "tokens": "tokens",
    "input_tokens": "input-tokens",
    "output_tokens": "output-tokens",
}
_NUMBER = re.compile(r"[0-9]{1,15}")
_TIME_CHARS = 40


@dataclass(frozen=True, slots=True)
class _Limit:
    limit: int
    remaining: int
    resets_at: datetime
    """When all of it will be available again."""


class RateLimits:
    """The limits of our key, by model: the provider has one for each group of models.

    Those of the latest answer; after the time that this names, all of a limit is available again.
    """

    def __init__(
        self, models: KnownNames, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._models = models
        self._now = now
        self._limits: dict[tuple[str, str], _Limit] = {}

    def update(self, headers: Mapping[str, str], *, model: str) -> None:
        """Remember the limits of an answer to a call of this model; headers that cannot be read are none."""
        label = self._models.label(model)
        for kind, name in _KINDS.items():
            if (found := _read(headers, name)) is not None:
                self._limits[kind, label] = found

    def families(self) -> Iterator[Family]:
        """The limits, and what is left of them now."""
        now, labels = self._now(), ["kind", "model"]
        yield gauges(
            "provider_ratelimit_limit",
            "The provider's rate limit of our key.",
            labels=labels,
            samples=[(key, each.limit) for key, each in self._limits.items()],
        )
        yield gauges(
            "provider_ratelimit_remaining",
            "What is left of it.",
            labels=labels,
            samples=[
                (key, each.limit if now >= each.resets_at else each.remaining)
                for key, each in self._limits.items()
            ],
        )


def _read(headers: Mapping[str, str], name: str) -> _Limit | None:
    limit, remaining, reset = (
        headers.get(_HEADER.format(kind=name, field=field), "") for field in ("limit", "remaining", "reset")
    )
    if not (_NUMBER.fullmatch(limit) and _NUMBER.fullmatch(remaining)) or len(reset) > _TIME_CHARS:
        return None
    try:
        resets_at = datetime.fromisoformat(reset).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return _Limit(int(limit), int(remaining), resets_at)

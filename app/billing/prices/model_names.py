"""Which names mean the same model; pure.

A model is priced by its exact name, or by its name without what says nothing about the model: the
provider's prefix, the release date, `-latest`, and the suffix of the long context. Nothing else is removed:
`claude-sonnet-4-5-fast` is not `claude-sonnet-4-5`.
"""

import re
from functools import lru_cache

_PREFIX = re.compile(r"^anthropic/")
_CONTEXT = re.compile(r"\[1m\]$")
RELEASE = re.compile(r"[-@]([0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)$")


@lru_cache(maxsize=1024)
def plain_name(model: str) -> str:
    """The name without the provider's prefix and the suffix of the long context."""
    return _CONTEXT.sub("", _PREFIX.sub("", model))


@lru_cache(maxsize=1024)
def undated_name(model: str) -> str:
    """The plain name without its release date."""
    return RELEASE.sub("", plain_name(model))


@lru_cache(maxsize=1024)
def release_of(model: str) -> str | None:
    """The digits of the release date in a name; None if it has none."""
    found = RELEASE.search(plain_name(model))
    digits = "" if found is None else found[1].replace("-", "")
    return digits if digits.isdigit() else None


def is_alias(name: str, *, of: str) -> bool:
    """Whether a requested name may mean the served model: both are the same without a release date."""
    return undated_name(name) == undated_name(of)

"""How the CLI is told to use all of a model's context, and how it names such models; pure."""

import re
from typing import Any

_SUFFIX = "[1m]"
_ONLY_WITH_SUFFIX = re.compile(r"claude-(opus|sonnet)-4-6(-[0-9]{8})?")
"""The CLI uses 200K of their 1M tokens otherwise, measured with 2.1.332."""


def cli_model(model: str) -> str:
    """A model's name for the CLI; the provider gets it without the suffix."""
    return f"{model}{_SUFFIX}" if _ONLY_WITH_SUFFIX.fullmatch(model) else model


def with_provider_names(usage: dict[str, Any]) -> dict[str, Any]:
    """The CLI's totals by model, by the provider's names."""
    return {name.removesuffix(_SUFFIX): totals for name, totals in usage.items()}

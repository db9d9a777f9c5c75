"""ModelRegistry: alias or id -> the exact model id that is asked for, shown and priced."""

import re
from collections.abc import Callable

from app.errors import Invalid

ALIASES = {
    "haiku": "claude-haiku-5-5",
    "opus": "claude-opus-5-5",
    "sonnet": "claude-sonnet-5-5",
}
"""Ours, not the CLI's: it maps the same words to other models with every release."""

_CLAUDE_ID = re.compile(r"claude-[a-z0-9]+(?:[.-][a-z0-9]+)*")


class UnknownModel(Invalid):
    """There is no such model."""

    code = "unknown_model"


class ModelNotPriced(Invalid):
    """There is no price for this model."""

    code = "model_not_priced"


class ModelRegistry:
    """Resolves what requests and graphs call a model."""

    def __init__(self, default_model: str, *, is_priced: Callable[[str], bool]) -> None:
        """Raises `UnknownModel` naming RUNTALLY_DEFAULT_MODEL for a wrong default."""
        self._is_priced = is_priced
        self._default = self._exact(default_model, field="RUNTALLY_DEFAULT_MODEL")

    def resolve(self, requested: str | None, of_graph: str | None) -> str:
        """The request's model, else the graph's, else the server's.

        Raises `UnknownModel` and `ModelNotPriced`.
        """
        if requested is not None:
            return self._exact(requested, field="model")
        if of_graph is not None:
            return self._exact(of_graph, field="model")
        return self._default

    def _exact(self, name: str, *, field: str) -> str:
        model = ALIASES.get(name, name)
        if not _CLAUDE_ID.fullmatch(model):
            known = ", ".join(ALIASES)
            raise UnknownModel.field(field, f"{name!r} is neither {known} nor the id of a Claude model")
        if not self._is_priced(model):
            # It could run, but not be billed.
            raise ModelNotPriced.field(field, f"there is no price for {name!r}")
        return model

"""ProviderRefusals: errors of the provider that concern this server's operator, by model.

The provider names the exact reason of an error in `error.details.error_code`. Whatever is not about the
contents of a request is about the operator: the account, the organization, or the version of the CLI.
"""

import json
import logging
import re
from collections.abc import Mapping

from app.platform.logs.dependency import DependencyLog
from app.usage.provider import object_of

OF_REQUESTS = frozenset(
    {
        "available_tools_limit_exceeded",
        "compaction_block_ambiguous",
        "compaction_block_misplaced",
        "compaction_content_mismatch",
        "compaction_incomplete_turn",
        "compaction_nothing_to_summarize",
        "compaction_signature_invalid",
        "compaction_too_many_tool_references",
        "compaction_tool_changes_mismatch",
        "file_expired",
        "file_not_downloadable",
        "image_dimensions_too_large",
        "request_body_encoding_invalid",
        "request_body_encoding_unsupported",
        "request_body_too_large_after_decoding",
        "thread_already_continued",
        "thread_continue_in_flight",
        "thread_fingerprint_mismatch",
        "thread_not_found",
        "thread_unsupported_request",
        "tool_name_conflict",
        "tool_reference_unresolved",
    }
)
"""The codes that are about the contents of a request; those of the official client 2.14."""

_STATUSES = {400, 401, 402, 403, 404}
"""Any other status means: wait, or send less."""

_CODE = re.compile(r"[a-z][a-z0-9_]{2,63}")
_UNNAMED: Mapping[re.Pattern[str], str] = {
    re.compile(r"credit balance is too low", re.IGNORECASE): "credit_balance_too_low",
    re.compile(r"organization has been disabled", re.IGNORECASE): "organization_disabled",
    re.compile(r"reached your specified API usage limits", re.IGNORECASE): "usage_limit_reached",
}
"""Errors of the same kind that have status 400 and no code, by their text."""


def refusal_code(status: int, body: bytes) -> str | None:
    """Why the provider refuses this server's operator; None if an error is about something else."""
    if status not in _STATUSES:
        return None
    try:
        error = object_of(object_of(json.loads(body)).get("error"))
    except (ValueError, RecursionError):
        return None
    code = object_of(error.get("details")).get("error_code")
    if isinstance(code, str) and _CODE.fullmatch(code):
        return None if code in OF_REQUESTS else code
    message = str(error.get("message"))
    return next((name for pattern, name in _UNNAMED.items() if pattern.search(message)), None)


class ProviderRefusals:
    """The models whose last call was refused because of the operator."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self._logs: dict[str, DependencyLog] = {}

    @property
    def by_model(self) -> Mapping[str, str]:
        """The reason of each."""
        return self._codes

    def refused(self, model: str, code: str) -> None:
        """A call of this model was refused."""
        self._codes[model] = code
        found = self._logs.setdefault(
            model,
            DependencyLog(
                unavailable="gateway.provider_refuses",
                available="gateway.provider_accepts",
                level=logging.ERROR,
                each_reason=True,
            ),
        )
        found.failed(code, model=model)

    def accepted(self, model: str) -> None:
        """A call of this model was answered."""
        if self._codes.pop(model, None) is not None:
            self._logs.pop(model).worked()

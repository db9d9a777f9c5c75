"""How many tokens a prompt and its answer may have, by model; pure.

Source: the pages of the models at https://platform.claude.com/docs/en/models, read on 23 November 2026, and
the window up to which CLI 2.1.332 fills a conversation, measured with each of them (`contextWindow` in the
usage of its results; of Claude Opus 4.6 and Sonnet 4.6 with its suffix for a long context). A model is only
here if both are the same. The beta of the long context, by which Claude Sonnet 4.5 had 1M, is not requested.
"""

import re
from typing import Final

_RELEASE = re.compile(r"-[0-9]{8}$")

_WINDOWS: Final = {
    "claude-haiku-4-5": 200_000,
    "claude-opus-4-5": 200_000,
    "claude-sonnet-4-5": 200_000,
    "claude-opus-4-6": 1_000_000,
    "claude-sonnet-4-6": 1_000_000,
    "claude-opus-4-7": 1_000_000,
    "claude-opus-4-8": 1_000_000,
    "claude-opus-5": 1_000_000,
    "claude-sonnet-5": 1_000_000,
    "claude-fable-5": 1_000_000,
    "claude-fable-5-1": 1_000_000,
    "claude-fable-5-2": 1_000_000,
    "claude-opus-5-5": 1_000_000,
    "claude-sonnet-5-5": 1_000_000,
    "claude-haiku-5-5": 1_000_000,
}


def without_release(model: str) -> str:
    return _RELEASE.sub("", model)


def known_window(model: str) -> int | None:
    """The window of a model by its id, with or without the date of a release; None if it is not known."""
    return _WINDOWS.get(without_release(model))

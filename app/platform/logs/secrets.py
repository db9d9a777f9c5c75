"""Hides secrets in texts of other programs, and nothing else."""

import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"

_PASSWORD_OF_URL: Final = re.compile(r"(://[^\s/@:]*:)[^\s/@]+(?=@)")
_KEYS: Final = re.compile(r"\b(?:sk-ant-|rt_)[A-Za-z0-9_-]{16,}")
_LEAST_MIXED: Final = 10
_LEAST_OF_ONE_KIND: Final = 24
_KINDS: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^A-Za-z0-9_.-]")))


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text without the passwords of URLs, keys, and those of these secrets that cannot be innocent words.

    A password such as `postgres` is hidden in URLs only: elsewhere the same word is a path or a name.
    """
    text = _KEYS.sub(HIDDEN, _PASSWORD_OF_URL.sub(rf"\1{HIDDEN}", text))
    for secret in sorted(filter(_is_no_word, secrets), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def _is_no_word(secret: str) -> bool:
    is_mixed = sum(kind.search(secret) is not None for kind in _KINDS) > 1
    return len(secret) >= (_LEAST_MIXED if is_mixed else _LEAST_OF_ONE_KIND)

"""Hides secrets in texts of other programs, and nothing else."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

HIDDEN: Final = "[hidden]"

_PASSWORD_OF_URL: Final = re.compile(r"(://[^\s/@:]*:)[^\s/@]+(?=@)")
_KEYS: Final = re.compile(r"\b(?:sk-ant-|rt_)[A-Za-z0-9_-]{16,}")
_LEAST_MIXED: Final = 10
_LEAST_OF_ONE_KIND: Final = 24
_KINDS: Final = tuple(map(re.compile, ("[a-z]", "[A-Z]", "[0-9]", "[^A-Za-z0-9_.-]")))

_of_context: ContextVar[Sequence[str]] = ContextVar("secrets", default=())


@contextmanager
def unlogged(secrets: Sequence[str]) -> Iterator[None]:
    """Log lines of the body, and of tasks it starts, contain none of these, also of those added meanwhile."""
    token = _of_context.set(secrets)
    try:
        yield
    finally:
        _of_context.reset(token)


def without_secrets_of_context(text: str) -> str:
    """The text as the log may contain it."""
    secrets = _of_context.get()
    return without_secrets(text, secrets) if secrets else text


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

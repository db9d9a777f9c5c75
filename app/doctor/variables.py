"""Checks of environment variables without the effect that they should have; pure."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from app.doctor.report import Check
from app.platform.settings import QUOTED, SECRETS, Settings, is_quoted

NAME = "variables"

_CLIENT_VARIABLES = ("RUNTALLY_URL", "RUNTALLY_API_KEY")
"""Read only by `runtally run` and `runtally receipts`."""

_VARIABLES = frozenset(str(field.validation_alias) for field in Settings.model_fields.values())
KNOWN = _VARIABLES | {f"{name}_FILE" for name in SECRETS} | {*_CLIENT_VARIABLES}

_PREFIX = "RUNTALLY_"
_STRICT_MATCH = 0.85
_LOOSE_MATCH = 0.75
_CLI_VARIABLES = ("ANTHROPIC_", "CLAUDE_", "DISABLE_PROMPT_CACHING", "ENABLE_PROMPT_CACHING")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})


def check_variables(
    environ: Mapping[str, str], file_variables: Collection[str], settings: Settings | None
) -> list[Check]:
    """Warnings about the environment and `.env`; a single `ok` if there are none."""
    names = {name.upper() for name, value in environ.items() if value}
    in_file = {name.upper() for name in file_variables}
    message = [*misspelled(names, in_file), *_ignored(names | in_file), *_quoted(environ)]
    if settings is not None:
        message += _overridden(settings)
    if not message:
        return [Check(NAME, "ok", "all variables have an effect")]
    return [Check(NAME, "warning", text) for text in message]


def misspelled(names: Collection[str], in_file: Collection[str]) -> Iterator[str]:
    """What is wrong with names that are not settings, in upper case: with the most similar setting."""
    for name in sorted({*names, *in_file} - KNOWN):
        if name.startswith(_PREFIX):
            if "CACHING" in name:
                yield f"{name} has no effect: the CLI decides what is cached (docs/operations/limits.md)"
                continue
            matches = difflib.get_close_matches(name, KNOWN, 1, _LOOSE_MATCH)
            hint = f"; did you mean {matches[0]}?" if matches else ""
            yield f"{name} is not a setting{hint}"
        # Any variable may be in the environment, but `.env` should contain only settings.
        elif name in in_file and (matches := difflib.get_close_matches(name, KNOWN, 1, _STRICT_MATCH)):
            yield f"{name} in .env is not a setting; did you mean {matches[0]}?"


def _ignored(names: Collection[str]) -> Iterator[str]:
    kept = sorted(name for name in names if name.startswith(_CLI_VARIABLES) and name not in KNOWN)
    if kept:
        yield f"no effect, because the CLI gets its own environment: {', '.join(kept)}"
    if proxies := sorted(_PROXIES & set(names)):
        yield f"no effect, because only RUNTALLY_HTTPS_PROXY names a proxy: {', '.join(proxies)}"


def _quoted(environ: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(name for name, value in environ.items() if name.upper() in KNOWN and is_quoted(value)):
        yield f"{name}: {QUOTED}; remove them unless they are meant"


def _overridden(settings: Settings) -> Iterator[str]:
    if settings.embed_origins and not settings.jwt_issuers:
        yield "RUNTALLY_EMBED_ORIGINS has no effect without RUNTALLY_JWT_ISSUERS: chats in sites need tokens"
    if settings.claude_auth == "local_session":
        defaults = Settings.model_fields
        useless = {
            "ANTHROPIC_API_KEY": settings.anthropic_api_key is not None,
            "ANTHROPIC_BASE_URL": settings.anthropic_base_url != defaults["anthropic_base_url"].default,
        }
        for name in [name for name, is_set in useless.items() if is_set]:
            yield f"{name} has no effect with RUNTALLY_CLAUDE_AUTH=local_session"
        if settings.https_proxy is not None:
            yield "RUNTALLY_HTTPS_PROXY is not for models with RUNTALLY_CLAUDE_AUTH=local_session"
    elif settings.claude_config_dir is not None:
        yield "RUNTALLY_CLAUDE_CONFIG_DIR has no effect with RUNTALLY_CLAUDE_AUTH=api_key"

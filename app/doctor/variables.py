"""Variables that do nothing: misspelt ones, and those another setting makes useless; pure."""

import difflib
from collections.abc import Collection, Iterator, Mapping

from app.doctor.report import Check
from app.settings import Settings

NAME = "variables"

_OF_THE_CLIENT = ("RUNTALLY_URL", "RUNTALLY_API_KEY")
"""Read by `runtally run` and `runtally receipts` alone."""

KNOWN = frozenset(
    {*(str(field.validation_alias) for field in Settings.model_fields.values()), *_OF_THE_CLIENT}
)

_OURS = "RUNTALLY_"
_SURELY_MEANT = 0.85
_PERHAPS_MEANT = 0.75
_OF_THE_CLI = ("ANTHROPIC_", "CLAUDE_", "DISABLE_PROMPT_CACHING", "ENABLE_PROMPT_CACHING")
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"})


def check_variables(
    environ: Mapping[str, str], of_file: Collection[str], settings: Settings | None
) -> list[Check]:
    """Warnings about the environment and `.env`; one `ok` when there are none."""
    names = {name.upper() for name, value in environ.items() if value}
    in_file = {name.upper() for name in of_file}
    said = [*_misspelt(names, in_file), *_without_effect(names | in_file)]
    if settings is not None:
        said += _useless_together(settings)
    if not said:
        return [Check(NAME, "ok", "every variable that is set has an effect")]
    return [Check(NAME, "warning", text) for text in said]


def _misspelt(names: Collection[str], in_file: Collection[str]) -> Iterator[str]:
    for name in sorted({*names, *in_file} - KNOWN):
        if name.startswith(_OURS):
            if "CACHE" in name or "CACHING" in name:
                yield f"{name} has no effect: the CLI decides what is cached (docs/OPERATIONS.md)"
                continue
            near = difflib.get_close_matches(name, KNOWN, 1, _PERHAPS_MEANT)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f"{name} is no setting{hint}"
        # The environment is full of other people's variables, the file is ours.
        elif name in in_file and (near := difflib.get_close_matches(name, KNOWN, 1, _SURELY_MEANT)):
            yield f"{name} in .env is no setting; did you mean {near[0]}?"


def _without_effect(names: Collection[str]) -> Iterator[str]:
    kept = sorted(name for name in names if name.startswith(_OF_THE_CLI) and name not in KNOWN)
    if kept:
        yield f"no effect, the CLI gets an environment of its own: {', '.join(kept)}"
    if proxies := sorted(_PROXIES & set(names)):
        yield f"no effect, the provider is called directly: {', '.join(proxies)}"


def _useless_together(settings: Settings) -> Iterator[str]:
    if settings.claude_auth == "local_session":
        defaults = Settings.model_fields
        useless = {
            "ANTHROPIC_API_KEY": settings.anthropic_api_key is not None,
            "ANTHROPIC_BASE_URL": settings.anthropic_base_url != defaults["anthropic_base_url"].default,
        }
        for name in [name for name, is_set in useless.items() if is_set]:
            yield f"{name} has no effect with RUNTALLY_CLAUDE_AUTH=local_session"
    elif settings.claude_config_dir is not None:
        yield "RUNTALLY_CLAUDE_CONFIG_DIR has no effect with RUNTALLY_CLAUDE_AUTH=api_key"

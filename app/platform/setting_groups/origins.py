"""OriginSettings: the pages of other origins that may call the API, and that may show the chat."""

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator
from pydantic_settings import BaseSettings

from app.platform.serialization.setting_forms import Listed

_ORIGIN = re.compile(r"https?://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?")


def _are_origins(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_is_origin(origin) for origin in value):
        raise ValueError(
            "must be origins as browsers send them, comma-separated: "
            "https://chat.example.org, http://localhost:3000 (lower case, no path, no usual port, no *)"
        )
    return value


def _is_origin(text: str) -> bool:
    # Browsers omit the default port, so an origin with it would never match.
    usual = ":443" if text.startswith("https://") else ":80"
    return _ORIGIN.fullmatch(text) is not None and not text.endswith(usual)


_Origins: TypeAlias = Annotated[Listed[str], AfterValidator(_are_origins)]


class OriginSettings(BaseSettings):
    """Settings of the pages of other origins; part of `Settings`."""

    cors_origins: _Origins = ()
    embed_origins: _Origins = ()

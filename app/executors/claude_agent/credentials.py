"""Is the provider's key usable? Asked once at start, so that an operator learns it there."""

import httpx

_TIMEOUT_S = 5.0
_REFUSED = {401, 403}


async def key_problem(api_key: str | None, base_url: str) -> str | None:
    """What is wrong with the key, in words for the operator; None when nothing is known to be.

    Lists the provider's models, which costs nothing. A base URL without that list proves nothing.
    """
    if api_key is None:
        return "ANTHROPIC_API_KEY is not set: every run will end with provider_unavailable"
    headers = {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_S) as client:
            url = f"{base_url.rstrip('/')}/v1/models"
            response = await client.get(url, headers=headers, params={"limit": 1})
    except httpx.HTTPError as error:
        return f"ANTHROPIC_BASE_URL cannot be reached ({type(error).__name__})"
    if response.status_code in _REFUSED:
        return f"ANTHROPIC_API_KEY was refused by the provider ({response.status_code})"
    return None

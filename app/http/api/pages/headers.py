"""Response headers of the pages and their files."""

from typing import Final

PAGE_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Revalidated on each load: after an update no page gets a mix of old and new files.
    "Cache-Control": "no-cache",
}

DOCS_HEADERS: Final = {
    **PAGE_HEADERS,
    # Swagger UI styles its elements inline.
    "Content-Security-Policy": PAGE_HEADERS["Content-Security-Policy"].replace(
        "style-src 'self'", "style-src 'self' 'unsafe-inline'"
    ),
}

SCRIPT_FOR_SITES_HEADERS: Final = {
    **PAGE_HEADERS,
    "Access-Control-Allow-Origin": "*",
    "Cross-Origin-Resource-Policy": "cross-origin",
}


def embedded_in(origin: str) -> dict[str, str]:
    """The headers of a page that only pages of this origin may frame."""
    policy = PAGE_HEADERS["Content-Security-Policy"]
    headers = {
        **PAGE_HEADERS,
        "Content-Security-Policy": policy.replace("frame-ancestors 'none'", f"frame-ancestors {origin}"),
        # For sites that are isolated by `Cross-Origin-Embedder-Policy`.
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    del headers["X-Frame-Options"]
    return headers

"""ReportingSession: the connection to a receiver; logs once when it is away, and once when it is back."""

from typing import Any

import requests
import structlog

log = structlog.get_logger(__name__)

_SUCCESS = range(200, 300)


class ReportingSession(requests.Session):
    """Used by one exporter, in its thread."""

    def __init__(self, signal: str) -> None:
        super().__init__()
        self.signal = signal
        self.failures = 0
        self._is_away = False

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; a redirect is an error, because it would get the headers, which are secret."""
        kwargs["allow_redirects"] = False
        try:
            response = super().request(*args, **kwargs)
        except requests.RequestException as error:
            self._note(type(error).__name__)
            raise
        if response.is_redirect:
            self._note(f"HTTP {response.status_code}")
            raise requests.TooManyRedirects(response=response)
        self._note(None if response.status_code in _SUCCESS else f"HTTP {response.status_code}")
        return response

    def _note(self, problem: str | None) -> None:
        if problem is not None and not self._is_away:
            log.warning("telemetry.export_failed", signal=self.signal, reason=problem)
        if problem is None and self._is_away:
            log.info("telemetry.export_resumed", signal=self.signal)
        self._is_away = problem is not None
        self.failures += self._is_away

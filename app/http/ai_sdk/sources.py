"""Sources: the pages that an answer cites, as parts of the AI SDK; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.events import Citation
from app.http.ai_sdk.blocks import Part


@dataclass(slots=True)
class Sources:
    """Chats show each part, so there is one for each page."""

    _cited: set[str] = field(default_factory=set)

    def add(self, event: Citation) -> Iterator[Part]:
        """The part of a page that was not cited before."""
        if event.url in self._cited:
            return
        self._cited.add(event.url)
        source: Part = {"type": "source-url", "sourceId": f"source-{len(self._cited)}", "url": event.url}
        yield source if event.title is None else {**source, "title": event.title}

"""LineExport: lines, or the bytes of an archive, as an attachment."""

from collections.abc import AsyncIterator
from datetime import datetime

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.http.response_model import utc_text
from app.http.streaming.sse import ReaderScope


class LineExport(StreamingResponse):
    """Lines or bytes as an attachment; an error aborts the chunked response, so the client notices."""

    def __init__(
        self,
        lines: AsyncIterator[str | bytes],
        *,
        media_type: str,
        filename: str,
        reader_scope: ReaderScope,
        as_of: datetime | None = None,
    ) -> None:
        """`reader_scope` is held while the response is sent; `as_of`: see `AsOf`."""
        headers = {"Content-Disposition": f'attachment; filename="{filename}"', "Vary": "Accept"}
        if as_of is not None:
            headers["Runtally-As-Of"] = utc_text(as_of)
        super().__init__(lines, media_type=media_type, headers=headers)
        self._reader_scope = reader_scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond; raises what the reader scope raises."""
        with self._reader_scope:
            await super().__call__(scope, receive, send)

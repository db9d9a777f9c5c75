"""Compressor: compresses an answer piece by piece."""

import zlib

from app.simulator.script import ContentEncoding

_WINDOW_BITS = {"gzip": 31, "deflate": 15}
"""How zlib is asked for the format; the HTTP encoding "deflate" is zlib's own format."""


class Compressor:
    """Passes bytes on unchanged if there is no encoding."""

    def __init__(self, encoding: ContentEncoding | None) -> None:
        self._stream = None if encoding is None else zlib.compressobj(wbits=_WINDOW_BITS[encoding])

    def compress(self, data: bytes) -> bytes:
        """The next piece; a reader can decompress everything up to its end."""
        if self._stream is None:
            return data
        return self._stream.compress(data) + self._stream.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return b"" if self._stream is None else self._stream.flush()

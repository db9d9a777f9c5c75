"""BodyDecoder: undoes the compression of a response, in pieces of bounded size; pure.

The gateway asks for no compression, but a proxy on the way may compress all the same. What cannot be
decoded here is refused.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence

PIECE_BYTES = 256 * 1024
"""The largest piece of decoded data: a small body may expand to a huge one."""

_MOST_LAYERS = 2
_WINDOW_BITS: Mapping[str, int] = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""How zlib is asked for the format; the HTTP encoding "deflate" is zlib's own format."""


class UndecodableBody(Exception):
    """The body is not what its header says."""


class BodyDecoder:
    """Passes bytes on unchanged if there is no encoding."""

    def __init__(self, encodings: Sequence[str]) -> None:
        """`encodings` in the order in which they were applied."""
        self._layers = [_Inflater(_WINDOW_BITS[name]) for name in reversed(encodings)]

    @property
    def is_identity(self) -> bool:
        """Whether the bytes are passed on unchanged."""
        return not self._layers

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """The next pieces; raises `UndecodableBody`."""
        return self._decode(chunk, 0)

    def _decode(self, data: bytes, layer: int) -> Iterator[bytes]:
        if layer == len(self._layers):
            yield data
            return
        for piece in self._layers[layer].pieces(data):
            yield from self._decode(piece, layer + 1)


def body_decoder(content_encoding: str) -> BodyDecoder | None:
    """The decoder for a `Content-Encoding`; None if it is one that is refused."""
    names = [name.strip().lower() for name in content_encoding.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if len(names) > _MOST_LAYERS or not _WINDOW_BITS.keys() >= set(names):
        return None
    return BodyDecoder(names)


class _Inflater:
    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._stream = zlib.decompressobj(window_bits)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while data:
                if self._stream.eof:
                    # The data may consist of several compressed members.
                    self._stream = zlib.decompressobj(self._window_bits)
                piece = self._stream.decompress(data, PIECE_BYTES)
                while len(piece) == PIECE_BYTES and not self._stream.unconsumed_tail:
                    # The stream may hold more output than it was allowed to return.
                    yield piece
                    piece = self._stream.decompress(b"", PIECE_BYTES)
                if piece:
                    yield piece
                data = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        except zlib.error as error:
            raise UndecodableBody from error

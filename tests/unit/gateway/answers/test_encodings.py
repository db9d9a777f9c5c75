import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.gateway.answers.encodings import PIECE_BYTES, UndecodableBody, body_decoder
from tests.factories import not_none

TEXT = b"data: some words of an answer\n\n" * 500


def twice(data: bytes) -> bytes:
    return zlib.compress(gzip.compress(data))


def members(data: bytes) -> bytes:
    return gzip.compress(data[:100]) + gzip.compress(data[100:])


ENCODED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("", bytes),
    ("identity", bytes),
    ("gzip", gzip.compress),
    ("GZIP", gzip.compress),
    ("x-gzip", gzip.compress),
    ("gzip", members),
    ("deflate", zlib.compress),
    ("identity, gzip", gzip.compress),
    ("gzip, deflate", twice),
]


def decoded(header: str, *chunks: bytes) -> bytes:
    decoder = not_none(body_decoder(header))
    return b"".join(piece for chunk in chunks for piece in decoder.decode(chunk))


@pytest.mark.parametrize(("header", "encode"), ENCODED)
@given(size=st.integers(1, 700))
def test_what_is_encoded_is_decoded_however_it_is_cut(
    header: str, encode: Callable[[bytes], bytes], size: int
) -> None:
    body = encode(TEXT)

    assert decoded(header, *(body[at : at + size] for at in range(0, len(body), size))) == TEXT


def test_what_is_sent_can_be_read_at_once() -> None:
    compressor = zlib.compressobj(wbits=31)
    decoder = not_none(body_decoder("gzip"))

    for word in (b"one ", b"two ", b"three"):
        sent = compressor.compress(word) + compressor.flush(zlib.Z_SYNC_FLUSH)
        assert b"".join(decoder.decode(sent)) == word


@pytest.mark.parametrize(
    "header", ["br", "zstd", "compress", "gzip, br", "gzip, gzip, gzip", "gzip;q=1", "ü"]
)
def test_an_encoding_that_is_not_known_is_refused(header: str) -> None:
    assert body_decoder(header) is None


@pytest.mark.parametrize(
    ("header", "body"), [("gzip", TEXT), ("gzip", zlib.compress(TEXT)), ("deflate", TEXT)]
)
def test_a_body_that_is_not_what_its_header_says_is_no_answer(header: str, body: bytes) -> None:
    with pytest.raises(UndecodableBody):
        decoded(header, body)


def test_a_small_body_that_expands_to_a_huge_one_is_read_piece_by_piece() -> None:
    bomb = twice(bytes(512 * 1024 * 1024))
    decoder = not_none(body_decoder("gzip, deflate"))
    tracemalloc.start()
    pieces = [len(piece) for piece, _ in zip(decoder.decode(bomb), range(100), strict=False)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(bomb) < 10_000
    assert max(pieces) == PIECE_BYTES
    assert peak < 8 * PIECE_BYTES

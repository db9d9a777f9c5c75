"""What has passed between the times of neighbouring events, in few bytes; pure."""

from collections.abc import Sequence
from operator import sub
from typing import Final

_BITS: Final = 7
_MORE: Final = 1 << _BITS
"""Set in each byte of a number but the last."""


def encode_gaps(times: Sequence[int]) -> bytes:
    """What has passed between these times: seven bits of it in each byte, the lowest first."""
    encoded = bytearray()
    for gap in map(sub, times[1:], times):
        left = max(0, gap)
        while left >= _MORE:
            encoded.append(left % _MORE | _MORE)
            left >>= _BITS
        encoded.append(left)
    return bytes(encoded)


def decode_gaps(first: int, encoded: bytes) -> list[int]:
    """The times, of which this is the first."""
    times, gap, shift = [first], 0, 0
    for byte in encoded:
        gap |= (byte % _MORE) << shift
        shift += _BITS
        if byte < _MORE:
            times.append(times[-1] + gap)
            gap = shift = 0
    return times

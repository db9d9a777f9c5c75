"""Faults planted in the gateway, and in what it checks before a call."""

from tests.mutants.mutant import Mutant

UNREADABLE = ("tests/integration/test_gateway_unreadable.py",)

GATEWAY = (
    Mutant(
        "a line that ends with CR waits for the next bytes",
        "app/gateway/event_lines.py",
        r""".replace(b"\r\n", b"\n").replace(b"\r", b"\n")""",
        r""".replace(b"\r\n", b"\n")""",
        ("tests/unit/gateway/test_wire.py",),
    ),
    Mutant(
        "data in several lines is not joined",
        "app/gateway/event_lines.py",
        r"""b"\n".join(data)""",
        "data[0]",
        ("tests/unit/gateway/test_wire.py",),
    ),
    Mutant(
        "a run whose usage cannot be read goes on",
        "app/gateway/call.py",
        "if message.unreadable:",
        "if False:",
        UNREADABLE,
    ),
    Mutant(
        "a run goes on after an answer without a message",
        "app/gateway/call.py",
        'log.error("gateway.response_unparsable", request_id=request_id)\n        self.block("answer")\n',
        'log.error("gateway.response_unparsable", request_id=request_id)\n',
        UNREADABLE,
    ),
    Mutant(
        "an answer that is no message is not noticed",
        "app/gateway/exchange.py",
        "elif message is None and is_whole:",
        "elif message is None and False:",
        UNREADABLE,
    ),
    Mutant(
        "an unknown encoding is passed on",
        "app/gateway/encodings.py",
        "if len(names) > _MOST_LAYERS or not _WINDOW_BITS.keys() >= set(names):\n        return None\n",
        "names = [name for name in names if name in _WINDOW_BITS]\n",
    ),
    Mutant(
        "usage that was not reported is nothing",
        "app/gateway/wire.py",
        "return replace(usage, input_tokens=estimate)",
        "return usage",
    ),
    Mutant(
        "a later lower count replaces a higher one",
        "app/gateway/wire.py",
        "self._raw = highest if self._restarted else merged",
        "self._raw = merged",
    ),
    Mutant(
        "messages without an id share one",
        "app/gateway/call.py",
        'return self.reserve(f"unnamed-{self._unnamed}")',
        'return MessageId("unnamed-1")',
        UNREADABLE,
    ),
)

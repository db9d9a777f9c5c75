"""What has arrived of a message while it is streamed."""

from app.gateway.answer_usage import PROGRESS_TOKENS, StreamFold
from app.simulator import wire
from tests.unit.gateway.test_answer_usage import CALL, EVENTS, folded, of


def a_delta(text: str, *, kind: str = "text") -> bytes:
    return wire.sse({"type": "content_block_delta", "index": 0, "delta": {kind: text}})


def grown(fold: StreamFold) -> tuple[int, int] | None:
    message = fold.grown()
    if message is None:
        return None
    assert (message.complete, message.output_estimated) == (False, True)
    return message.usage.output_tokens, message.usage.web_search_requests


def test_what_has_arrived_is_known_in_steps_and_never_less_than_it_is() -> None:
    fold = folded(a_delta("before it has begun "))
    assert fold.grown() is None
    fold.feed(wire.sse(EVENTS[0]))
    steps, words = [grown(fold)], 4
    for _ in range(100):
        fold.feed(a_delta("a "))
        words += 1
        steps.append(grown(fold))
        assert max(step[0] for step in steps if step is not None) in range(words, words + PROGRESS_TOKENS)

    known = [step[0] for step in steps if step is not None]
    assert known == list(range(16, 113, 16))
    assert grown(fold) is None
    assert fold.finish() is not None
    fold.feed(wire.sse(EVENTS[-2]))
    assert fold.grown() is None


def test_hidden_thinking_and_searches_are_known_at_once() -> None:
    fold = of(EVENTS[:1])
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}

    fold.feed(a_delta("c2ln" * 1000, kind="signature"))
    thought = grown(fold)
    fold.feed(wire.sse({"type": "content_block_start", "index": 1, "content_block": search}))
    searched = grown(fold)

    assert (thought, searched, grown(fold)) == ((752, 0), (752, 1), None)
    message = fold.finish()
    assert message is not None
    assert (message.usage.output_tokens, message.usage.web_search_requests) == (750, 1)
    assert (message.usage.input_tokens, message.usage.cache_read_tokens) == (10, 7)


def test_what_has_arrived_is_never_more_than_was_requested() -> None:
    fold = StreamFold(CALL, longest_output=20)
    fold.feed(wire.sse(EVENTS[0]))
    fold.feed(a_delta("a " * 17))

    assert grown(fold) == (20, 0)


def test_numbers_in_the_middle_of_a_message_are_part_of_what_has_arrived() -> None:
    fold = of(EVENTS[:1])
    fold.feed(a_delta("a " * 5))
    first = grown(fold)
    fold.feed(wire.sse({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 300}}))

    assert (first, grown(fold)) == ((16, 0), (300, 0))

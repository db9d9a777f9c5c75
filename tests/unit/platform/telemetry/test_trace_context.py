from collections.abc import Sequence

import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.telemetry.trace_context import CallerTrace, RunTraceContext, headers_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "traceparent",
    [
        [],
        [VALID, VALID],
        [""],
        ["00"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"{VALID}-more"],
        [f"00-{TRACE.replace('4', 'g')}-{SPAN}-01"],
        [VALID + "0" * 100_000],
        ["\x00\r\n\u202e"],
    ],
)
def test_an_invalid_parent_is_none(traceparent: Sequence[str]) -> None:
    assert CallerTrace.read(traceparent, ["a=b"]) is None


def test_a_later_version_is_read_as_the_first() -> None:
    assert CallerTrace.read([f"01-{TRACE}-{SPAN}-01-more"]) == CallerTrace(VALID)


@pytest.mark.parametrize(
    ("tracestate", "kept"),
    [
        (["a=1"], "a=1"),
        (["a=1", "b=2"], "a=1,b=2"),
        (["a=" + "x" * 100_000], None),
        ([",".join(f"k{number}=1" for number in range(10_000))], None),
        (["\x00=\x1b[31m"], None),
        (["no pair"], None),
        ([], None),
    ],
)
def test_the_state_of_a_vendor_is_kept_if_it_is_valid_and_short(
    tracestate: Sequence[str], kept: str | None
) -> None:
    assert CallerTrace.read([VALID], tracestate) == CallerTrace(VALID, kept)


def test_the_ids_of_a_run_are_the_same_in_every_process_and_differ_between_accounts() -> None:
    runs = [RunKey(AccountId(new_uuid()), RunId("r1")) for _ in range(2)]
    of_first, of_second = (RunTraceContext.of(run, None) for run in runs)

    assert RunTraceContext.of(runs[0], None) == of_first
    assert (of_first.trace_id, of_first.span_id) != (of_second.trace_id, of_second.span_id)
    by_caller = RunTraceContext.of(runs[0], CallerTrace(VALID, "a=1"))
    assert (by_caller.trace_id, by_caller.span_id) == (TRACE, of_first.span_id)
    assert by_caller.parent is not None
    assert f"{by_caller.parent.span_id:016x}" == SPAN
    assert headers_of(by_caller.run_span(is_sampled=False)) == [
        (b"traceparent", f"00-{TRACE}-{of_first.span_id}-00".encode()),
        (b"tracestate", b"a=1"),
    ]

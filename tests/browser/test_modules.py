"""JavaScript modules of the pages, tested without the page around them."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, Route

from tests.browser.site import Site
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_dollars_are_added_exactly(blank: Page) -> None:
    sums: Any = await blank.evaluate(_SUMS)

    assert sums == ["0.3000000000", None, "12345678901234567890.1000000001", *_SHOWN]


async def test_a_period_is_compared_with_as_many_days_before_it(blank: Page) -> None:
    periods: Any = await blank.evaluate(_PERIODS)

    assert periods == [
        ["2026-11-15", "2026-11-21", "in the 7 days before"],
        ["2026-02-28", "2026-02-28", "on the day before"],
        ["2026-02-01", "2026-02-28", "on the same days of last month"],
        ["2025-12-01", "2025-12-05", "on the same days of last month"],
        [None, [3, 30], [28, 28]],
    ]


async def test_unusual_days_are_not_known_before_seven_others(blank: Page) -> None:
    found: Any = await blank.evaluate(_UNUSUAL)

    assert found == [None, [], ["2026-11-08"]]


async def test_a_stopped_stream_does_not_reconnect(site: Site) -> None:
    opened: list[str] = []
    requested = {name: asyncio.Event() for name in ("left", "stays")}
    may_answer = asyncio.Event()

    async def events(route: Route) -> None:
        name = "left" if "/left/" in route.request.url else "stays"
        opened.append(name)
        requested[name].set()
        await may_answer.wait()
        await route.fulfill(status=503)

    async with site.visit(path="/healthz", complaints=["status of 503"]) as page:
        await page.route("**/v1/runs/*/events?*", events)
        await page.evaluate(_FOLLOW)
        for event in requested.values():
            await event.wait()
        await page.evaluate("() => window.leave()")
        may_answer.set()
        # The one that stays comes back again and again, the other would have been first.
        async with asyncio.timeout(PATIENCE_S):
            while opened.count("stays") < 3:
                await asyncio.sleep(0.02)

    assert opened.count("left") == 1


async def test_events_become_turns_with_their_receipts_and_items(blank: Page) -> None:
    entries, items, pending = await blank.evaluate(_RUN)

    assert entries == [
        {"kind": "started", "model": "sonnet", "attempt": 0},
        {"kind": "turn", "step": 1, "text": "Let me l…", "calls": ["get_time"], "receipt": "r-1"},
        {"kind": "turn", "step": None, "text": "inside", "calls": [], "receipt": None},
        {"kind": "note", "text": "Received a message: hurry"},
        {"kind": "turn", "step": None, "text": "Noon.", "calls": [], "receipt": "r-2"},
        {"kind": "ended", "error": "timeout", "finishReason": "max_turns"},
    ]
    assert items == ["text Let me look.", "tool get_time > inside", "user hurry", "text Noon."]
    assert pending == 0


async def test_events_become_spans(blank: Page) -> None:
    spans: Any = await blank.evaluate(_SPANS)

    assert spans == [
        "queue Waits for a place 00-01 at 0",
        "model Step 1 01-03 at 0",
        "tool Agent 02-09 at 0 cut off",
        "model Step 1 02-04 at 1",
        "tool read 04-07 at 1 failed",
        "waiting Approval of read 05-06 at 1",
        "model Step 2 07-08 at 1",
        "model Step 1 09-10 at 0",
        "tool write 10-? at 0",
    ]


_SPANS = """async () => {
  const { spansOf } = await import("/assets/billing/trace/spans.js");
  const at = (second) => `2026-11-28T07:00:${String(second).padStart(2, "0")}Z`;
  const inside = { parentToolCallId: "a" };
  const events = [
    [1, { type: "run_started", attempt: 0 }],
    [2, { type: "tool_call_start", toolCallId: "a", toolName: "Agent" }],
    [3, { type: "step", stepIndex: 1 }],
    [4, { type: "step", stepIndex: 1, ...inside }],
    [4, { type: "tool_call_start", toolCallId: "b", toolName: "read", ...inside }],
    [5, { type: "permission_request", requestId: "r", toolName: "read", ...inside }],
    [6, { type: "permission_resolved", requestId: "r", ...inside }],
    [7, { type: "tool_call_result", toolCallId: "b", isError: true, ...inside }],
    [8, { type: "step", stepIndex: 2, ...inside }],
    [9, { type: "run_started", attempt: 1 }],
    [10, { type: "step", stepIndex: 1 }],
    [10, { type: "tool_call_start", toolCallId: "c", toolName: "write" }],
  ].map(([second, event]) => ({ ...event, at: at(second) }));
  const short = (time) => (time === null ? "?" : time.slice(17, 19));
  return spansOf(events, at(0)).map(({ kind, name, from, to, depth, state }) =>
    `${kind} ${name} ${short(from)}-${short(to)} at ${depth} ${state}`.trim(),
  );
}"""
_RUN = """async () => {
  const { RunState } = await import("/assets/runs/run_state.js");
  const { timelineEntries } = await import("/assets/billing/timeline_entries.js");
  const run = new RunState("run-1");
  run.addPendingMessage("hurry");
  const events = [
    { type: "run_started", model: "sonnet", attempt: 0 },
    { type: "text_delta", messageId: "m-1", delta: "Let me " },
    { type: "text_delta", messageId: "m-1", delta: "look." },
    { type: "tool_call_start", toolCallId: "t", toolName: "get_time", args: {} },
    { type: "step", stepIndex: 1, stepBudget: 2 },
    { type: "text_delta", messageId: "m-s", delta: "inside", parentToolCallId: "t" },
    { type: "tool_call_result", toolCallId: "t", result: "12:00", isError: false },
    { type: "user_message", messageId: "u", content: "hurry" },
    { type: "text_delta", messageId: "m-2", delta: "Noon." },
    { type: "error", error: "timeout" },
    { type: "done", usage: {}, finishReason: "max_turns" },
  ];
  for (const event of events) run.apply(event);
  const receipts = [
    { id: "r-1", usageUnitId: "m-1", basis: "final", origin: "assistant" },
    { id: "r-2", usageUnitId: "m-9", basis: "final", origin: "assistant" },
  ];
  const entries = timelineEntries(run, receipts, 8).map((entry) =>
    entry.kind !== "turn"
      ? entry
      : {
          kind: "turn",
          step: entry.step,
          text: entry.text,
          calls: entry.calls.map((call) => call.name),
          receipt: entry.receipt?.id ?? null,
        },
  );
  const titles = run.items.map((item) =>
    item.kind === "tool" ? `tool ${item.name} > ${item.items[0].text}` : `${item.kind} ${item.text}`,
  );
  return [entries, titles, run.pendingApprovals.length];
}"""
_SHOWN = ["$0.0032", "$12.35", "$0.00", "$12,345,678,901,234,567,890.1000000001", "-$0.50", "<$0.01"]
_SUMS = """async () => {
  const { dollars, total } = await import("/assets/chat/cost.js");
  const { formatExact, formatFixed, parseDollars } = await import("/assets/money.js");
  return [
    total(["0.1", "0.2000000000"]),
    total(["0.1", null]),
    total(["12345678901234567890.1", "0.0000000001"]),
    ...["0.0031500001", "12.345678", "0"].map(dollars),
    ...["12345678901234567890.1000000001", "-0.5"].map((amount) => formatExact(parseDollars(amount))),
    formatFixed(parseDollars("0.004"), 2),
  ];
}"""
_PERIODS = """async () => {
  const { dayName, passedOfMonth, periodBefore } = await import("/assets/billing/view.js");
  const day = 86_400_000;
  const before = (period, first, last) => {
    const found = periodBefore({ period }, { first: Date.parse(first), last: Date.parse(last) });
    return [dayName(found.first), dayName(found.last), found.name];
  };
  const passed = (first, now) =>
    passedOfMonth({ first: Date.parse(first) }, Date.parse(now))?.map((ms) => ms / day) ?? null;
  return [
    before("7d", "2026-11-22", "2026-11-28"),
    before("custom", "2026-03-01", "2026-03-01"),
    before("month", "2026-03-01", "2026-03-31"),
    before("month", "2026-01-01", "2026-01-05"),
    [
      passed("2026-11-01", "2026-11-01T23:59:59Z"),
      passed("2026-11-01", "2026-11-04"),
      passed("2026-02-01", "2026-03-02"),
    ],
  ];
}"""
_FOLLOW = """async () => {
  const { followRun } = await import("/assets/runs/event_stream.js");
  const listeners = { onEvent() {}, onConnection() {}, onFailure() {} };
  window.leave = followRun("left", listeners);
  followRun("stays", listeners);
}"""

_UNUSUAL = """async () => {
  const { anomaliesOf } = await import("./assets/billing/spend/outliers.js");
  const days = Array.from({ length: 8 }, (_, index) => `2026-11-0${index + 1}`);
  const of = (last, from = 0) => new Map(days.map((day, at) => [day, at < from ? 0 : at === 7 ? last : 10]));
  const unusual = (credits) => anomaliesOf(days, credits)?.map(({ day }) => day) ?? null;
  return [of(900, 1), of(11), of(900)].map(unusual);
}"""

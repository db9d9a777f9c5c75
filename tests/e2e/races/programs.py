"""What a race is drawn from: runs, what the model says in them, and what is asked of them meanwhile.

A program says what happens and when. When that is in the life of a run is up to the machine: an act
waits for so many events of its run and then for so many milliseconds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from hypothesis import strategies as st

from app.simulator.script import Answer, ApiRequest, Block, HttpError, Reply, Text, ToolUse, text_of
from tests.e2e.office import MAIL, TASK
from tests.e2e.stories import CLOCK

Tool: TypeAlias = Literal["mail", "task", "clock"]
OnConflict: TypeAlias = Literal["enqueue", "reject", "interrupt"]
Way: TypeAlias = Literal["background", "stream", "wait"]

MARK = re.compile(r"<run ([\w.-]+)>")
"""Stands in everything said to a run, so that each of its calls can be told from its neighbours'."""

PRIORITIES = ("now", "next", "later")
DECISIONS = ("allow", "deny", "change", "nonsense")
MODES = ("default", "plan", "dontAsk", "bypassPermissions", "acceptEdits")
AGAIN = ("background", "stream", "wait", "otherwise")
HOW: dict[str, Sequence[str]] = {
    "send": PRIORITIES,
    "cancel": ("",),
    "interrupt": ("",),
    "decide": DECISIONS,
    "mode": MODES,
    "again": AGAIN,
    "leave": ("1", "4", "9"),
    "join": ("0", "1", "3", "8", "99"),
    "forget": ("",),
}
"""What can be asked of a run, and how."""


@dataclass(frozen=True, slots=True)
class Say:
    """A text of so many words; the first comes after a while, the others one by one."""

    words: int
    after_ms: int
    pause_ms: int


@dataclass(frozen=True, slots=True)
class Call:
    """Tool calls in one message."""

    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True)
class Fail:
    """An error instead of an answer."""

    status: int


@dataclass(frozen=True, slots=True)
class Break:
    """A text that ends after so many events, without a word or with an error."""

    events: int
    with_error: bool


HistoryTurn: TypeAlias = Say | Call | Fail | Break


@dataclass(frozen=True, slots=True)
class Run:
    """A run to be asked for, so long after the program has begun."""

    at_ms: int
    way: Way
    door: int
    chat: int | None
    """Which conversation it belongs to."""
    on_conflict: OnConflict
    model: tuple[HistoryTurn, ...]
    """What the model says; then it says one thing more and is done."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something asked of a run after so many of its events and milliseconds.

    Without events the time is counted from the moment the run is asked for.
    """

    what: str
    how: str
    run: int
    """Counted round the program's runs."""
    events: int
    ms: int
    door: int


@dataclass(frozen=True, slots=True)
class Program:
    """One race."""

    runs: tuple[Run, ...]
    acts: tuple[Act, ...]


def prompt(run_id: str, text: str) -> str:
    """Something to say to a run."""
    return f"<run {run_id}> {text}"


def run_of(request: ApiRequest) -> str:
    """The run a call of the model belongs to: the last one spoken to."""
    return marks(request)[-1]


def marks(request: ApiRequest) -> list[str]:
    """The runs that a call's conversation holds, in order of their last words."""
    found = reversed(MARK.findall("\n".join(_heard(request))))
    return list(dict.fromkeys(found))[::-1]


def answer(spoken: HistoryTurn | None, run_id: str, turn: int) -> Answer:
    """What the model answers at its so-manieth call; None when the program says nothing more."""
    name = f"{run_id}/{turn}"
    match spoken:
        case Say(words, after_ms, pause_ms):
            text = " ".join([name, *("word" for _ in range(words))])
            return Reply(
                [Text(text)],
                # A receipt is never for less than what was shown.
                final_usage={"output_tokens": max(20, words + 1)},
                headers_delay_s=after_ms / 1000,
                delta_delay_s=pause_ms / 1000,
            )
        case Call(tools):
            return Reply([Text(name), *(_call(tool, f"{name}/{n}") for n, tool in enumerate(tools))])
        case Fail(status):
            return HttpError(status, headers={"retry-after": "0"})
        case Break(events, with_error):
            blocks = [Text(f"{name} one two"), Text("three four five")]
            if with_error:
                return Reply(blocks, error_after=(events, "overloaded_error"), delta_delay_s=0.01)
            return Reply(blocks, cut_after=events, delta_delay_s=0.01)
        case None:
            return Reply([Text(f"{name} bye")])


def _call(tool: Tool, name: str) -> Block:
    match tool:
        case "mail":
            return ToolUse(MAIL, {"to": "bob@example.org", "text": name})
        case "task":
            return ToolUse(TASK)
        case "clock":
            return ToolUse(CLOCK)


def _heard(request: ApiRequest) -> list[str]:
    """Everything users say in a call; what is said beside a tool's result is told within it."""
    spoken = [message["content"] for message in request.messages if message["role"] == "user"]
    return [content if isinstance(content, str) else f"{text_of(content)}{content}" for content in spoken]


_DOORS = st.sampled_from([0, 0, 0, 1])
_MOMENTS = st.sampled_from([0, 0, 1, 5, 20, 60, 150, 300, 600, 1000])
_SAY = st.builds(
    Say,
    words=st.sampled_from([1, 8, 25]),
    after_ms=st.sampled_from([0, 0, 50, 400]),
    pause_ms=st.sampled_from([0, 5, 30]),
)
_TOOLS = st.sampled_from([("mail",), ("mail", "mail"), ("task",), ("clock",), ("mail", "clock")])
_FAIL = st.sampled_from([Fail(529), Fail(529), Fail(400), Fail(500)])
_BREAK = st.builds(Break, events=st.integers(0, 9), with_error=st.booleans())
_SPOKEN: st.SearchStrategy[HistoryTurn] = st.one_of(_SAY, st.builds(Call, tools=_TOOLS), _FAIL, _BREAK, _SAY)
_RUNS = st.builds(
    Run,
    at_ms=st.sampled_from([0, 0, 0, 10, 100, 500, 1200]),
    way=st.sampled_from(["background", "stream", "wait"]),
    door=_DOORS,
    chat=st.sampled_from([None, 0, 0, 1]),
    on_conflict=st.sampled_from(["enqueue", "enqueue", "reject", "interrupt"]),
    model=st.lists(_SPOKEN, max_size=3).map(tuple),
)
_ACTS = st.one_of(
    *(
        st.builds(
            Act,
            what=st.just(what),
            how=st.sampled_from(list(hows)),
            run=st.integers(0, 4),
            events=st.sampled_from([0, 0, 1, 2, 3, 5, 8, 13]),
            ms=_MOMENTS,
            door=_DOORS,
        )
        for what, hows in [*HOW.items(), *((what, HOW[what]) for what in ("send", "interrupt", "decide"))]
    )
)
PROGRAMS = st.builds(
    Program,
    runs=st.lists(_RUNS, min_size=1, max_size=5).map(tuple),
    acts=st.lists(_ACTS, max_size=14).map(tuple),
)

"""AgentLoop: the turns of a run: messages of the model, tool calls, messages of clients, the answer."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from app.conversations.neutral_transcript import tool_result
from app.events import AssistantFinal, UserMessageDelivered
from app.executors.api_format.failures import NO_ANSWER
from app.executors.api_format.tool_content import ModelToolCall
from app.executors.api_format.web import MOST_PAUSES, PAUSED
from app.executors.messages_api.exchange import ModelCalls
from app.executors.messages_api.message import MessageFold
from app.executors.messages_api.request import STRUCTURED_OUTPUT, text_block, user_blocks
from app.executors.messages_api.waiting_messages import WaitingMessages
from app.executors.port import BUDGET, INTERNAL, ExecutionFailed, RunContext
from app.executors.text import loggable
from app.executors.tools.turn import ToolTurn
from app.platform.background import run_to_completion
from app.requests.messages import SentMessage

log = structlog.get_logger(__name__)

TOO_LONG_PROMPT = "Your last message reached its length limit. Continue directly where it stopped."
EMPTY_PROMPT = "Your last message has no text. Answer the user."
STRUCTURED_OUTPUT_PROMPT = f"Return your answer by calling the tool {STRUCTURED_OUTPUT}."

MOST_CONTINUATIONS = 3
"""How often a message that reached its length limit is continued."""

_RECEIVED = "The answer was received."
_NOT_CALLED = "This tool was not called: the answer came with the same message."
_NO_JSON = "The arguments are not valid JSON."

_ANSWERED = {"end_turn", "stop_sequence", "tool_use"}


@dataclass(slots=True)
class AgentLoop:
    """One run of the agent."""

    context: RunContext
    calls: ModelCalls
    tools: ToolTurn
    waiting: WaitingMessages = field(init=False)
    _turn: asyncio.Task[AssistantFinal] | None = None
    _nudged: bool = False
    _is_stopped: bool = True
    """Whether a turn that is cancelled was stopped, and not replaced by an urgent message."""
    _resumed: Sequence[ModelToolCall] | None = None
    """The calls of a parked run that it goes on with; None if it was not parked, or has gone on."""
    _is_parked: bool = False
    _closing: asyncio.Event | None = None
    """Of a run that is kept open: ends that."""

    def __post_init__(self) -> None:
        self.waiting = WaitingMessages(self._replace_turn)

    async def resume(self) -> bool:
        """Whether the run goes on with what it was parked with."""
        state = self.context.plan.parked
        if state is None or not await self.calls.transcript.resume(state["messages"], state["calls"]):
            return False
        self._resumed = [ModelToolCall(*call) for call in state["calls"]]
        self.tools.resume(state["results"], self._resumed)
        self.calls.steps, self.calls.continued_text = state["steps"], state["text"]
        return True

    def park(self) -> dict[str, Any]:
        """What the next attempt goes on with; nothing is published or stored any more."""
        self._is_parked = True
        transcript = self.calls.transcript
        return {
            "calls": [[use.call_id, use.name, use.args] for use in self.tools.unfinished.values()],
            "results": [*self.tools.finished],
            # Of a run with a conversation they are stored with that.
            "messages": transcript.messages if self.context.plan.conversation is None else None,
            "steps": self.calls.steps,
            "text": self.calls.continued_text,
        }

    def interrupt(self) -> None:
        """End the current turn on request; the run continues with the messages that wait."""
        self._is_stopped = True
        self._replace_turn()

    def _replace_turn(self) -> None:
        if self._turn is not None:
            self._turn.cancel()

    async def turn_ended(self) -> None:
        """Wait until the current turn has ended."""
        if self._turn is not None:
            await asyncio.wait({self._turn})

    async def run(self) -> AssistantFinal:
        """Work until the model has answered everything; raises `ExecutionFailed`."""
        while True:
            answer = await self._run_turn()
            if answer is not None and not self.waiting:
                await self._keep_open()
            if not (sent := self.waiting.take_next()):
                if answer is None:
                    # The message that interrupted the turn was part of it.
                    raise ExecutionFailed("aborted", "aborted")
                self.waiting.close()
                return answer
            await self._add_user([], sent)

    async def _keep_open(self) -> None:
        self._closing = asyncio.Event()
        try:
            await self.context.control.keep_open(self.context.plan.keep_open, self._closing)
        finally:
            self._closing = None

    def close_open_run(self) -> bool:
        """Let a run that is kept open end with its answer; False if it is at work."""
        if self._closing is None or self.waiting:
            return False
        self.waiting.close()
        self._closing.set()
        return True

    async def _run_turn(self) -> AssistantFinal | None:
        """The answer of a turn; None if it was interrupted."""
        self._turn = asyncio.create_task(self._answer())
        self._is_stopped = False
        try:
            await asyncio.wait({self._turn})
        except asyncio.CancelledError:
            self._is_stopped = True
            raise
        finally:
            # If the run is cancelled, so is its turn.
            turn, self._turn = self._turn, None
            turn.cancel()
            await asyncio.wait({turn})
            await run_to_completion(self._end_turn(turn))
        return None if turn.cancelled() else turn.result()

    async def _end_turn(self, turn: asyncio.Task[AssistantFinal]) -> None:
        """What clients have seen of the turn gets into the transcript, and each call a result."""
        if self._is_parked:
            return
        if turn.cancelled() or turn.exception() is not None:
            is_stopped = turn.cancelled() and self._is_stopped
            self.calls.keep_unfinished(self.tools.finished, is_stopped=is_stopped)
        await self.tools.publish_unfinished()
        await self.calls.report()

    async def _answer(self) -> AssistantFinal:
        continuations = pauses = 0
        if self._resumed is None:
            self.calls.continued_text = ""
        else:
            await self._go_on()
        while True:
            message = await self.calls.next_message()
            if self.calls.channel.budget_exhausted:
                raise ExecutionFailed(*BUDGET)
            # Complete calls of a message that is too long are made like those of any other.
            is_cut = message.stop_reason == "max_tokens" and not message.tool_uses
            if is_cut and continuations < MOST_CONTINUATIONS:
                continuations += 1
                self._continue(message)
            elif message.stop_reason == PAUSED and not message.tool_uses and pauses < MOST_PAUSES:
                pauses += 1
                self.calls.continued_text += message.text
            elif message.stop_reason not in _ANSWERED and not message.tool_uses:
                outcome = NO_ANSWER.get(message.stop_reason, INTERNAL)
                log.warning("run.no_answer", outcome=outcome, reason=loggable(str(message.stop_reason)))
                raise ExecutionFailed(*outcome)
            elif (answer := await self._next_step(message)) is not None:
                return answer

    async def _go_on(self) -> None:
        """Make the calls with which the run was parked; it has none if it waited for its budget."""
        uses, self._resumed = self._resumed, None
        await self.context.control.waits.resume()
        if uses:
            await self._add_user(await self.tools.run(uses), self.waiting.take_urgent())

    def _continue(self, message: MessageFold) -> None:
        self.calls.continued_text += message.text
        self.calls.transcript.add_note(TOO_LONG_PROMPT)

    async def _next_step(self, message: MessageFold) -> AssistantFinal | None:
        """The answer, or None after the results of the tool calls were added."""
        structured = [use for use in message.tool_uses if use.name == STRUCTURED_OUTPUT]
        others = [use for use in message.tool_uses if use.name != STRUCTURED_OUTPUT]
        if structured and self.calls.request.answers_by_tool and isinstance(structured[0].args, dict):
            self.calls.transcript.add_results([_result(structured[0], _RECEIVED)], of_others=_NOT_CALLED)
            return _structured_by_tool(structured[0])
        if not message.tool_uses:
            return self._text_answer(message)
        self.calls.continued_text = ""
        self.tools.finished = [_result(use, _NO_JSON, is_error=True) for use in structured]
        results = await self.tools.run(message.tool_uses if not structured else others)
        await self._add_user(results, self.waiting.take_urgent())
        return None

    def _text_answer(self, message: MessageFold) -> AssistantFinal | None:
        request, text = self.calls.request, self.calls.continued_text + message.text
        nudge = STRUCTURED_OUTPUT_PROMPT if request.answers_by_tool else EMPTY_PROMPT
        if (request.answers_by_tool or not text.strip()) and not self._nudged:
            self._nudged = True
            self.calls.transcript.add_note(nudge)
            return None
        if request.output_format is None:
            return AssistantFinal(content=text)
        return AssistantFinal(content=text, structured_output=_parsed(text))

    async def _add_user(self, results: Sequence[dict[str, Any]], sent: Sequence[SentMessage]) -> None:
        """Add results of tool calls and messages of clients to the conversation; an interrupt loses none."""
        blocks = [block for each in sent for block in user_blocks(each.message)]
        self.calls.transcript.add_user([*results, *blocks])
        await run_to_completion(self._publish_delivered(sent))

    async def _publish_delivered(self, messages: Sequence[SentMessage]) -> None:
        for sent in messages:
            taken = UserMessageDelivered(message_id=sent.message_id, content=sent.message.text)
            await self.context.events.publish(taken)


def _structured_by_tool(use: ModelToolCall) -> AssistantFinal:
    return AssistantFinal(content=json.dumps(use.args, ensure_ascii=False), structured_output=use.args)


def _result(use: ModelToolCall, text: str, *, is_error: bool = False) -> dict[str, Any]:
    return tool_result(use.call_id, [text_block(text)], is_error=is_error)


def _parsed(text: str) -> Any:
    """The answer as JSON; None if it is none, which no schema accepts."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None

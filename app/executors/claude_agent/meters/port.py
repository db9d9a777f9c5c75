"""RunMeter: the protocol of what turns a run's messages into billing records."""

from collections.abc import Iterator
from typing import Final, Protocol

from claude_agent_sdk import Message

from app.executors.claude_agent.meters.usage import MeteredMessage
from app.usage.records import ExecutorType, Meters, UsageFact

EXECUTOR_TYPE: Final[ExecutorType] = "claude_sdk"
"""What receipts of this executor's runs name."""


class RunMeter(Protocol):
    """Reports each message of a run once."""

    def observe(self, message: Message) -> None:
        """Record which messages begin; called before any other part of the run gets the SDK message.

        Raises an `AppError` if the message cannot be recorded; then it must not be processed.
        """
        ...

    def feed(self, message: MeteredMessage) -> Iterator[UsageFact]:
        """Report a message the SDK has completed."""
        ...

    def finish(self) -> Iterator[UsageFact]:
        """Report the rest; the run has ended."""
        ...

    def summary(self) -> Meters:
        """How many messages each meter counted."""
        ...

"""Facts, and a place for journals of them."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from app.billing.receipts.journal import Journal
from app.ids import AccountId, ApiKeyId, MessageId, RunId, RunKey, new_uuid
from app.usage.records import Attribution, TokenUsage, UsageFact

ACCOUNT = AccountId(UUID(int=1))
KEY = ApiKeyId(UUID(int=2))
SMALL = 4096


AT = datetime(2026, 11, 22, 12, 0, 0, 123456, tzinfo=UTC)


def a_fact(message: str = "msg_1", output: int = 5) -> UsageFact:
    return UsageFact(
        run=RunKey(ACCOUNT, RunId("run-1")),
        attempt=0,
        message_id=MessageId(message),
        attribution=Attribution(KEY, "claude_agents:assistant", "req-ü\n1"),
        model="claude-haiku-5-5",
        usage=TokenUsage(input_tokens=10, output_tokens=output),
        executor_type="claude_sdk",
        at=AT,
    )


def partial(fact: UsageFact) -> UsageFact:
    return replace(fact, basis="partial", output_estimated=True)


def recovered(fact: UsageFact) -> UsageFact:
    return replace(fact, basis="recovered")


@dataclass(frozen=True, slots=True)
class JournalDirectory:
    """A directory of journals."""

    path: Path

    def journal(self, segment_bytes: int = SMALL) -> Journal:
        return Journal(self.path, new_uuid(), segment_bytes=segment_bytes)

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.journal"))

    def names(self) -> list[str]:
        return sorted(path.suffix for path in self.path.iterdir())

    def remaining(self) -> list[UsageFact]:
        """What the dead have left, as a new process finds it; the new one dies at once, too."""
        journal = self.journal()
        found = journal.recover()
        journal.close()
        return found

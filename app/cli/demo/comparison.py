"""Compares what the scripted model has sent with what the receipts charge."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from app.simulator.server import RecordedMessage
from app.usage.provider import token_usage
from app.usage.records import TokenUsage
from runtally import Receipt


@dataclass(frozen=True, slots=True)
class ComparedMessage:
    """A message on the wire, and its receipt if there is one."""

    sent: RecordedMessage
    receipt: Receipt | None

    @property
    def is_cut(self) -> bool:
        """Whether the connection broke before the last numbers were sent."""
        return self.sent.final_usage is None

    @property
    def sent_input(self) -> int:
        return token_usage(self.sent.start_usage).input_tokens

    @property
    def sent_output(self) -> int:
        return token_usage(self.sent.final_usage or self.sent.start_usage).output_tokens

    @property
    def is_equal(self) -> bool:
        """Whether the receipt charges this message exactly; of one that was cut off, all but its output."""
        receipt = self.receipt
        if receipt is None or receipt.model != self.sent.model:
            return False
        usage = token_usage(self.sent.final_usage or self.sent.start_usage)
        if self.is_cut:
            has_output = receipt.basis == "partial" and receipt.output_tokens > 0
            usage = replace(usage, output_tokens=receipt.output_tokens) if has_output else usage
        return usage == TokenUsage(
            input_tokens=receipt.input_tokens,
            output_tokens=receipt.output_tokens,
            cache_read_tokens=receipt.cache_read_tokens,
            cache_write_5m_tokens=receipt.cache_write_5m_tokens,
            cache_write_1h_tokens=receipt.cache_write_1h_tokens,
        )


def compare(sent: Iterable[RecordedMessage], receipts: Iterable[Receipt]) -> list[ComparedMessage]:
    """All messages with their receipts; raises `KeyError` for a receipt that no message explains."""
    messages = {message.message_id: message for message in sent if message.first_byte_at is not None}
    charged: dict[str, Receipt] = {}
    for receipt in receipts:
        if receipt.usage_unit_id not in messages or receipt.usage_unit_id in charged:
            raise KeyError(receipt.usage_unit_id)
        charged[receipt.usage_unit_id] = receipt
    return [ComparedMessage(message, charged.get(message.message_id)) for message in messages.values()]

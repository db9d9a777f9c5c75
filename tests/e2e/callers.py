"""Runs of several tenants, and a model that notes for whom each message was."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from app.simulator.script import ApiRequest, Reply, Text, ToolUse, text_of
from tests.e2e.stories import CLOCK

ACCOUNTS, KEYS, USERS, TEAMS = 5, 4, 40, 4
"""Keys and end users are those of one account."""


class Caller(NamedTuple):
    """For whom a run is; its prompt says so, so that the provider's record knows it as well."""

    account: str
    key: str
    user: str
    team: str

    @property
    def prompt(self) -> str:
        """The prompt of a run."""
        return f"[{self.account} {self.key} {self.user} {self.team}] how late is it?"


def caller_of(number: int) -> Caller:
    """For whom the run with this number is: all combinations occur."""
    account, number = number % ACCOUNTS, number // ACCOUNTS
    user, team = number % USERS, (number // 3) % TEAMS
    return Caller(f"a{account}", f"k{number % KEYS}", f"a{account}-u{user}", f"t{team}")


@dataclass(slots=True)
class Provider:
    """A model that looks at the clock before every other answer, and notes who has asked."""

    asked_by: dict[str, Caller] = field(default_factory=dict)
    """By message id."""

    def __call__(self, request: ApiRequest) -> Reply:
        """Answer with numbers that are those of no other message."""
        found = re.search(r"\[(a\d) (k\d) (\S+) (t\d)\]", text_of(request.messages[0]["content"]))
        assert found is not None, request.messages
        number = len(self.asked_by)
        usage = {
            "input_tokens": 100 + number % 97,
            "output_tokens": 1,
            "cache_read_input_tokens": number % 1000,
            "cache_creation_input_tokens": number % 7,
            "cache_creation": {
                "ephemeral_5m_input_tokens": number % 7,
                "ephemeral_1h_input_tokens": 0,
            },
        }
        is_first = number % 2 == 0 and not request.tool_results
        blocks = [ToolUse(CLOCK)] if is_first else [Text("It is late.")]
        reply = Reply(blocks, usage=usage, final_usage={"output_tokens": 10 + number % 13})
        self.asked_by[reply.message_id] = Caller(*found.groups())
        return reply

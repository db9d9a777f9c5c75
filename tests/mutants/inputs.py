"""Faults of attachments, of schemas of answers, and of messages that were requested again."""

from tests.mutants.mutant import Mutant

ATTACHMENTS = ("tests/unit/requests/test_attachments.py",)
MESSAGES = ("tests/contracts/test_messages_executor.py",)
REFUSED = ("tests/integration/messages_runs/test_attachments_are_refused.py",)
MODEL_SCHEMAS = ("tests/unit/platform/json_schema/test_model_schema.py",)
CLIENT_TOOLS = ("tests/unit/runs/requests/test_schemas.py",)
RETRIED = ("tests/unit/executors/claude_agent/test_retried.py",)
DISCARDED = ("tests/unit/http/ai_sdk/test_discarded_text.py",)
AG_UI = ("tests/unit/http/ag_ui/test_snapshots.py",)
OUTPUT = ("tests/unit/runs/events/test_output.py",)

INPUTS = (
    Mutant(
        "attachments by URL are accepted though the operator does not allow them",
        "app/runs/requests/attachments.py",
        "if attachment.url is not None and not self.by_url:",
        "if False:",
        ATTACHMENTS,
    ),
    Mutant(
        "a URL with a password goes to the provider",
        "app/requests/attachments.py",
        'if "@" in parts.netloc:',
        "if False:",
        ATTACHMENTS,
    ),
    Mutant(
        "what is no PDF is sent as one",
        "app/requests/attachments.py",
        "if not require_content(data).startswith(_PDF_BEGINS):",
        "if not require_content(data):",
        ATTACHMENTS,
    ),
    Mutant(
        "alternatives of which parts are left out exclude each other",
        "app/platform/json_schema/conversion.py",
        'if "not" in schema and "not" not in result and (exact := self._exact(schema["not"])) is not None:',
        'if "not" in schema and "not" not in result and (exact := self._convert(schema["not"])) is not None:',
        MODEL_SCHEMAS,
    ),
    Mutant(
        "a reference to data gets to the CLI",
        "app/platform/json_schema/conversion.py",
        'names_of(each["$ref"]) not in places',
        "False",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "a pattern that matches a declared name gets to the CLI",
        "app/platform/json_schema/js_patterns.py",
        'None if "|" in pattern else _BEGINNING.match(pattern)',
        "_BEGINNING.match(pattern)",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "what JavaScript takes for present is declared",
        "app/platform/json_schema/conversion.py",
        "for name, value in properties.items() if name not in _INHERITED}",
        "for name, value in properties.items()}",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "equal numbers are different values",
        "app/platform/json_schema/conversion.py",
        "return float(value) + 0.0",
        "return value",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "keywords beside a reference of draft 7 count",
        "app/platform/json_schema/conversion.py",
        'if dialect >= DRAFT_7 and isinstance(schema.get("$ref"), str):',
        "if False:",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "`nullable` is ignored",
        "app/platform/json_schema/nullable.py",
        'if changed.pop("nullable", False) is True else changed',
        'if changed.pop("nullable", False) is None else changed',
        MODEL_SCHEMAS,
    ),
    Mutant(
        "a client tool whose shown schema is invalid is accepted",
        "app/runs/requests/schemas.py",
        "        await self._document(shown, account_id)\n",
        "",
        CLIENT_TOOLS,
    ),
    Mutant(
        "a reference without an end gets to the CLI",
        "app/platform/json_schema/model_schema.py",
        "    if _has_endless_reference(converted):\n",
        "    if False:\n",
        MODEL_SCHEMAS,
    ),
    Mutant(
        "text of a message that the CLI dropped stays",
        "app/executors/claude_agent/mapper.py",
        "            yield from before.discarded_events(show_thinking=self.show_thinking)\n",
        "            pass\n",
        RETRIED,
    ),
    Mutant(
        "text that the next message repeats is shown twice",
        "app/http/ai_sdk/blocks.py",
        "            if discarded.add(delta):\n",
        "            if discarded.add(delta) and False:\n",
        DISCARDED,
    ),
    Mutant(
        "an AG-UI client shows the text of an attempt that was taken over",
        "app/http/ag_ui/output/encoder.py",
        "                return unfinished, None\n",
        "                return None\n",
        AG_UI,
    ),
    Mutant(
        "an earlier message that cannot be read ends an AG-UI thread",
        "app/http/ag_ui/input.py",
        "            return validate(with_readable_earlier(messages))\n",
        "            raise\n",
        ("tests/unit/http/ag_ui/test_dialect.py",),
    ),
    Mutant(
        "the snapshot has the discarded message",
        "app/http/ag_ui/output/shown_messages.py",
        "        self._events, self._posted = kept, posted\n",
        "        self._posted = posted\n",
        AG_UI,
    ),
    Mutant(
        "a subagent's prompt counts as the conversation's context",
        "app/runs/events/output.py",
        'if (fact.origin, fact.basis) == ("assistant", "final"):',
        'if fact.basis == "final":',
        OUTPUT,
    ),
    Mutant(
        "the earliest attachments of a chat are kept",
        "app/runs/requests/attachments.py",
        "for content in reversed(earlier):",
        "for content in earlier:",
        ATTACHMENTS,
    ),
    Mutant(
        "what the provider has refused is sent again",
        "app/conversations/neutral_transcript.py",
        'elif line.get("subtype") == _LEFT_OUT:',
        "elif False:",
        REFUSED,
    ),
    Mutant(
        "an account without credit loses its attachments",
        "app/executors/api_format/failures.py",
        "_ABOUT_ATTACHMENTS.search(reason) is not None",
        "True",
        REFUSED,
    ),
    Mutant(
        "each turn of a long conversation changes its beginning",
        "app/executors/messages_api/sent_attachments.py",
        "(count > MAX_COUNT // 2 or chars > MAX_CHARS // 2)",
        "(count > MAX_COUNT or chars > MAX_CHARS)",
        REFUSED,
    ),
    Mutant(
        "an image of a tool that the provider refuses ends the run",
        "app/executors/messages_api/exchange.py",
        "            return is_of_tools",
        "            return False",
        MESSAGES,
    ),
    Mutant(
        "clients are not told that a call is made again",
        "app/executors/messages_api/exchange.py",
        "        await self._publish(retrying(attempt=attempt, delay_ms=delay_s * 1000))\n",
        "",
        MESSAGES,
    ),
)

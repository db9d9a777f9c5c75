"""Faults planted in the branches of conversations."""

from tests.mutants.mutant import Mutant

_ROWS = ("tests/integration/test_conversation_branches.py",)
_STORY = ("tests/e2e/test_a_conversation_branches.py",)
_CHAT = ("tests/e2e/test_a_chat_of_the_ai_sdk.py",)
_THREAD = ("tests/e2e/test_an_ag_ui_thread_goes_on.py",)
_COMPARED = ("tests/unit/http/ag_ui/test_comparison.py",)
_COMPARISON = "app/http/ag_ui/comparison.py"
_PLACEMENT = ("tests/unit/conversations/branching/test_placement.py",)

_PASSED_ON = ("tests/integration/test_undelivered_messages.py",)
_HEARD = ("tests/e2e/test_messages_are_passed_on.py",)
_TREE = ("tests/unit/conversations/branching/test_tree.py",)
_UNDELIVERED = "app/runs/conversations/undelivered.py"
_RUN_ROWS = "app/runs/conversations/repository.py"

BRANCHES = (
    Mutant(
        "a run that has a line is passed on",
        _UNDELIVERED,
        "    return candidates[last:]",
        "    return candidates",
        _PASSED_ON,
    ),
    Mutant(
        "a run with a line that is no message is not passed on",
        "app/conversations/branching/repository.py",
        '            json_text(_entries.entry, "type").in_(["user", "assistant"]),\n',
        "",
        _PASSED_ON,
    ),
    Mutant(
        "the request of a conversation is deleted before its message was passed on",
        "app/runs/repository.py",
        "CASE WHEN state_key IS NULL AND coalesce(",
        "CASE WHEN coalesce(",
        _HEARD,
    ),
    Mutant(
        "a history before a message that is passed on is lost",
        _UNDELIVERED,
        "                earlier = messages[:-1]",
        "                earlier = []",
        _PASSED_ON,
    ),
    Mutant(
        "messages that are passed on are shown as one",
        "app/runs/conversations/repository.py",
        'for each in columns.pop("passed_on") or ()]',
        'for each in columns.pop("passed_on") and ()]',
        _PASSED_ON,
    ),
    Mutant(
        "attachments that are passed on are not limited",
        _UNDELIVERED,
        "if isinstance(part, TextPart) or self._rules.allow(part) else unreadable(part.type)",
        "if part is not None else unreadable(part.type)",
        _PASSED_ON,
    ),
    Mutant(
        "runs belong to a conversation by their time",
        _RUN_ROWS,
        "        runs.c.session_id == session_id,\n        runs.c.session_id.in_(branches),\n"
        "        and_(runs.c.session_id.is_(None), runs.c.created_at >= created_at),",
        "        runs.c.created_at >= created_at,",
        _ROWS,
    ),
    Mutant(
        "the newest run is that with the latest time",
        _RUN_ROWS,
        "false()).desc(), runs.c.turn.desc())",
        "false()).desc(), runs.c.created_at.desc())",
        _ROWS,
    ),
    Mutant(
        "a fork counts what its original has cost",
        "app/conversations/branching/tree.py",
        "        return [run_id for run_id in self._own[session_id] if run_id not in self._inherited]",
        "        return self._own[session_id]",
        _TREE,
    ),
    Mutant(
        "a history is compared with another branch",
        "app/runs/conversations/posted_history.py",
        "                path = up_to = tree.path_to(place.run_id)[:-1]",
        "                path = tree.path_to(place.run_id)[:-1]",
        _STORY,
    ),
    Mutant(
        "a branch costs what its last run cost",
        "app/http/api/conversations/schemas.py",
        "sum((totals[run].cost_usd for run in branch.runs), Decimal())",
        "totals[branch.runs[-1]].cost_usd",
        _STORY,
    ),
    Mutant(
        "a conversation has any number of branches",
        "app/runs/conversations/branching.py",
        "if len(tree.branches) >= MOST_BRANCHES:",
        "if len(tree.branches) > 9 * MOST_BRANCHES:",
        _ROWS,
    ),
    Mutant(
        "a deleted conversation is copied",
        "app/conversations/message_store.py",
        "        if up_to_entry not in ids:\n            raise EntryGone\n",
        "",
        _ROWS,
    ),
    Mutant(
        "messages that are answered again lose the client's id",
        "app/runs/requests/repeated.py",
        "message_id=record.message_id",
        "message_id=None",
        _STORY,
    ),
    Mutant(
        "a new message follows the first known one",
        "app/conversations/branching/placement.py",
        "for index in reversed(range(first_unshown(earlier, known.unshown))):",
        "for index in range(first_unshown(earlier, known.unshown)):",
        _PLACEMENT,
    ),
    Mutant(
        "an answer that was taken off the screen is heard",
        "app/runs/conversations/known_messages.py",
        "unshown = frozenset(each for each, run_id in last.items() if run_id in answered)",
        "unshown = frozenset[str]()",
        ("tests/e2e/test_a_refused_post_has_changed_the_screen.py",),
    ),
    Mutant(
        "a branch has the whole transcript of another one",
        "app/conversations/branching/repository.py",
        "    return of_transcript & (_entries.position <= last.scalar_subquery())",
        "    return of_transcript & (_entries.position > 0)",
        _ROWS,
    ),
    Mutant(
        "a run executes where its conversation continues",
        "app/runs/starting.py",
        "session_id=run.session_id or conversation.session_id,",
        "session_id=conversation.session_id,",
        _ROWS,
    ),
    Mutant(
        "a branch begins after a run that goes on",
        "app/runs/conversations/service.py",
        "if any(run.run_id in point.runs for run in unfinished):",
        "if any(run.run_id not in point.runs for run in unfinished):",
        _STORY,
    ),
    Mutant(
        "what a branch leaves behind goes on",
        "app/runs/conversations/service.py",
        'replaces=forked is not None or request.on_conflict == "interrupt"',
        'replaces=request.on_conflict == "interrupt"',
        _STORY,
    ),
    Mutant(
        "a conversation is shown with the waiting runs of other branches",
        "app/runs/conversations/page.py",
        " if turn.key.run_id in on_branch]",
        "]",
        _STORY,
    ),
    Mutant(
        "a regeneration that has ended is joined",
        "app/runs/chats.py",
        "is_over = message.regenerate and run.finished",
        "is_over = False",
        _CHAT,
    ),
    Mutant(
        "a message gets the answer of a deleted conversation",
        "app/runs/conversations/service.py",
        "return conversation is not None and await has_run(reader, conversation, run.run_id)",
        "return conversation is not None",
        _CHAT,
    ),
    Mutant(
        "an answer whose contents were deleted is joined",
        "app/runs/chats.py",
        "run.contents_deleted_at is not None or run.state_key is None",
        "run.state_key is None",
        _CHAT,
    ),
    Mutant(
        "each answer of a message is a query",
        "app/runs/chats.py",
        "        count *= 2\n",
        "        count = 1\n",
        ("tests/integration/test_chat_messages.py",),
    ),
    Mutant(
        "a client that shows a part of an answer is not corrected",
        "app/http/ag_ui/segment.py",
        "                await show(first)\n",
        "",
        _THREAD,
    ),
    Mutant(
        "the model gets what a stopped page has not read",
        "app/runs/worker.py",
        "if plan.shown_answer is not None and plan.conversation is not None:",
        "if plan.shown_answer is not None and plan.conversation is None:",
        ("tests/e2e/test_a_chat_stops_reading.py",),
    ),
    Mutant(
        "a cut answer is cut on every branch",
        "app/conversations/cuts/unseen_answers.py",
        "TranscriptEntry(cut_line(entries, shown), None)",
        "TranscriptEntry(cut_line(entries, shown), shown.run_id)",
        ("tests/e2e/test_a_chat_stops_reading.py",),
    ),
    Mutant(
        "an answer is cut though its page shows another text",
        "app/conversations/cuts/answer_cuts.py",
        " and _digest(text[: self.chars]) == self.digest",
        "",
        ("tests/unit/conversations/cuts/test_answer_cuts.py",),
    ),
    Mutant(
        "a client that keeps the places of its messages gets one snapshot",
        _COMPARISON,
        "    if kept == ids[: len(kept)]:\n",
        "    if kept is not ids:\n",
        _COMPARED,
    ),
    Mutant(
        "an imported history returns with other ids",
        _COMPARISON,
        "if _turns(own[:begin]) == _turns(imported)",
        "if own[:begin] == imported",
        _COMPARED,
    ),
    Mutant(
        "a person's message has the server's note for the model",
        _COMPARISON,
        'escape_tags(_NOTE.sub("", text))',
        "escape_tags(text)",
        _COMPARED,
    ),
    Mutant(
        "messages that were answered as one stay merged",
        _COMPARISON,
        "    for index in range(place, -1, -1):\n",
        "    for index in (place,):\n",
        _COMPARED,
    ),
    Mutant(
        "what a thread begins with vanishes from the screen",
        "app/http/ag_ui/segment.py",
        "    if placement.place != After(None):\n",
        "    if placement.place is not None:\n",
        _THREAD,
    ),
    Mutant(
        "an outage of the database ends the streams of AG-UI",
        "app/http/ag_ui/segment.py",
        "        except Unavailable as error:\n",
        "        except LookupError as error:\n",
        ("tests/unit/http/ag_ui/test_segment.py",),
    ),
)

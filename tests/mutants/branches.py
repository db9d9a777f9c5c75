"""Faults planted in the branches of conversations."""

from tests.mutants.mutant import Mutant

_ROWS = ("tests/integration/test_conversation_branches.py",)
_STORY = ("tests/e2e/test_a_conversation_branches.py",)
_CHAT = ("tests/e2e/test_a_chat_of_the_ai_sdk.py",)
_THREAD = ("tests/e2e/test_an_ag_ui_thread_goes_on.py",)
_PLACEMENT = ("tests/unit/conversations/branching/test_placement.py",)

BRANCHES = (
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
        "for index in reversed(range(len(earlier))):",
        "for index in range(len(earlier)):",
        _PLACEMENT,
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
        " and not (message.regenerate and latest.finished)",
        "",
        _CHAT,
    ),
    Mutant(
        "a client that shows a part of an answer is not corrected",
        "app/http/ag_ui/segment.py",
        "                encoder.show(await load())\n",
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
)

"""Faults planted in the public package and in how the tools of a project are found."""

from tests.mutants.mutant import Mutant

_CLIENT = ("tests/clients/test_python_client.py",)

CLIENT = (
    Mutant(
        "a reader gets an event twice",
        "runtally/protocol/following.py",
        "        if position <= self.position:\n            return None\n",
        "",
        _CLIENT,
    ),
    Mutant(
        "a reader continues from the first event",
        "runtally/protocol/calls.py",
        'headers = {**_EVENTS, "Last-Event-ID": str(after)} if after else _EVENTS',
        "headers = _EVENTS",
        _CLIENT,
    ),
    Mutant(
        "the key follows a redirect",
        "runtally/protocol/connection.py",
        '"follow_redirects": False',
        '"follow_redirects": True',
        _CLIENT,
    ),
    Mutant(
        "a fork is repeated",
        "runtally/protocol/calls.py",
        "parse=one(Conversation), repeatable=False",
        "parse=one(Conversation)",
        _CLIENT,
    ),
    Mutant(
        "a repeated message is another message",
        "runtally/protocol/calls.py",
        'headers={"Idempotency-Key": str(uuid4())},',
        "",
        _CLIENT,
    ),
    Mutant(
        "Retry-After is not honoured",
        "runtally/protocol/retries.py",
        "delay_s += error.retry_after_s",
        "delay_s += 0",
        _CLIENT,
    ),
    Mutant(
        "bytes that are no events are signs of life",
        "runtally/protocol/following.py",
        "if time.monotonic() - self._sign_of_life_at > self._connection.timeout_s:",
        "if chunk is None:",
        _CLIENT,
    ),
    Mutant(
        "an unknown event is an error",
        "runtally/events.py",
        "        except ValidationError:\n            return UnknownEvent(type=kind, data=data)\n",
        "        except ZeroDivisionError:\n            return UnknownEvent(type=kind, data=data)\n",
        _CLIENT,
    ),
    Mutant(
        "an event has no size limit",
        "runtally/protocol/event_stream.py",
        "self._held_bytes += len(part)",
        "self._held_bytes += 0",
        ("tests/unit/runtally/protocol/test_event_stream.py",),
    ),
    Mutant(
        "a project takes modules of others",
        "app/tools/project.py",
        "sys.meta_path.append(self)",
        "sys.meta_path.insert(0, self)",
        ("tests/unit/tools/test_project.py",),
    ),
    Mutant(
        "a tool that all users can change is loaded",
        "app/tools/project.py",
        "if path.stat().st_mode & S_IWOTH:",
        "if path.stat().st_mode & 0:",
        ("tests/unit/tools/test_project.py",),
    ),
    Mutant(
        "init overwrites a file",
        "app/cli/project/init.py",
        "    _require_absent(files)\n",
        "",
        ("tests/e2e/test_a_project_is_laid_out.py",),
    ),
)

"""Conversations of OpenAI, LangChain, the AI SDK and ChatGPT as messages of a run; pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from runtally.options import Message

Role = Literal["user", "assistant"]
_ROLES: dict[str, Role] = {
    **dict.fromkeys(("user", "human", "HumanMessage"), "user"),
    **dict.fromkeys(("assistant", "ai", "AIMessage"), "assistant"),
}
_TEXTS = {"text", "input_text", "output_text"}
_SAYS_NOTHING = {"step-start"}


@dataclass(slots=True)
class ImportedConversation:
    """The messages with text, and how often what else there was."""

    messages: list[Message] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def conversations_in(document: Any) -> dict[str, Sequence[Any]]:
    """The messages of each conversation of a file, by its title; several only in exports of ChatGPT."""
    match document:
        case [{"mapping": {}}, *_]:
            found: dict[str, Sequence[Any]] = {}
            for number, each in enumerate(document, 1):
                title = str(each.get("title") or number)
                found[title if title not in found else f"{title} ({number})"] = list(_current_branch(each))
            return found
        case {"mapping": {}}:
            return {str(document.get("title")): list(_current_branch(document))}
        case {"messages": [*messages]} | [*messages]:
            return {"": messages}
        case _:
            return {}


def read_messages(entries: Sequence[Any]) -> ImportedConversation:
    found = ImportedConversation()
    for entry in entries:
        role, content = _parts_of(entry)
        if role not in _ROLES:
            found.left_out[f"message of the role {role or 'unknown'}"] += 1
            continue
        if text := "\n\n".join(_texts(content, found.left_out)).strip():
            found.messages.append({"role": _ROLES[role], "content": text})
        else:
            found.left_out["message without text"] += 1
    return found


def _current_branch(conversation: Mapping[str, Any]) -> Iterator[Any]:
    """What ChatGPT shows of a conversation: the path to its current node, from the beginning on."""
    nodes = conversation["mapping"]
    path: list[Any] = []
    seen: set[object] = set()
    name = conversation.get("current_node")
    while isinstance(name, str) and name in nodes and name not in seen:
        seen.add(name)
        path.append(nodes[name])
        name = nodes[name].get("parent")
    for node in reversed(path):
        if isinstance(message := node.get("message"), dict):
            yield message


def _parts_of(entry: Any) -> tuple[str, Any]:
    """The role and the content of a message, in the words of its program."""
    role, content = "", None
    match entry:
        case {"author": {"role": str(role)}}:
            inner = entry.get("content")
            content = inner.get("parts") if isinstance(inner, dict) else inner
        case {"role": str(role)}:
            content = entry.get("parts") or entry.get("content")
        case {"lc": _, "id": [*_, str(role)], "kwargs": dict(inner)} | {
            "type": str(role),
            "data": dict(inner),
        }:
            content = inner.get("content")
        case {"type": str(role)}:
            content = entry.get("content")
    return role, content


def _texts(content: Any, left_out: Counter[str]) -> Iterator[str]:
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str(text):
                yield text
            case {"type": str(kind), "text": str(text)} if kind in _TEXTS:
                yield text
            case {"type": str(kind)} | {"content_type": str(kind)} if kind not in _SAYS_NOTHING:
                left_out[f"part of the type {kind}"] += 1
            case _:
                continue

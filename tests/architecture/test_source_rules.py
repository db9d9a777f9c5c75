"""Rules of the source that no linter has."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import mentions, parsed, shown, sources, statements, walked

LINES_PER_FILE = 400
LINES_PER_FUNCTION = 60
FILES_PER_FOLDER = 14

CODE = sources("app", "runtally", "tests", "benchmarks")
PYTHON = [*CODE, *sources("migrations")]
CONTEXT_MAKERS = ("create_ssl_context", "create_default_context", "SSLContext")
UNFINISHED = re.compile(r"\b(TO" + "DO|FIX" + "ME|XX" + "X|NotImplemented" + r"Error)\b")


def calls(path: Path, *methods: str) -> list[int]:
    """The lines on which a method of one of these names is called."""
    if not mentions(path, *methods):
        return []
    return [
        node.lineno
        for node in walked(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods
    ]


def imports(path: Path) -> set[str | None]:
    """Every module and name a file imports."""
    nodes = [n for n in statements(path) if isinstance(n, ast.Import | ast.ImportFrom)]
    named = {alias.name for node in nodes for alias in node.names}
    return named | {node.module for node in nodes if isinstance(node, ast.ImportFrom)}


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a file."""
    return [node for node in statements(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def test_files_are_short() -> None:
    lengths = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}

    assert {name: length for name, length in lengths.items() if length > LINES_PER_FILE} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{shown(path)}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in CODE
        for node in functions(path)
    }

    assert {name: length for name, length in lengths.items() if length > LINES_PER_FUNCTION} == {}


def test_folders_are_small() -> None:
    files = Counter(shown(path.parent) for path in sources("app", "runtally"))

    assert {name: count for name, count in files.items() if count > FILES_PER_FOLDER} == {}


def test_public_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for path in sources("app"):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(shown(path))

    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_nothing_is_left_for_later() -> None:
    left = {shown(path): UNFINISHED.findall(path.read_text(encoding="utf-8")) for path in PYTHON}

    assert {name: words for name, words in left.items() if words} == {}


def test_only_the_database_opens_and_commits_transactions() -> None:
    found = {shown(path) for path in sources("app") if calls(path, "commit", "begin", "begin_nested")}

    assert found == {"app/platform/db.py"}


def test_an_init_file_holds_one_docstring_and_nothing_else() -> None:
    for path in sources("app"):
        if path.name == "__init__.py":
            module = parsed(path)
            assert ast.get_docstring(module), shown(path)
            # That of the program itself has its release.
            assert len(module.body) == (3 if shown(path) == "app/__init__.py" else 1), shown(path)


def test_nothing_is_mocked() -> None:
    tests = sources("tests")

    assert {shown(path) for path in tests if imports(path) & {"mock", "unittest.mock"}} == set()
    assert {shown(path) for path in tests if calls(path, "setattr")} == set()


def repositories() -> list[Path]:
    found = [path for path in sources("app") if path.stem.endswith("repository")]
    assert len(found) > 10
    return found


def test_a_repository_defines_no_data() -> None:
    defined = {
        shown(path): [node.name for node in statements(path) if isinstance(node, ast.ClassDef)]
        for path in repositories()
    }

    assert {name: classes for name, classes in defined.items() if classes} == {}


def positional_reads(path: Path) -> Iterator[int]:
    """The lines on which a row is unpacked, spread into arguments or indexed by a number."""
    for node in walked(path):
        match node:
            case ast.For(target=ast.Tuple(), iter=rows) | ast.comprehension(target=ast.Tuple(), iter=rows):
                if isinstance(rows, ast.Await) or "row" in ast.unparse(rows):
                    yield rows.lineno
            case ast.Call(args=[*_, ast.Starred(value=ast.Name(id="row"))]):
                yield node.lineno
            case ast.Assign(targets=[ast.Tuple()], value=value) if "row" in ast.unparse(value):
                yield node.lineno
            case ast.Assign(targets=[ast.Tuple()], value=ast.Call(func=ast.Attribute(attr="one" | "first"))):
                yield node.lineno
            case ast.Subscript(value=ast.Name(id="row"), slice=ast.Constant(value=int())):
                yield node.lineno


def test_rows_are_mapped_by_name() -> None:
    found = {shown(path): list(positional_reads(path)) for path in repositories()}

    assert {name: lines for name, lines in found.items() if lines} == {}


def test_connections_to_other_machines_are_made_in_one_place() -> None:
    """Otherwise a proxy, a certificate authority or a limit would have to be set in several."""
    makers = {shown(path) for path in sources("app") if calls(path, "AsyncHTTPTransport", "HTTPTransport")}
    contexts = {shown(path) for path in sources("app") if calls(path, *CONTEXT_MAKERS)}
    sessions = {shown(path) for path in sources("app") if calls(path, "Session", "urlopen", "HTTPAdapter")}
    clients = [
        f"{shown(path)}:{node.lineno}"
        for path in sources("app")
        if mentions(path, "httpx2.AsyncClient")
        for node in walked(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "httpx2.AsyncClient"
        if not {"transport", "trust_env"} <= {keyword.arg for keyword in node.keywords}
    ]

    assert makers == {"app/platform/outgoing.py"}
    # The other one checks the files that settings name.
    assert contexts == {"app/platform/outgoing.py", "app/platform/network.py"}
    assert sessions == set()
    assert clients == []
    assert [shown(path) for path in sources("app") if "httpx" in imports(path)] == []


def test_clients_of_tests_wait_as_long_as_all_tests() -> None:
    """The client's own time-out of five seconds ends a test on a busy machine."""
    impatient = [
        f"{shown(path)}:{node.lineno}"
        for path in sources("tests")
        if mentions(path, "httpx.AsyncClient", "httpx.Client")
        for node in walked(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"httpx.AsyncClient", "httpx.Client"}
        if not {"timeout", "transport", None} & {each.arg for each in node.keywords}
    ]

    assert impatient == []


ENDS_WITH_WHAT_STARTS_IT = {
    "app/platform/background.py": 2,
    "app/cli/processes/supervisor.py": 2,
    "app/cli/serve.py": 2,
    "app/executors/claude_agent/process/cli_process.py": 1,
    "app/executors/claude_agent/process/spawned.py": 1,
    "app/executors/claude_agent/transcripts/open_calls.py": 1,
    "app/executors/claude_agent/watchdog.py": 3,
    "app/executors/control.py": 1,
    "app/executors/messages_api/executor.py": 1,
    "app/executors/messages_api/loop.py": 1,
    "app/executors/waiting/calls.py": 2,
    "app/tools/mcp/asking/elicitation.py": 1,
    "app/executors/tools/turn.py": 1,
    "app/executors/messages_api/transcript.py": 1,
    "app/gateway/exchange.py": 1,
    "app/platform/logs/context.py": 1,
    "app/runs/commands/applied.py": 1,
    "app/runs/dispatch/temporal/dispatcher.py": 1,
    "app/runs/evidence/recorder.py": 1,
    "app/platform/server/in_process.py": 1,
    "app/simulator/server.py": 1,
    "app/streams/idle_timeout.py": 1,
    "app/streams/process_channel.py": 1,
    "app/streams/relay/client.py": 1,
    "app/streams/relayed.py": 1,
    "app/tools/extensions/calling.py": 1,
    "app/tools/mcp/connection.py": 1,
    "app/tools/mcp/servers.py": 1,
    "app/workspaces/egress/proxy.py": 3,
}
"""How many tasks each module starts that inherit the context of what starts them: a part of the same run or
request, or the server itself."""


def test_a_task_that_outlives_what_starts_it_is_detached() -> None:
    """Its log lines would name what happened to start it: see `app/platform/logs/context.py`."""
    found = {shown(path): len(calls(path, "create_task", "ensure_future")) for path in sources("app")}

    assert {name: count for name, count in found.items() if count} == ENDS_WITH_WHAT_STARTS_IT

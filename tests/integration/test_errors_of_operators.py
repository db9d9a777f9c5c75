"""What prevents a start is one sentence that names the variable, the place, the cause and the next step."""

import asyncio
import contextlib
import io
import os
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer

from app.bootstrap.event_log import open_relay
from app.bootstrap.roles import Role
from app.bootstrap.services import open_services
from app.bootstrap.storage import attach_database
from app.cli.addresses import listen
from app.cli.errors import explained
from app.platform.embedded.postgres import EmbeddedPostgres
from app.platform.settings import Settings
from tests.e2e.stories import the_settings
from tests.factories import an_open_database

PASSWORD = "postgres"


async def printed_by(start: Any) -> str:
    """What the command prints on standard error; it exits with 1."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), pytest.raises(typer.Exit) as stopped, explained():
        await start
    assert stopped.value.exit_code == 1
    assert "Traceback" not in printed.getvalue()
    return printed.getvalue().strip()


async def sentence_of(start: Any) -> str:
    """The one line that it prints."""
    text = await printed_by(start)
    assert "\n" not in text
    return text


def says_what_to_do(sentence: str) -> bool:
    """Whether the next step follows the cause; the guide does not repeat it."""
    return re.search(r"; \w", sentence) is not None


async def opened(url: str) -> None:
    async with an_open_database(url) as database:
        await database.require_usable()


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


async def speaks_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(8)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    writer.close()


async def offers_broken_tls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(8)
    writer.write(b"S")
    await writer.drain()
    await reader.read(1)
    writer.write(b"no TLS")
    writer.close()


def postgres_message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def refuses_with(state: bytes, text: bytes) -> Answer:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        fields = b"SFATAL\0VFATAL\0C" + state + b"\0M" + text + b"\0\0"
        writer.write(postgres_message(b"E", fields))
        await writer.drain()
        writer.close()

    return refuse


@asynccontextmanager
async def a_server(answer: Answer) -> AsyncIterator[int]:
    """A listening socket that is no usable PostgreSQL."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"user": "nobody"}, "password of the role nobody is wrong"),
        ({"password": "wrong"}, "password of the role .* is wrong"),
        ({"database": "nowhere"}, r"/nowhere\): there is no database nowhere"),
        ({"port": "1"}, r"127\.0\.0\.1:1/.*nothing listens"),
        ({"host": "no-such-host.invalid"}, "no-such-host.invalid cannot be resolved"),
        ({"query": "?sslmode=require"}, "TLS with the server failed .*rejected SSL upgrade"),
        ({"query": "?sslmode=sometimes"}, "option that cannot be used .*sslmode"),
        ({"query": "?colour=red"}, "option that cannot be used .*colour"),
        ({"port": "port"}, "no valid URL"),
    ],
)
async def test_a_wrong_url_of_the_database_is_explained(
    database_url: str, change: dict[str, str], words: str
) -> None:
    whole = re.fullmatch(r"postgresql://(.*):(.*)@(.*):(.*)/(.*)", database_url)
    assert whole is not None
    parts = dict(zip(("user", "password", "host", "port", "database"), whole.groups(), strict=True))
    given = {"query": "", **parts, **change}
    url = "postgresql://{user}:{password}@{host}:{port}/{database}{query}".format(**given)

    sentence = await sentence_of(opened(url))

    assert re.search(words, sentence), sentence
    assert sentence.startswith("DATABASE_URL (")
    assert parts["password"] not in sentence
    assert says_what_to_do(sentence), sentence


@pytest.mark.parametrize(
    ("answer", "query", "words"),
    [
        (speaks_http, "?sslmode=disable", "no PostgreSQL"),
        (offers_broken_tls, "?sslmode=require", "TLS with the server failed"),
        (offers_broken_tls, "?sslmode=verify-full", "TLS with the server failed .*certificate"),
        (refuses_with(b"28000", b"no pg_hba.conf"), "?sslmode=disable", "refuses the role u .no pg_hba"),
        (refuses_with(b"53300", b"too many clients"), "?sslmode=disable", "no free connection .too many"),
        (refuses_with(b"57P03", b"starting up"), "?sslmode=disable", "is starting or stopping .starting up"),
        (refuses_with(b"42501", b"denied"), "?sslmode=disable", "role u may not connect to the database x"),
    ],
)
async def test_what_answers_instead_of_a_database_is_explained(
    answer: Answer, query: str, words: str
) -> None:
    async with a_server(answer) as port:
        sentence = await sentence_of(opened(f"postgresql://u:{PASSWORD}@127.0.0.1:{port}/x{query}"))

    assert re.search(words, sentence), sentence
    assert says_what_to_do(sentence), sentence


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM alembic_version", "older than this version requires; run `runtally migrate`"),
        (
            "UPDATE alembic_version SET version_num = 'ffffffffffff', required_revision = 'ffffffffffff'",
            "a newer version of Runtally",
        ),
        ("ALTER DATABASE {name} SET default_transaction_read_only = on", "read-only"),
    ],
)
async def test_a_database_that_cannot_be_used_is_explained(
    database_url: str, admin: asyncpg.Connection, tmp_path: Path, statement: str, words: str
) -> None:
    await admin.execute(statement.format(name=database_url.rpartition("/")[2]))
    settings = the_settings(tmp_path, database_url, "http://127.0.0.1:9")

    started = await sentence_of(_enter(open_services(settings)))
    attached = await sentence_of(_enter(attach_database(settings)))

    assert started == attached
    assert re.search(words, started), started
    assert says_what_to_do(started), started


async def test_a_role_without_privileges_is_explained(database_url: str, admin: asyncpg.Connection) -> None:
    name = f"reader_{os.getpid()}"
    await admin.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'Reader-01'")
    try:
        await admin.execute(f"GRANT SELECT ON alembic_version, runs TO {name}")
        url = re.sub("//.*@", f"//{name}:Reader-01@", database_url)
        sentence = await sentence_of(opened(url))
        await admin.execute("DELETE FROM alembic_version")
        migrating = await sentence_of(_migrated(url))
    finally:
        await admin.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")

    assert "may not read and write the tables" in sentence
    assert re.search("cannot be migrated .*permission denied", migrating), migrating
    assert says_what_to_do(sentence)
    assert says_what_to_do(migrating)


async def _migrated(url: str) -> None:
    async with an_open_database(url) as database:
        await database.migrate()


async def _enter(context: contextlib.AbstractAsyncContextManager[Any]) -> None:
    async with context:
        pass


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://:Secret-01@127.0.0.1:1/0", r"REDIS_URL \(127\.0\.0\.1:1\): nothing answers there"),
        ("redis://no-such-host.invalid/0", r"no-such-host\.invalid:6379.*cannot be resolved"),
        ("redis://127.0.0.1:port/0", "REDIS_URL is no valid URL"),
        ("redis://:Secret-01@{address}/0", "user or password are wrong, or missing"),
    ],
)
async def test_a_wrong_url_of_the_relay_is_explained(redis_url: str, url: str, words: str) -> None:
    settings = Settings.load(
        _env_file=None, REDIS_URL=url.format(address=redis_url.partition("://")[2].partition("/")[0])
    )

    async def connect() -> None:
        async with contextlib.AsyncExitStack() as stack:
            await open_relay(settings, stack)

    sentence = await sentence_of(connect())

    assert re.search(words, sentence), sentence
    assert "Secret-01" not in sentence


async def test_what_the_machine_refuses_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = the_settings(tmp_path / "file", "postgresql://u@127.0.0.1:1/x", "http://127.0.0.1:9")
    unwritable = await sentence_of(_enter(open_services(settings)))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        async def serve() -> None:
            listen("127.0.0.1", port)

        in_use = await sentence_of(serve())
    directory = tmp_path / "data" / "postgres" / "data"
    directory.mkdir(parents=True)
    (directory / "PG_VERSION").write_text("9.6\n")
    other_version = await sentence_of(_enter(EmbeddedPostgres.start(tmp_path / "data")))

    assert re.search(r"RUNTALLY_DATA_DIR .* cannot be written: Not a directory", unwritable), unwritable
    assert re.search(rf"Cannot listen on 127.0.0.1:{port}: .* --port", in_use), in_use
    assert re.search("is one of PostgreSQL 9.6, and .*pg_dump", other_version), other_version


@pytest.mark.parametrize(
    ("line", "variables", "words"),
    [
        ("model: sonet", {}, "g.md: model: 'sonet' .* mean sonnet.*line 3, column 1"),
        ("tools: [core__calculat]", {}, "mean core__calculate.*line 3, column 9"),
        ("", {"RUNTALLY_PRICES_FILE": "p.yaml"}, "RUNTALLY_PRICES_FILE: is not valid YAML: line 1"),
        ("", {"RUNTALLY_DEFAULT_MODEL": "sonet"}, "RUNTALLY_DEFAULT_MODEL: 'sonet' .*did you mean sonnet"),
        ("", {"RUNTALLY_TITLE_MODEL": "haikou"}, "RUNTALLY_TITLE_MODEL: 'haikou' .*did you mean haiku"),
        (
            "",
            {"RUNTALLY_TITLE_MODEL": "haiku", "RUNTALLY_CLAUDE_AUTH": "local_session"},
            "RUNTALLY_TITLE_MODEL: needs the graph messages:generate",
        ),
    ],
)
async def test_a_mistake_in_a_file_is_explained(
    tmp_path: Path, line: str, variables: dict[str, Any], words: str
) -> None:
    """In the file of a graph with this line, in that of prices, or in a variable."""
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    (graphs / "g.md").write_text(f"---\ndescription: d\n{line}\n---\nx", encoding="utf-8")
    (tmp_path / "p.yaml").write_text("prices: [", encoding="utf-8")
    given = {key: tmp_path / value if value == "p.yaml" else value for key, value in variables.items()}
    settings = the_settings(
        tmp_path, "postgresql://u@127.0.0.1:1/x", "http://127.0.0.1:9", RUNTALLY_GRAPHS_DIR=graphs, **given
    )

    sentence = await sentence_of(_enter(open_services(settings, role=Role.SERVE)))

    assert re.search(words, sentence), sentence

"""Opens the database, the journal of receipts and the event log."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from app.billing.chain.head_witness import HeadWitness
from app.billing.chain.sealing import ChainSealer
from app.billing.chain.sealing_key import SealingKey
from app.billing.receipts.journal import Journal
from app.errors import Invalid, OperatorError
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.platform.metrics.objects import ObjectMetrics
from app.platform.objects.service import INSIDE, Objects
from app.platform.objects.storage import ObjectStorage
from app.platform.postgres.passwords import PasswordCommand, PasswordFile, PasswordSource
from app.platform.read_side import ReadSide
from app.platform.server.disk import write_new_file
from app.platform.settings import Settings, SettingsError
from app.platform.storage.records import Retention


class DataDirectoryNotUsable(OperatorError):
    """RUNTALLY_DATA_DIR cannot be written; the text names it, the reason and the next step."""


class NoDatabaseUrl(Invalid):
    """DATABASE_URL is not set; `runtally serve` migrates the embedded database itself."""


def require_data_directory(settings: Settings) -> None:
    """Make the data directory and write to it; raises `DataDirectoryNotUsable`."""
    path = settings.data_dir.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_new_file(path)
    except OSError as error:
        raise DataDirectoryNotUsable(
            f"RUNTALLY_DATA_DIR ({settings.data_dir}) cannot be written: {error.strerror}; correct owner, "
            "permissions, free space or free inodes, or choose another directory."
        ) from error


def open_database(settings: Settings, process_id: UUID) -> AbstractAsyncContextManager[Database]:
    """The operator's database, or an embedded one, which is migrated here."""
    return _database(settings, EmbeddedPostgres.start, process_id)


@asynccontextmanager
async def attach_database(settings: Settings) -> AsyncIterator[Database]:
    """The same database, also while a server uses it; raises `DatabaseNotUsable`."""
    async with _database(settings, EmbeddedPostgres.attach) as database:
        await database.require_usable()
        yield database


@asynccontextmanager
async def _database(
    settings: Settings,
    embedded: Callable[[Path], AbstractAsyncContextManager[EmbeddedPostgres]],
    process_id: UUID | None = None,
) -> AsyncIterator[Database]:
    if settings.database_url is None or process_id is not None:
        require_data_directory(settings)
    async with AsyncExitStack() as stack:
        if settings.database_url is not None:
            yield await stack.enter_async_context(operators_database(settings, process_id))
            return
        server = await stack.enter_async_context(embedded(settings.data_dir))
        yield await stack.enter_async_context(_migrated(server.url, settings.database_pool_size, process_id))


@asynccontextmanager
async def _migrated(url: str, pool_size: int, process_id: UUID | None = None) -> AsyncIterator[Database]:
    database = await Database.open(url, pool_size=pool_size, process_id=process_id)
    try:
        await database.migrate()
        yield database
    finally:
        await database.aclose()


@asynccontextmanager
async def embedded_database(settings: Settings) -> AsyncIterator[str]:
    """The URL of an embedded database, which is migrated, for several processes."""
    require_data_directory(settings)
    async with EmbeddedPostgres.start(settings.data_dir) as server:
        async with _migrated(server.url, settings.database_pool_size):
            pass
        yield server.url


@asynccontextmanager
async def operators_database(settings: Settings, process_id: UUID | None = None) -> AsyncIterator[Database]:
    """That of DATABASE_URL, whatever its schema; raises `NoDatabaseUrl`, `DatabaseNotUsable`."""
    if settings.database_url is None:
        raise NoDatabaseUrl
    database = await Database.open(
        settings.database_url,
        direct_url=settings.database_direct_url,
        password=_password_of(settings),
        pool_size=settings.database_pool_size,
        process_id=process_id,
    )
    try:
        yield database
    finally:
        await database.aclose()


@asynccontextmanager
async def open_read_side(settings: Settings, primary: Database) -> AsyncIterator[ReadSide]:
    """The replica of DATABASE_READ_URL, which may be away; raises `DatabaseNotUsable`, `SettingsError`."""
    if settings.database_read_url is None:
        yield ReadSide(primary)
        return
    if settings.database_url is None:
        raise SettingsError("DATABASE_READ_URL needs DATABASE_URL: it leads to a replica of that database.")
    replica = Database.replica(
        settings.database_read_url, _password_of(settings), pool_size=settings.database_pool_size
    )
    try:
        reading = ReadSide(primary, replica)
        await reading.check()
        yield reading
    finally:
        await replica.aclose()


def _password_of(settings: Settings) -> PasswordSource | None:
    if settings.database_password_file is not None:
        return PasswordFile(settings.database_password_file)
    if settings.database_password_command is not None:
        return PasswordCommand(settings.database_password_command)
    return None


def open_objects(settings: Settings, database: Database, metrics: ObjectMetrics) -> Objects:
    """Where large contents are; raises `ObjectsNotUsable`."""
    if settings.objects is None:
        return INSIDE
    storage = ObjectStorage(settings.objects, settings.objects_key, settings.network, metrics)
    return Objects((database, storage))


def open_journal(settings: Settings, process_id: UUID) -> Journal:
    """This process's receipt journal; raises `JournalFailed`."""
    return Journal(settings.data_dir.absolute() / "journal", process_id)


def open_sealer(settings: Settings, database: Database) -> ChainSealer:
    """Signs roots with the operator's key, if there is one; raises `SealingKeyError`."""
    key = None if settings.sealing_key_file is None else SealingKey.read(settings.sealing_key_file)
    every = timedelta(seconds=settings.sealing_interval_s)
    return ChainSealer(database, key, every=every, witness=open_witness(settings))


def open_witness(settings: Settings) -> HeadWitness:
    """What servers with this data directory remember of the chains."""
    return HeadWitness(settings.data_dir.absolute() / "chain-heads.json")


def default_retention(settings: Settings) -> Retention:
    """For how long contents are kept where their account does not say less."""
    days = settings.retention_days, settings.events_retention_days, settings.transcripts_retention_days
    return Retention(*(each or None for each in days))

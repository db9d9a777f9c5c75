"""RunFeeds: the runs of other processes that are followed here."""

import asyncio

from app.errors import Unavailable
from app.ids import RunKey
from app.platform.background import LONGEST_BACKOFF_S
from app.streams.relay.connection import RelayConnection
from app.streams.relay.run_feed import RunFeed
from app.streams.relay.stream_reader import StreamPart, read_streams, stream_name
from app.streams.relay.subscriptions import Subscriptions
from app.streams.relay.written_run import WrittenRun

_RUNS_PER_READ = 32
_FIRST_PAUSE_S = 0.05


class RunFeeds:
    """One feed per run, whatever the number of its readers; reads streams for them, many at a time."""

    def __init__(self, relay: RelayConnection, subscriptions: Subscriptions) -> None:
        self._relay = relay
        self._subscriptions = subscriptions
        self._feeds: dict[RunKey, RunFeed] = {}
        self._fetches: dict[tuple[RunFeed, int], asyncio.Future[StreamPart | None]] = {}
        self._wake = asyncio.Event()
        self._pause_s = 0.0

    def __len__(self) -> int:
        return len(self._feeds)

    def find(self, run: RunKey) -> RunFeed:
        """The feed of a run; it receives something as soon as it has a reader."""
        return self._feeds.get(run) or RunFeed(run, self._fetch)

    def add_reader(self, feed: RunFeed) -> None:
        """Receive the run's channel for its first reader."""
        if feed.run not in self._feeds and not feed.is_closed:
            self._feeds[feed.run] = feed
            self._subscriptions.subscribe(stream_name(feed.run, self._relay.prefix), feed)
        feed.readers += 1

    def remove_reader(self, feed: RunFeed) -> None:
        """Leave the run's channel after its last reader."""
        feed.readers -= 1
        if feed.readers == 0 and self._feeds.get(feed.run) is feed:
            self._remove(feed)

    def close(self, run: RunKey, *, written_here: WrittenRun | None = None) -> None:
        """End the readers of a run; they continue where this process has begun to write it."""
        if (feed := self._feeds.get(run)) is not None:
            feed.close(written_here=written_here)
            self._remove(feed)

    def close_all(self) -> None:
        for run in list(self._feeds):
            self.close(run)

    def read_again(self) -> None:
        """Let every reader look for events that it has missed."""
        for feed in self._feeds.values():
            feed.on_subscribed()

    async def step(self) -> None:
        """Read for some of the readers that wait for it."""
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
        while not self._fetches:
            self._wake.clear()
            await self._wake.wait()
        wanted = list(self._fetches)[:_RUNS_PER_READ]
        try:
            parts = await read_streams(self._relay, [(feed.run, position) for feed, position in wanted])
        except Unavailable as error:
            self._relay.failed("readers", error)
            self._pause_s = min(max(self._pause_s * 2, _FIRST_PAUSE_S), LONGEST_BACKOFF_S)
            return
        self._relay.succeeded("readers")
        self._pause_s = 0.0
        for key, part in zip(wanted, parts, strict=True):
            # The readers of feeds that were closed meanwhile have their answer.
            if fetch := self._fetches.pop(key, None):
                fetch.set_result(part)
                feed, position = key
                feed.fetching.discard(position)

    def _fetch(self, feed: RunFeed, position: int) -> asyncio.Future[StreamPart | None]:
        """Readers at the same position share the answer."""
        key = (feed, position)
        if (fetch := self._fetches.get(key)) is None:
            fetch = self._fetches[key] = asyncio.get_running_loop().create_future()
            feed.fetching.add(position)
            self._wake.set()
        return fetch

    def _remove(self, feed: RunFeed) -> None:
        del self._feeds[feed.run]
        for position in feed.fetching:
            self._fetches.pop((feed, position)).set_result(None)
        feed.fetching.clear()
        self._subscriptions.unsubscribe(stream_name(feed.run, self._relay.prefix), feed)

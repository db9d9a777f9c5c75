"""The calls of one session."""

import pytest

from app.executors.external.session import ExternalSession, SessionOver
from app.gateway.channel import Channel, ChannelLimits
from tests.integration.gateway_seam import Noted


async def test_it_takes_calls_from_its_opening_to_its_end() -> None:
    session = ExternalSession()
    channel = Channel("run-1", "token", "url", ChannelLimits(0), Noted().hooks())
    with pytest.raises(SessionOver), session.call():
        pass
    assert not session.is_idle

    session.open(channel)
    assert session.is_idle
    with session.call() as opened:
        assert opened is channel
        assert (session.calls, session.is_idle) == (1, False)
        session.close()
        with pytest.raises(SessionOver), session.call():
            pass

    assert (session.calls, session.is_idle, session.is_over) == (0, False, True)


async def test_its_executor_learns_of_each_change_once() -> None:
    session = ExternalSession()
    session.open(Channel("run-1", "token", "url", ChannelLimits(0), Noted().hooks()))
    with session.call():
        assert not session.changed.is_set()
    assert session.changed.is_set()
    session.changed.clear()
    session.close()
    assert session.changed.is_set()
    session.changed.clear()

    session.close()

    assert not session.changed.is_set()

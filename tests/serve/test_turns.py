"""Whose question is answered next."""

import asyncio

import pytest

from iotrail.errors import BusyError, QueryInterrupted
from iotrail.serve.turns import MOST_WAITING, Turns, viewer_of


def test_turns_are_fair() -> None:
    """No viewer has them all; of those who wait the one with fewest under way is next, then who had one longest ago."""

    async def all_of_them() -> None:
        turns, order = Turns(3, 2), list[str]()

        async def asks(viewer: str) -> None:
            async with turns.turn(viewer, asyncio.Future()):
                order.append(viewer)
                await asyncio.sleep(0.02)

        await asyncio.gather(*(asks(viewer) for viewer in "aaaaaabbbc"))
        assert "".join(order[:3]) == "aab"
        assert sorted(order) == list("aaaaaabbbc")
        assert order.index("c") <= 4

    asyncio.run(all_of_them())


def test_who_leaves_holds_no_place() -> None:
    """Neither a turn nor one of the places of those who wait, of which a viewer has so many."""

    async def all_of_them() -> None:
        turns, leaver = Turns(1, 1), asyncio.Future[None]()

        async def waits(viewer: str) -> None:
            async with turns.turn(viewer, leaver):
                pass

        async with turns.turn("a", asyncio.Future()):
            waiting = [asyncio.ensure_future(waits("a")) for _ in range(MOST_WAITING)]
            await asyncio.sleep(0)
            with pytest.raises(BusyError, match="wait already"):
                await waits("a")
            cancelled = asyncio.ensure_future(waits("b"))
            await asyncio.sleep(0)
            cancelled.cancel()
            leaver.set_result(None)
            ended = await asyncio.gather(*waiting, cancelled, return_exceptions=True)
            assert all(isinstance(error, QueryInterrupted) for error in ended[:-1])
        async with turns.turn("b", asyncio.Future()), asyncio.timeout(5):
            pass

    asyncio.run(all_of_them())


def test_viewers_are_told_apart_by_address() -> None:
    """A machine has one address of IPv4 and a network of IPv6."""
    assert viewer_of("192.0.2.1") != viewer_of("192.0.2.2")
    assert viewer_of("::ffff:192.0.2.1") == viewer_of("192.0.2.1")
    assert viewer_of("2001:db8::1") == viewer_of("2001:db8::ffff:2") != viewer_of("2001:db8:0:1::1")

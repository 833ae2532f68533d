"""Keeps a session up: connects again for ever, with delays that grow to a bound and are spread by chance."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator

from knowledge_engine.errors import ConfigurationError, KnowledgeError
from knowledge_wamp.session import Session, open_session, watch
from knowledge_wamp.settings import WampSettings

FIRST_DELAY_S, MAX_DELAY_S = 0.25, 30.0
# So a router that was away for a while is found within about a third of that time.
_GROWTH = 1.3
_SPREAD = 0.25
_log = logging.getLogger("knowledge_wamp")


def delays() -> Iterator[float]:
    """How long to wait before each further attempt, in seconds; never above `MAX_DELAY_S`.

    They differ by chance, so that a thousand devices do not come back at the same moment.
    """
    delay = FIRST_DELAY_S
    while True:
        yield min(MAX_DELAY_S, delay * random.uniform(1 - _SPREAD, 1 + _SPREAD))  # noqa: S311 - no secret is made of it
        delay = min(MAX_DELAY_S, delay * _GROWTH)


async def keep_session(
    settings: WampSettings,
    joined: Callable[[Session], Awaitable[None]],
    lost: Callable[[str, float], None],
) -> None:
    """Connects, calls `joined`, and when the session is lost, or could not be had, `lost`; for ever, until cancelled.

    Args:
        joined: Gets the session; what it raises ends the session as if it were lost.
        lost: Gets the reason, and the seconds until the next attempt.

    Raises:
        ConfigurationError: When the router refuses for good before any session was had. Later on that may pass: a
            router that starts has no realms yet, and a ticket may be written anew.
    """
    was_joined = False
    waits = delays()
    while True:
        session: Session | None = None
        try:
            session = await open_session(settings)
            was_joined = True
            await joined(session)
            waits = delays()
            await watch(session)
            reason = session.lost.result()
        except ConfigurationError as error:
            if not was_joined:
                raise
            reason = str(error)
        except KnowledgeError as error:
            reason = str(error)
        except Exception as error:
            _log.exception("the session failed")
            reason = type(error).__name__
        finally:
            if session is not None and not session.lost.done():
                await session.close()
        delay = next(waits)
        lost(reason, delay)
        await asyncio.sleep(delay)

"""The operations, and what they share."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_engine.extensions import Extensions
from knowledge_engine.service import KnowledgeService
from knowledge_http.server.backends import Room, Served
from knowledge_http.server.calls import BodyBudget
from knowledge_http.server.metrics import Metrics
from knowledge_http.server.state import Readiness
from knowledge_http.settings import HttpSettings

_BODIES_AT_ONCE = 8


class Api:
    """What all operations of one application share.

    Args:
        services: By the names of their backends. Not disposed of.
    """

    def __init__(
        self, services: Mapping[str, KnowledgeService], settings: HttpSettings, extensions: Extensions
    ) -> None:
        self.settings = settings
        self.extensions = extensions
        self.served = Served(services, settings)
        self.metrics = Metrics()
        self.budget = BodyBudget(_BODIES_AT_ONCE * settings.max_body)
        self.readiness = Readiness(tuple(self.served.rooms.values()))
        #: Where tools of extensions run.
        self.extra_room = Room("tools", next(iter(services.values())), settings)
        self.draining = False

    def close(self) -> None:
        """Takes no more calls."""
        self.draining = True
        self.served.close()
        self.extra_room.lane.close()

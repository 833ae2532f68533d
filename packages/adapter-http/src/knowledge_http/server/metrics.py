"""Counters for Prometheus; each application has its own."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from knowledge_http.server.backends import Room

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


class Metrics:
    """What was answered, and what the backends do just now."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "knowledge_http_requests", "Answers", ["method", "route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "knowledge_http_request_seconds", "Time to the answer", ["route"], buckets=_BUCKETS, registry=self._registry
        )
        self._under_way = Gauge("knowledge_http_requests_under_way", "Requests under way", registry=self._registry)
        self._running = Gauge(
            "knowledge_backend_calls_running", "Calls that are waited for", ["backend"], registry=self._registry
        )
        self._hanging = Gauge(
            "knowledge_backend_calls_hanging", "Calls that nobody waits for", ["backend"], registry=self._registry
        )
        self._up = Gauge("knowledge_backend_up", "Whether it answers", ["backend"], registry=self._registry)
        self._documents = Gauge("knowledge_backend_documents", "Documents", ["backend"], registry=self._registry)
        self._counters: dict[tuple[str, str, int], Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def begun(self) -> None:
        """A request came."""
        self._under_way.inc()

    def ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """It was answered. `route` is a template, not what was asked for: there are few."""
        self._under_way.dec()
        key = (method if method in _METHODS else "other", route, status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(*map(str, key))
        counter.inc()
        histogram = self._histograms.get(route)
        if histogram is None:
            histogram = self._histograms[route] = self._seconds.labels(route)
        histogram.observe(seconds)

    def exposed(self, documents: Mapping[str, int | None], rooms: Mapping[str, Room]) -> bytes:
        """All of it, as text."""
        for name, room in rooms.items():
            count = documents.get(name)
            self._running.labels(name).set(room.lane.running)
            self._hanging.labels(name).set(room.lane.abandoned)
            self._up.labels(name).set(count is not None)
            self._documents.labels(name).set(count or 0)
        return generate_latest(self._registry)

"""Asks the queries of a golden set, and judges what comes back."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from pydantic import Field

from knowledge_engine.errors import AmbiguousIdError, InvalidArgumentError, InvalidIdError, NotFoundError
from knowledge_engine.evaluation.golden import GoldenQuery, issue_at
from knowledge_engine.evaluation.metrics import METRICS
from knowledge_engine.models import MAX_TOP_K, DocumentIssue, Query, Value
from knowledge_engine.service import KnowledgeService

Resolve = Callable[[str], tuple[str, str]]


class QueryEvaluation(Value):
    """What became of one query."""

    id: str
    line: int
    query: str
    #: Such as `recall@10`, for each depth.
    metrics: dict[str, float]
    #: Grades by source id; an id that the backend does not hold stays as it was written.
    expected: dict[str, float]
    #: Ids of the sources found, best first, as far as the greatest depth.
    found: tuple[str, ...]
    #: Relevant ones that are not among them, the highest grade first.
    missed: tuple[str, ...]


class Evaluation(Value):
    """Means over all queries, and each query."""

    metrics: dict[str, float]
    queries: tuple[QueryEvaluation, ...]
    #: Such as an expected id that the backend does not hold, which counts as not found.
    warnings: tuple[DocumentIssue, ...] = Field(default=())

    @property
    def misses(self) -> tuple[QueryEvaluation, ...]:
        """The queries that did not find all that is relevant, the worst first."""
        missing = [query for query in self.queries if query.missed]
        return tuple(sorted(missing, key=lambda query: (min(query.metrics.values()), query.line, query.id)))

    def below(self, floors: Mapping[str, float]) -> dict[str, float]:
        """Of figures that should be at least so much, those that are not: what each is.

        Raises:
            InvalidArgumentError: For a figure that was not measured; the message lists those that were.
        """
        for name in floors:
            if name not in self.metrics:
                measured = ", ".join(self.metrics)
                raise InvalidArgumentError(f"There is no figure {name!r}", mend=f"These were measured: {measured}.")
        return {name: self.metrics[name] for name, floor in floors.items() if self.metrics[name] < floor}


def evaluate(
    service: KnowledgeService,
    queries: Iterable[GoldenQuery],
    at: Sequence[int] = (10,),
    *,
    path: str = "golden.jsonl",
    told: Callable[[int], object] = lambda done: done,
) -> Evaluation:
    """Asks each query once, and compares the sources found with those expected.

    Args:
        at: The depths, from 1 to `models.MAX_TOP_K`: of each there are figures `recall@k`, `mrr@k` and `ndcg@k`.
        path: How the file of the queries is named in warnings.
        told: Called after each query with how many are done.

    Raises:
        InvalidArgumentError: For no query, and for depths out of range.
        KnowledgeError: As `KnowledgeService.query`: a query that cannot be asked is no figure.
    """
    depths = sorted(set(at))
    if not depths or depths[0] < 1 or depths[-1] > MAX_TOP_K:
        raise InvalidArgumentError(f"A depth is out of range: {list(at)}", mend=f"Take them from 1 to {MAX_TOP_K:,}.")
    resolve, done, warnings = _resolver(service), list[QueryEvaluation](), list[DocumentIssue]()
    for golden in queries:
        grades = _resolved(golden, resolve, warnings, path)
        found = _sources(service, golden, depths[-1])
        relevant = sorted((-grade, name) for name, grade in grades.items() if grade > 0)
        done.append(
            QueryEvaluation(
                id=golden.id,
                line=golden.line,
                query=golden.query,
                metrics={f"{name}@{k}": call(found, grades, k) for k in depths for name, call in METRICS.items()},
                expected=grades,
                found=found,
                missed=tuple(name for _, name in relevant if name not in found),
            )
        )
        told(len(done))
    if not done:
        raise InvalidArgumentError("There is no query to ask", mend="Give at least one, with what should be found.")
    means = {name: statistics.fmean(each.metrics[name] for each in done) for name in done[0].metrics}
    return Evaluation(metrics=means, queries=tuple(done), warnings=tuple(warnings))


def _sources(service: KnowledgeService, golden: GoldenQuery, depth: int) -> tuple[str, ...]:
    """The sources of the hits, best first, each once; also from a backend that gives fewer hits a page than asked."""
    found: dict[str, None] = {}
    cursor = None
    while len(found) < depth:
        asked = Query(query=golden.query, filter=golden.filter, top_k=depth, cursor=cursor)
        answer = service.query(asked)
        found |= dict.fromkeys(hit.source_id for hit in answer.hits)
        cursor = answer.next_cursor
        if not cursor or not answer.hits:
            break
    return tuple(found)[:depth]


def _resolver(service: KnowledgeService) -> Resolve:
    """Source ids for ids as they were written; and why there is none. Each is asked for once."""
    known: dict[str, tuple[str, str]] = {}

    def resolve(name: str) -> tuple[str, str]:
        if name not in known:
            try:
                known[name] = service.resolve_id(name), ""
            except (NotFoundError, InvalidIdError):
                known[name] = name, "is not in this backend"
            except AmbiguousIdError:
                known[name] = name, "means several documents of this backend"
        return known[name]

    return resolve


def _resolved(golden: GoldenQuery, resolve: Resolve, warnings: list[DocumentIssue], path: str) -> dict[str, float]:
    """Grades by source id."""
    grades: dict[str, float] = {}
    for name, grade in golden.expected.items():
        source_id, why = resolve(name)
        told = f"{name!r} {why}" if why else f"{name!r} is there under another name" if source_id in grades else ""
        if told:
            code = "golden-unknown-id" if why else "golden-same-document"
            mend = "Name the document by the id that `knowledge list` shows." if why else "Name it once."
            warnings.append(issue_at(code, golden.line, told, mend, severity="warning", path=path))
        grades[source_id] = max(grade, grades.get(source_id, 0.0))
    return grades

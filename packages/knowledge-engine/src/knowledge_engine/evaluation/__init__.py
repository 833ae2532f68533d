"""How well a backend finds: queries with the documents that should answer them, and figures for what it gives."""

from knowledge_engine.evaluation.golden import Golden, GoldenQuery, read_golden
from knowledge_engine.evaluation.judging import Evaluation, QueryEvaluation, evaluate
from knowledge_engine.evaluation.metrics import METRICS, ndcg, recall, reciprocal_rank

__all__ = [
    "METRICS",
    "Evaluation",
    "Golden",
    "GoldenQuery",
    "QueryEvaluation",
    "evaluate",
    "ndcg",
    "read_golden",
    "recall",
    "reciprocal_rank",
]

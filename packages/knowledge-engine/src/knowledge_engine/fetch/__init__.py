"""Fetching a document from a public web address, and from no other."""

from knowledge_engine.fetch.addresses import is_public
from knowledge_engine.fetch.client import fetch_url
from knowledge_engine.fetch.result import Fetched

__all__ = ["Fetched", "fetch_url", "is_public"]

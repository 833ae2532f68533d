"""The `http` backend: a knowledge server elsewhere as an `IKnowledgeProvider`."""

from knowledge_http.client.adapter import HttpKnowledgeAdapter, create_standalone_http_adapter

__all__ = ["HttpKnowledgeAdapter", "create_standalone_http_adapter"]

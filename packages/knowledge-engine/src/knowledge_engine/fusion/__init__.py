"""Several backends as one: asked at the same time, their rankings fused, each hit under its backend's name."""

from knowledge_engine.fusion.provider import FederatedProvider

__all__ = ["FederatedProvider"]

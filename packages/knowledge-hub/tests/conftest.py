"""Hubs for tests."""

from hub_bench import open_hub

__all__ = ["open_hub"]

"""A small server that speaks as OpenAI's do, for tests."""

from llm_bench.stub import Script, Stub, running

__all__ = ["Script", "Stub", "running"]

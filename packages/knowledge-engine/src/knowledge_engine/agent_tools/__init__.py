"""The tools that agents use, rendered from the service."""

from knowledge_engine.agent_tools.plain import plain
from knowledge_engine.agent_tools.specs import TOOL_NAMES, tool_specs
from knowledge_engine.agent_tools.tools import AgentTools

__all__ = ["TOOL_NAMES", "AgentTools", "plain", "tool_specs"]

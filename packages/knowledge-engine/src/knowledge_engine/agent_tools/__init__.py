"""The tools that agents use, rendered from the service."""

from knowledge_engine.agent_tools.plain import plain
from knowledge_engine.agent_tools.specs import TOOL_NAMES, tool_specs
from knowledge_engine.agent_tools.templates import GUIDANCE, device_tool_specs, template_blocks, tool_template
from knowledge_engine.agent_tools.tools import AgentTools

__all__ = [
    "GUIDANCE",
    "TOOL_NAMES",
    "AgentTools",
    "device_tool_specs",
    "plain",
    "template_blocks",
    "tool_specs",
    "tool_template",
]

"""An agent that looks for what is known, researches what is not, saves it, and finds it again.

    python examples/agent_loop.py

Instead of a language model a few rules say which tool comes next; the tools, the goals and the hub are real. With
`KNOWLEDGE_HUB_URL` (and `KNOWLEDGE_HUB_TOKEN`) it uses a hub elsewhere, otherwise one in a temporary folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowledge_hub.tools import (
    GoalTool,
    GoalTree,
    HubTools,
    JsonTraceStore,
    call_tool,
    guidance,
    open_tools,
    tool_specs,
)

TASK = "Read tables out of scanned PDF files"
FINDING = {
    "scenario": "Read tables out of PDF files that were scanned",
    "content": "Scans hold no text: run OCR first (ocrmypdf), then read the tables with pdfplumber.",
    "tags_type": ["tool", "strategy"],
    "urls": ["https://ocrmypdf.readthedocs.io/"],
    "score": 4,
}


class StubModel:
    """Stands for a language model: gets the conversation and the tools, gives the next call, or None at the end."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        self._known = {each["function"]["name"] for each in tools}

    def next_call(self, messages: list[dict[str, str]]) -> tuple[str, dict[str, Any]] | None:
        """The tool that comes next, as a model would choose it by the guidance in its prompt."""
        calls = [each["name"] for each in messages if each["role"] == "tool"]
        last = messages[-1]["content"]
        step: tuple[str, dict[str, Any]] | None = None
        if not calls:
            step = "goal", {"action": "add", "description": TASK}
        elif calls == ["goal"]:
            step = "goal", {"action": "focus", "goal_id": "goal-1"}
        elif calls[-1] == "goal" and "相关知识 (0 条)" in last and "knowledge_save" not in calls:
            step = "knowledge_save", FINDING  # here an agent of its own would research
        elif calls[-1] == "knowledge_save":
            step = "goal", {"action": "focus", "goal_id": "goal-1", "sub_goals": ["Run OCR", "Read the tables"]}
        elif calls[-1] == "goal" and "knowledge-" in last:
            found = last.split("[knowledge-", 1)[1].split("]", 1)[0]
            step = (
                "knowledge_batch_update",
                {"feedback_list": [{"knowledge_id": f"knowledge-{found}", "is_effective": True}]},
            )
        return step if step is None or step[0] in self._known else None


async def run_agent(tools: HubTools, folder: Path) -> GoalTree:
    """One run; the goals are kept in the folder after each step."""
    goals = GoalTool(
        GoalTree(mission=TASK), trace_id="run-1", store=JsonTraceStore(folder), search=tools.knowledge_search
    )
    model = StubModel(tool_specs("openai", ["goal", "knowledge_search", "knowledge_save", "knowledge_batch_update"]))
    messages = [{"role": "system", "name": "", "content": guidance()}, {"role": "user", "name": "", "content": TASK}]
    while (call := model.next_call(messages)) is not None:
        name, arguments = call
        answer = await call_tool(name, arguments, tools=tools, goal=goals)
        print(f"> {name} {json.dumps(arguments, ensure_ascii=False)}\n{answer.title}\n{answer.output}\n")
        messages.append({"role": "tool", "name": name, "content": answer.output})
    return goals.tree


def main(environ: Mapping[str, str]) -> None:
    """Runs the agent, and says what its goal knows in the end."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"KNOWLEDGE_HUB_PATH": str(Path(folder) / "hub.db"), "KNOWLEDGE_HUB_MODEL": "none"}
        tools = open_tools({**own, **environ})
        try:
            tree = asyncio.run(run_agent(tools, Path(folder) / "goals"))
        finally:
            tools.close()
    print(f"Known at the end: {[entry['scenario'] for entry in tree.find('goal-1').knowledge]}")


if __name__ == "__main__":
    main(os.environ)

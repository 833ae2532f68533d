"""Texts for an agent's prompt: when to research, and how."""

from __future__ import annotations

from importlib.resources import files


def guidance() -> str:
    """For the system prompt: what a focus brings, and what to do when it is not enough."""
    return _text("guidance.md")


def research_skill() -> str:
    """For an agent that is sent to research: how to look, judge and save."""
    return _text("research.md")


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")

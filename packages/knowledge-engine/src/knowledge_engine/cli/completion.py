"""`completion`: the script that a shell needs to complete this command."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from knowledge_engine.cli.output import write


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `knowledge` in a shell.

    For bash, put `eval "$(knowledge completion bash)"` into ~/.bashrc; for zsh likewise into ~/.zshrc; for fish run
    `knowledge completion fish > ~/.config/fish/completions/knowledge.fish`.
    """
    root = ctx.find_root()
    found = get_completion_class(shell)
    assert found is not None
    write(found(root.command, {}, "knowledge", "_KNOWLEDGE_COMPLETE").source())

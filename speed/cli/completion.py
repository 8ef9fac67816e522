"""``speed completion``: the script that a shell sources."""

from __future__ import annotations

import click

from speed.cli.output import print_value


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print shell completion, e.g. `eval "$(speed completion bash)"`."""
    from click.shell_completion import get_completion_class

    from speed.cli.app import speed

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")
    print_value(kind(speed, {}, "speed", "_SPEED_COMPLETE").source(), False)

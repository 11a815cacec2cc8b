# SPDX-License-Identifier: Apache-2.0
"""``boardprof completion``: print the shell completion for commands, options and boards."""

from __future__ import annotations

import click

from boardprof.cli.output import echo_data


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes boardprof commands in a shell.

    \b
    bash   eval "$(boardprof completion bash)"         in ~/.bashrc
    zsh    eval "$(boardprof completion zsh)"          in ~/.zshrc, after compinit
    fish   boardprof completion fish | source          in ~/.config/fish/config.fish
    """  # noqa: D301 (click knows the backspace as: do not wrap)
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    script = found(ctx.find_root().command, {}, "boardprof", "_BOARDPROF_COMPLETE")
    template = script.source_template % script.source_vars()  # source() would ask bash's version
    echo_data(template)

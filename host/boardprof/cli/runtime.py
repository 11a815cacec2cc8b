# SPDX-License-Identifier: Apache-2.0
"""``boardprof runtime``: the agent's C sources, for other build systems."""

from __future__ import annotations

import click

from boardprof.cli.group import Commands

__all__ = ["runtime"]


@click.group(cls=Commands)
def runtime() -> None:
    """Tell where the agent's C sources are."""


@runtime.command()
def path() -> None:
    """Print the folder with the agent's C sources.

    It has a CMakeLists.txt for add_subdirectory, a boardprof.mk for make, a library.json for
    PlatformIO and a module for Zephyr.
    """
    from boardprof.resources import runtime_dir

    click.echo(runtime_dir())

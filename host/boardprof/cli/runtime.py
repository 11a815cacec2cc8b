# SPDX-License-Identifier: Apache-2.0
"""``boardprof runtime``: the agent's C sources, for other build systems."""

from __future__ import annotations

import json

import click

from boardprof.cli.group import Commands
from boardprof.cli.options import json_option
from boardprof.cli.output import echo_data


@click.group(cls=Commands)
def runtime() -> None:
    """Show where the agent's C sources are."""


@runtime.command()
@json_option
def path(as_json: bool) -> None:
    """Print the folder with the agent's C sources.

    The folder has a CMakeLists.txt for add_subdirectory, a boardprof.mk for make, a library.json
    for PlatformIO and a module for Zephyr.
    """
    from boardprof.resources import runtime_dir

    folder = str(runtime_dir())
    facts = {"schema_version": 1, "path": folder}
    echo_data(json.dumps(facts, indent=2) if as_json else folder)

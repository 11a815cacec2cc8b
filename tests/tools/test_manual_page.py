# SPDX-License-Identifier: Apache-2.0
"""The manual page: every command and option, and no text that roff takes for a request."""

from __future__ import annotations

import click

from scripts.manual_page import manual_page


@click.group()
def cli() -> None:
    """Weigh things.

    Not here.
    """


@cli.command(epilog="At the end.")
@click.option("-k", "--kilo", metavar="N", help="Don't ask \\ why.")
def weigh(kilo: str) -> None:
    """Weigh one.

    .hidden files count, too.

    \b
    a  b
    """


def test_commands_options_and_literal_paragraphs_are_on_the_page() -> None:
    assert manual_page(cli, "scale", "0 ok, 1 not.").splitlines() == [
        '.TH SCALE 1 "" "scale" "User Commands"',
        ".SH NAME",
        "scale \\- Weigh things",
        ".SH SYNOPSIS",
        ".B scale",
        "COMMAND [OPTIONS] [ARGUMENTS]",
        ".SH COMMANDS",
        ".SS scale weigh [OPTIONS]",
        "Weigh one.",
        ".PP",
        "\\&.hidden files count, too.",
        ".PP",
        ".nf",
        "a  b",
        ".fi",
        ".TP",
        ".B \\-k, \\-\\-kilo N",
        "Don\\(aqt ask \\e why.",
        ".PP",
        "At the end.",
        ".SH EXIT STATUS",
        "0 ok, 1 not.",
    ]

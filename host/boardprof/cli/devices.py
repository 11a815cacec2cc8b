# SPDX-License-Identifier: Apache-2.0
"""``boardprof devices``: serial ports, and what answers on them."""

from __future__ import annotations

import json

import click

from boardprof.cli.options import Whole
from boardprof.cli.output import echo_data, echo_lines
from boardprof.cli.output_options import json_option, width_option

__all__ = ["devices"]


@click.command()
@click.argument("ports", nargs=-1, metavar="[PORT]...")
@click.option("--baud", type=Whole(min=1), metavar="N", help="Bits a second. [115200]")
@json_option
@width_option
def devices(ports: tuple[str, ...], baud: int | None, as_json: bool) -> None:
    """List the serial ports and the boards that answer on them.

    A PORT, device path or socket://HOST:PORT, asks there only. A port that another program has open
    is not touched. Mind that opening a serial port resets some boards.
    """
    from boardprof.run.devices import devices_facts, devices_text, find_devices, serial_ports

    found = find_devices(ports or serial_ports(), baud)
    if as_json:
        echo_data(json.dumps(devices_facts(found), indent=2))
    else:
        echo_lines(devices_text(found).removesuffix("\n"))

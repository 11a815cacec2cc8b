# SPDX-License-Identifier: Apache-2.0
"""``boardprof devices``: list serial ports and the boards that answer on them."""

from __future__ import annotations

import json

import click

from boardprof.cli.options import Whole, json_option, width_option
from boardprof.cli.output import echo_data, echo_page


@click.command()
@click.argument("ports", nargs=-1, metavar="[PORT]...")
@click.option("--baud", type=Whole(min=1), metavar="N", help="Bits per second. [default: 115200]")
@json_option
@width_option
def devices(ports: tuple[str, ...], baud: int | None, as_json: bool) -> None:
    """List the serial ports and the boards that answer on them.

    With PORT, a device path or socket://HOST:PORT, only that port is asked. Ports that another
    program has open are left alone. Opening a serial port resets some boards.
    """
    from boardprof.run.devices import devices_facts, devices_page, find_devices, serial_ports

    found = find_devices(ports or serial_ports(), baud)
    if as_json:
        echo_data(json.dumps(devices_facts(found), indent=2))
    else:
        echo_page(devices_page(found))

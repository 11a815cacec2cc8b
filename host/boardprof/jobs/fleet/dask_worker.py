# SPDX-License-Identifier: Apache-2.0
"""dask's worker and scheduler for boards, and who may connect to a fleet.

A worker announces its boards as resources, by kind and by serial number, so that dask gives each
board to one task at a time, whoever submits it. Only the holders of a key can connect, with TLS.
"""

from __future__ import annotations

import asyncio
import datetime
import errno
import ipaddress
import logging
import os
import re
import socket
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from boardprof.base import connection
from boardprof.base.errors import BoardError, BusyError, MissingExtraError, UsageError
from boardprof.base.files import make_private, unwritable
from boardprof.base.settings import user_file
from boardprof.jobs.fleet.boards import FleetBoard, quarantine_of
from boardprof.jobs.fleet.provider import Ended, JobProcess, called

FACTS = "boardprof"
"""Name of the boards' facts among a worker's metrics."""

_PAUSE_S = 1.0
_CONNECT_S = 30.0
_TRY_S = 10.0
_LEAST_SILENCE_S = 5.0
_PAGES = "127.0.0.1:0"
"""Where dask's pages about itself would be, if a version of dask calls their server otherwise."""


@dataclass
class _Place:
    """A board of this worker."""

    board: FleetBoard
    process: JobProcess = field(default_factory=JobProcess)
    works_on: str | None = None
    since_s: float = 0.0
    ended: int = 0
    last_error: str = ""

    def facts(self) -> dict[str, Any]:
        board = self.board
        kept = quarantine_of(board.place)
        return {
            "kind": board.kind,
            "serial": board.serial,
            "port": board.port,
            "works_on": self.works_on,
            "since_s": self.since_s,
            "ended": self.ended,
            "last_error": self.last_error,
            "quarantine": None if kept is None else asdict(kept),
        }


_places: dict[str, _Place] = {}
"""The boards of this process, by serial number."""


def resources_of(*boards: FleetBoard) -> dict[str, int]:
    """Return the resources that boards are for dask, by name: each has its own and its kind's."""
    return Counter(
        name for board in boards for name in (f"kind:{board.kind}", f"serial:{board.serial}")
    )


def call_on_board(
    call: int, serial: str, function: Callable[..., Any], arguments: Sequence[Any], timeout_s: float
) -> Ended:
    """Call a function in a board's process; dask runs this as a task that holds the board."""
    place = _places[serial]
    place.works_on = str(arguments[0]) if arguments else function.__name__
    place.since_s = time.time()
    try:
        ended = called(call, place.process, place.board, function, arguments, timeout_s)
    finally:
        place.works_on = None
        place.ended += 1
    if ended.error is not None:
        place.last_error = str(ended.error)
    elif getattr(ended.value, "is_boards_fault", False):
        place.last_error = ended.value.errors[0].message.partition("\n")[0]
    else:
        place.last_error = ""
    return ended


def _own_address(scheduler: str) -> str:
    """Return the address of this machine on its way to a scheduler."""
    # dask would announce 127.0.0.1 while the network is down, and nobody could fetch a result.
    host, port = host_and_port(scheduler)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    failed = OSError(f"{host} has no address")
    for family, kind, _, _, place in found:
        try:
            with socket.socket(family, kind) as way:
                way.connect(place)  # this sends nothing
                return bracketed(way.getsockname()[0])
        except OSError as error:
            failed = error
    raise failed


def _without_pages(kind: Any) -> Any:
    """Return dask's class without its HTTP server, which any user of this machine could ask."""
    return type(kind.__name__, (kind,), {"start_http_server": lambda *_, **__: None})


def run_worker(
    scheduler: str, boards: Sequence[FleetBoard], name: str, on_note: Callable[[str], None]
) -> None:
    """Serve this host's boards until interrupted; connect again if the scheduler goes."""
    scheduler = check_address(scheduler)
    security = security_of("worker", host_and_port(scheduler)[0], scheduler)
    _places.update({board.serial: _Place(board) for board in boards})
    try:
        asyncio.run(_serve(scheduler, security, boards, name, on_note))
    finally:
        for place in _places.values():
            place.process.close()


async def _serve(
    scheduler: str,
    security: Any,
    boards: Sequence[FleetBoard],
    name: str,
    on_note: Callable[[str], None],
) -> None:
    dask = distributed()
    told = ", ".join(board.serial for board in boards)
    on_note(f"waiting for the scheduler at {scheduler}")
    told_why = ""
    while True:
        try:
            host = _own_address(scheduler)
            # dask's worker would not say why it cannot connect.
            arguments = security.get_connection_args("worker")
            (await dask.comm.connect(scheduler, _TRY_S, **arguments)).abort()
            with tempfile.TemporaryDirectory(prefix="boardprof-worker-") as folder:
                worker = _without_pages(dask.Worker)(
                    scheduler,
                    name=name,
                    nthreads=len(boards),
                    resources=resources_of(*boards),
                    security=security,
                    local_directory=folder,
                    host=host,
                    death_timeout=_CONNECT_S,  # its own address may be another one then
                    dashboard=False,
                    dashboard_address=_PAGES,
                    metrics={FACTS: lambda _: [place.facts() for place in _places.values()]},
                )
                async with worker:
                    on_note(f"{name} serves {told} to {scheduler}")
                    told_why = ""
                    await worker.finished()
            on_note(f"{name} has lost {scheduler}, and connects again")
        except (TimeoutError, OSError, RuntimeError, ValueError) as error:
            if (why := f"{name} cannot connect to {scheduler}: {error}") != told_why:
                on_note(why)
                told_why = why
        await asyncio.sleep(_PAUSE_S)


def run_scheduler(host: str, port: int, silence_s: float, on_start: Callable[[str], None]) -> None:
    """Run dask's scheduler until interrupted; ``on_start`` gets the address."""
    # A worker that does not answer for ``silence_s`` has left.
    if silence_s < _LEAST_SILENCE_S:
        raise UsageError(
            f"--silence {silence_s:g} is too short: hosts report about once a second.",
            hint=f"at least {_LEAST_SILENCE_S:g} s",
        )
    place = bracketed(host)
    security = security_of("scheduler", place.strip("[]"), f"A scheduler at {shown(host)}")
    try:
        asyncio.run(_schedule(place, port, silence_s, security, on_start))
    except (OSError, RuntimeError) as error:  # dask wraps the first in the second
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        if cause.errno == errno.EADDRINUSE:
            raise BusyError(
                f"The port {port} is in use at {host}.",
                owner="another program",
                hint="give --port another number, or 0 for any free one",
            ) from error
        raise BoardError(f"A scheduler cannot listen at {place}:{port}: {cause}.") from error


async def _schedule(
    host: str, port: int, silence_s: float, security: Any, on_start: Callable[[str], None]
) -> None:
    import dask.config as settings

    with (
        settings.set({"distributed.scheduler.worker-ttl": f"{silence_s}s"}),
        warnings.catch_warnings(action="ignore", category=FutureWarning),  # dask's, of ``::``
    ):
        scheduler = _without_pages(distributed().Scheduler)(
            host=host,
            port=port,
            security=security,
            protocol="tls://",
            dashboard=False,
            dashboard_address=_PAGES,
        )
        async with scheduler:
            on_start(scheduler.address)
            await scheduler.finished()


# -- dask, and who may connect -----------------------------------------------------------------

_NAME = "distributed"
_shown: list[bool] = []


def show_logs() -> None:
    """Let dask log its warnings from now on; without this it logs nothing."""
    _shown.append(True)


def distributed() -> Any:
    """Return the module ``distributed``; what it would log is in our own errors and notes."""
    try:
        import distributed
    except ImportError as error:
        raise MissingExtraError("A fleet of several hosts", "distributed", "fleet") from error
    level = logging.WARNING if _shown else logging.CRITICAL + 1
    for name in (_NAME, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in (_NAME, "tornado"):
            logging.getLogger(name).setLevel(level)
    return distributed


_HOST = re.compile(r"[\w.*-]*")
_ANY_PROGRAM = "Anyone who can connect to a scheduler can run any program on its workers."
_MAKE_AGAIN = "delete it, and start scheduler and workers again"
_ROLES = ("scheduler", "worker", "client")
_BEGIN = datetime.datetime(2000, 1, 1)  # the clock of a host may be wrong
_NO_END = datetime.datetime(9999, 12, 31, 23, 59, 59)
"""RFC 5280, 4.1.2.5: the certificate does not expire."""


def check_address(address: str) -> str:
    """Return the address of a scheduler as ``tls://HOST:PORT``."""
    # On this machine, ``tcp://`` means the same, as version 0.2 had it.
    host, _ = host_and_port(address)
    if address.startswith("tcp:") and not _is_loopback(host):
        raise UsageError(
            f"The connection to {address} would not be encrypted. {_ANY_PROGRAM}",
            hint=f"tls{address.removeprefix('tcp')}, with dask's certificates; see docs/fleet.md",
        )
    return f"tls{address[3:]}"


def host_and_port(address: str) -> tuple[str, int]:
    """Split the address of a scheduler; an IPv6 address has no brackets then."""
    scheme, _, place = address.partition("://")
    found = connection.host_and_port(place)
    if scheme not in ("tcp", "tls") or found is None:
        raise UsageError(
            f"{shown(address)} is not the address of a scheduler.", hint="tls://HOST:PORT"
        )
    return found


def bracketed(host: str) -> str:
    """Return a host as addresses have it: ``[::1]``."""
    host = host.strip()
    if _HOST.fullmatch(host):
        return host
    with suppress(ValueError):
        return f"[{ipaddress.IPv6Address(host[1:-1] if host[0] + host[-1] == '[]' else host)}]"
    raise UsageError(
        f"{shown(host)} is not an address to listen at.",
        hint="an IP address or a host's name, without scheme and port",
    )


def shown(text: str) -> str:
    """Return a text for a message, in quotation marks if it could be overlooked."""
    return text if re.fullmatch(r"\S+", text) else f'"{text}"'


def security_of(role: str, host: str, what: str) -> Any:
    """Return dask's settings for a ``scheduler``, ``worker`` or ``client``; ``what`` needs them."""
    dask = distributed()
    found = dask.Security(require_encryption=True)
    if not found.tls_ca_file and _is_loopback(host):
        hint, (source, own) = _MAKE_AGAIN, _own_key()
        names = [f"tls_{each}_{part}" for each in _ROLES for part in ("cert", "key")]
        found = dask.Security(require_encryption=True, tls_ca_file=own, **dict.fromkeys(names, own))
    else:
        tls = found.get_tls_config_for_role(role)
        files = [tls[part] for part in ("ca_file", "cert", "key") if tls[part]]
        hint, source = "correct dask's settings, see docs/fleet.md", f"One of {', '.join(files)}"
    try:
        context = found.get_connection_args(role)["ssl_context"]
    except (OSError, ValueError) as error:
        raise UsageError(f"{source} cannot be used: {error}.", hint=hint) from error
    if context is None:
        raise UsageError(
            f"{what} needs TLS, and this machine has no certificate for it. {_ANY_PROGRAM}",
            hint=f"name it in dask's settings, distributed.comm.tls.{role}, see docs/fleet.md; "
            "without such settings, only addresses of this machine's loopback can be used, such as "
            "127.0.0.1; an empty address means all addresses",
        )
    return found


def _is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a host: each of its addresses is of the loopback."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM) if host.strip() else ()
    except (OSError, UnicodeError):  # no such name
        return False
    addresses = [ipaddress.ip_address(place[0]) for *_, place in found]
    return bool(addresses) and all(each.is_loopback for each in addresses)


def _own_key() -> tuple[str, str]:
    """Return the file of this user's key and certificate, and its content; made if missing."""
    file = user_file().with_name("fleet.pem")
    try:
        if not file.exists():
            _make_key(file)
        with file.open(encoding="ascii", errors="replace") as opened:
            # dask takes a text of one line for the name of a file.
            status, content = os.fstat(opened.fileno()), opened.read() + "\n"
    except OSError as error:
        raise unwritable(file, error, "set XDG_CONFIG_HOME to a folder of your own") from error
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise UsageError(
            f"{file} has the key of this user's fleet, and another user owns it or may read it.",
            hint=_MAKE_AGAIN,
        )
    return str(file), content


def _make_key(file: Path) -> None:
    content = _new_key()
    make_private(file.parent)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix=f".{file.name}.") as made:  # mode 0600
        made.write(content)
        made.flush()
        with suppress(FileExistsError):  # another program of the fleet was faster
            os.link(made.name, file)


def _new_key() -> bytes:
    """Return a new key and its certificate, which no other certificate can be derived from."""
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise MissingExtraError("The key of a fleet", "cryptography", "fleet") from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "boardprof fleet")])
    number = x509.random_serial_number()
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), number, _BEGIN, _NO_END)
    no_authority = x509.BasicConstraints(ca=False, path_length=None)
    certificate = unsigned.add_extension(no_authority, critical=True).sign(key, hashes.SHA256())
    pem = form.Encoding.PEM
    private = key.private_bytes(pem, form.PrivateFormat.PKCS8, form.NoEncryption())
    return private + certificate.public_bytes(pem)

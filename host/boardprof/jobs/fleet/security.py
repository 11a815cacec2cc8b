# SPDX-License-Identifier: Apache-2.0
"""dask, and who may connect to a fleet: with TLS, only the holders of a key."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import re
import socket
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from boardprof.base.errors import MissingExtraError, UsageError
from boardprof.base.files import unwritable
from boardprof.base.settings import user_file

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


_ADDRESS = re.compile(r"(?:tcp|tls)://(?:\[([\da-fA-F:.]+(?:%[\w.-]+)?)\]|([\w.-]+)):(\d{1,5})")
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
    found = _ADDRESS.fullmatch(address)
    if found is None or not 0 < int(found[3]) < 65536:
        raise UsageError(
            f"{shown(address)} is not the address of a scheduler.", hint="tls://HOST:PORT"
        )
    return found[1] or found[2], int(found[3])


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
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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

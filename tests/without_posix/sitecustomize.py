# SPDX-License-Identifier: Apache-2.0
"""Takes away what a host without POSIX lacks, from boardprof alone.

With this folder on PYTHONPATH, modules of boardprof cannot import or use what Python's
documentation marks "Availability: Unix". Other packages can: they have code of their own for each
system. So this is not Windows: paths, sockets and processes are still those of Linux.
"""

import builtins
import os
import select
import signal
import socket
import sys
from types import ModuleType
from typing import Any

MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES: dict[ModuleType, tuple[str, ...]] = {
    os: (
        *("fork", "forkpty", "getegid", "geteuid", "getgid", "getpgid", "getpgrp", "getsid"),
        *("getuid", "killpg", "mkfifo", "nice", "openpty", "pidfd_open", "pread", "pwrite"),
        *("register_at_fork", "sched_getaffinity", "setpgid", "setsid", "sysconf", "uname"),
        *("waitid", "chown", "fchmod", "statvfs", "O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY"),
        *("O_NOFOLLOW", "O_NONBLOCK", "O_SYNC", "WNOHANG", "ST_NOEXEC"),
    ),
    select: ("poll", "epoll"),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP"),
        *("SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "alarm", "pthread_kill", "setitimer"),
        *("pthread_sigmask", "pidfd_send_signal", "sigpending", "sigwait", "siginterrupt"),
    ),
    socket: ("AF_UNIX", "SCM_RIGHTS"),
}
whole_import = builtins.__import__


def is_ours(name: object) -> bool:
    """Tell whether a module is one of boardprof's."""
    return str(name).partition(".")[0] in ("boardprof", "boardprof_protocol")


def import_without_posix(name: str, of: Any = None, *more: Any, **named: Any) -> Any:
    """Import a module, unless boardprof asks for one of POSIX."""
    if name in MODULES and of is not None and is_ours(of.get("__name__")):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return whole_import(name, of, *more, **named)


def hide(module: ModuleType, names: tuple[str, ...]) -> None:
    """Take names from a module; only other packages still find them."""
    taken = {name: module.__dict__.pop(name) for name in names if hasattr(module, name)}

    def found(name: str) -> Any:
        if name in taken and not is_ours(sys._getframe(1).f_globals.get("__name__")):
            return taken[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = found  # type: ignore[method-assign]


builtins.__import__ = import_without_posix
for module, names in NAMES.items():
    hide(module, names)

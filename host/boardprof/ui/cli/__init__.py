# SPDX-License-Identifier: Apache-2.0
"""The command ``boardprof``: how it starts and ends, without a traceback on Ctrl-C.

SIGTERM and SIGHUP do what Ctrl-C does. The process then ends by that signal.

`boardprof.ui.cli.commands` has the rest, which takes a while to load.
"""

from __future__ import annotations

import os

from boardprof.ui.cli.exit_codes import DEBUG, INTERRUPTED, bisects, for_bisect, shows_tracebacks

_STDERR, _SAID = 2, b"interrupted\n"
_LONGEST_ERROR = 300
_OBJECTS_OF_A_RUN = 100_000


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code.

    0 ok, 1 regression, 2 usage or a wrong file, 3 board missing, busy or denied, 4 link, protocol
    or decoding, 5 the board does not answer, 6 the function faulted or hung, 7 build or missing
    toolchain, 8 no room for a file, 70 an error in boardprof itself, 130 interrupted. With
    ``--bisect`` it is 0, 1 or 125.

    Args:
        arguments: None for those of the process. The process then serves this command alone, and
            Ctrl-C ends it at once while it starts and ends.
    """
    try:
        import gc
        import signal

        if arguments is None:
            # The 50,000 objects of a run live as long as the run. Searching them for garbage again
            # and again would take a twentieth of its time.
            gc.set_threshold(_OBJECTS_OF_A_RUN)
            _open_closed_streams()
        handler = signal.getsignal(signal.SIGINT)
        # The parent may ignore SIGINT, as a shell does for background jobs.
        is_ours = arguments is None and handler is signal.default_int_handler
        if is_ours:
            signal.signal(signal.SIGINT, _leave)
        from boardprof.ui.cli.commands import run_command

        try:
            if is_ours:
                signal.signal(signal.SIGINT, handler)
                _lose_no_interrupt()
            if arguments is None:
                _interrupt_by(signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
            return run_command(arguments)
        finally:
            if is_ours:
                signal.signal(signal.SIGINT, _leave)
            for number in _received:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            if arguments is None:
                gc.freeze()  # nor at the end, where the prompt waits for it
    except KeyboardInterrupt:
        os.write(_STDERR, _SAID)
        return INTERRUPTED
    except Exception as error:  # every expected error has a message and its own exit code
        # Before Python 3.12, Ctrl-C while a class is made comes as a RuntimeError.
        if isinstance(error.__cause__, KeyboardInterrupt):
            os.write(_STDERR, _SAID)
            return INTERRUPTED
        return _failed(error, arguments)


def _open_closed_streams() -> None:
    """Open the null device for each of the descriptors 0 to 2 that is closed."""
    # Otherwise the next file that is opened gets that number, and what a compiler or a function in
    # this process prints goes into that file.
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > _STDERR:
            os.close(descriptor)
            return
        os.set_inheritable(descriptor, True)


def _failed(error: Exception, arguments: list[str] | None) -> int:
    """Report an error in boardprof itself in one line; return its exit code."""
    import contextlib
    import sys
    import traceback

    from boardprof.base.errors import BoardprofError
    from boardprof.base.printable import escaped

    place = traceback.extract_tb(error.__traceback__)[-1]
    what = escaped(f"{type(error).__name__}: {error}"[:_LONGEST_ERROR])
    text = f"internal error: {what} ({place.filename}:{place.lineno}). Try: {DEBUG}\n"
    # The option may not have been read yet.
    if shows_tracebacks() or DEBUG in (sys.argv if arguments is None else arguments):
        text = "".join(traceback.format_exception(error))
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed or missing
        sys.stderr.write(escaped(text, keep="\n"))
    return for_bisect(BoardprofError.exit_code) if bisects(arguments) else BoardprofError.exit_code


_received: list[int] = []  # signals other than Ctrl-C that interrupted the command


def _interrupt_by(*numbers: int) -> None:
    """Let other signals interrupt the command too, so that it leaves no file or process behind."""
    import signal

    def interrupt(number: int, _: object) -> None:
        _received.append(number)
        raise KeyboardInterrupt

    for number in numbers:
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, interrupt)


def _lose_no_interrupt() -> None:
    """Deliver Ctrl-C again if it arrived within code that cannot raise."""
    # An example is the callback with which Python releases the lock of a module that it has loaded.
    # CPython would print a traceback and continue.
    import signal
    import sys
    import threading

    before = sys.unraisablehook

    def again() -> None:
        main_thread = threading.main_thread().ident
        assert main_thread is not None
        # Not _thread.interrupt_main: it does not wake up a waiting call.
        if hasattr(signal, "pthread_kill"):
            signal.pthread_kill(main_thread, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    def tell(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            before(unraisable)
            return
        delay_s = 0.01
        while True:
            timer = threading.Timer(delay_s, again)
            timer.daemon = True
            try:
                timer.start()
                return
            except KeyboardInterrupt:
                delay_s *= 2  # on a busy machine it may come while we are still here

    sys.unraisablehook = tell


def _leave(*_: object) -> None:
    """End without an exception, which half-loaded modules would report as their own."""
    try:
        os.write(_STDERR, _SAID)
    finally:
        os._exit(INTERRUPTED)

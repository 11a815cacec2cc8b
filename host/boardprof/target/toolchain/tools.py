# SPDX-License-Identifier: Apache-2.0
"""Programs of a toolchain: which are missing, running them with a deadline, what they print."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from boardprof.base.errors import BuildError, MissingToolError, StorageError
from boardprof.base.files import no_room
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.descriptions.tables import find_kernel
from boardprof.target.toolchain.cache import Cache, digest, file_state

try:
    import resource
except ModuleNotFoundError:  # not a POSIX system: what a program takes is not seen
    resource = None  # type: ignore[assignment]

_TIMEOUT_S = 300.0
_IDLE_S = 20.0
"""How long a compiler may wait without computing anything, as for a header that is a pipe."""
_LOOK_S = 1.0
_MEMORY = 8 << 30
"""The most bytes of memory that a compiler may use; half of the machine's if that is less."""
_SHOW = "--verbose shows the command"
_END_S = 2.0  # seconds for a program to end after SIGTERM

# GCC and Clang: FILE:LINE:COLUMN: KIND: TEXT. Notes belong to the message before them.
_BEGIN = r"^\S.*?: (fatal error|error|warning): "
_INCLUDED = r"^(In file included from|                 from) "
_FUNCTION = r"^\S.*: (In|At) .*:$"


class ToolFailure(BuildError):
    """A program that failed, with what it printed; its ``command`` may have many kB."""

    def __init__(self, failure: str, stdout: str, stderr: str, command: str) -> None:
        """Compose the message from the failed step and the program's own text."""
        super().__init__(f"{failure}:\n{stderr.rstrip()}")
        self.stdout = stdout
        self.stderr = stderr
        self.command = command


class Tools:
    """Runs programs; may be used from many threads."""

    def __init__(self, report: Callable[[str], None] | None) -> None:
        """Report each command before it runs, and warnings of commands that succeed."""
        self._report = report
        self._lock = threading.Lock()
        self.commands: list[tuple[str, ...]] = []
        self._started: list[subprocess.Popen[str]] = []
        self._is_stopped = False

    def stop(self) -> None:
        """End the programs that other threads run, and those that they start from now on."""
        with self._lock:
            self._is_stopped = True
            running = [process for process in self._started if process.poll() is None]
        for process in running:
            end_with_children(process)

    def _on_start(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._started.append(process)
            is_stopped = self._is_stopped
        if is_stopped:
            end_with_children(process)

    def run(
        self, program: str, arguments: Sequence[str], folder: Path, failure: str, **variables: str
    ) -> str:
        """Run a program in ``folder``; return what it prints on stdout."""
        command = (program, *arguments)
        shown = f"cd {shlex.quote(str(folder))} && {shlex.join(command)}"
        with self._lock:
            self.commands.append(command)
        self._tell(shown)
        # GCC takes its folder's name from PWD; __DATE__ would change the image every day.
        environment = {"PWD": str(folder), "SOURCE_DATE_EPOCH": "0", **variables}
        try:
            variables = {**os.environ, **environment}
            done = ended(command, folder, variables, _TIMEOUT_S, self._on_start, idle_s=_IDLE_S)
        except subprocess.TimeoutExpired as error:
            if error.timeout < _TIMEOUT_S:
                raise BuildError(
                    f"{failure}: it waited for {error.timeout:.0f} s without computing anything.",
                    hint=f"is one of its headers a pipe or a device? {_SHOW}",
                ) from error
            raise BuildError(
                f"{failure}: it did not end within {_TIMEOUT_S:.0f} s.", hint=_SHOW
            ) from error
        except OSError as error:
            is_there = isinstance(error, FileNotFoundError) and shutil.which(program)
            why = "the program in its first line is missing" if is_there else error.strerror
            raise BuildError(f"{failure}: {why}.", hint=_SHOW) from error
        if (code := done.returncode) != 0:
            check_room(failure, done.stderr)
            how = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
            without = f"{program} ended {how}, without a message"
            said = done.stderr if done.stderr.strip() else without
            raise ToolFailure(failure, done.stdout, said, shown)
        if done.stderr:
            self._tell(done.stderr.rstrip())
        return done.stdout

    def _tell(self, text: str) -> None:
        if self._report is not None:
            with self._lock:
                self._report(text)


def check_room(failure: str, words: str) -> None:
    """Raise a better error if a program has failed because of a full disk."""
    told = no_room(words)
    if told is not None:
        raise StorageError(
            f"{failure}: {told}.", hint="free some space there, or set XDG_CACHE_HOME and TMPDIR"
        )


def ended(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    timeout_s: float,
    on_start: Callable[[subprocess.Popen[str]], None] | None = None,
    output: int | None = None,
    idle_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; on a timeout end it with all that it has started.

    ``idle_s``: likewise if it and its children take no time of the CPU for so long.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with later_interrupts():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if output is None else output,
                stderr=subprocess.PIPE if output is None else subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        if on_start is not None:
            on_start(process)
        stdout, stderr = _communicated(process, timeout_s, idle_s)
    finally:
        if process is not None:  # also when we are interrupted
            if process.poll() is None:
                end_with_children(process)
            for pipe in filter(None, (process.stdout, process.stderr)):
                pipe.close()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _communicated(
    process: subprocess.Popen[str], timeout_s: float, idle_s: float | None
) -> tuple[str, str]:
    """Return what a program prints; raise TimeoutExpired with the limit that it exceeded."""
    if idle_s is None or resource is None:
        return process.communicate(timeout=timeout_s)
    began_s = active_s = time.monotonic()
    taken = 0
    while True:
        left_s = began_s + timeout_s - time.monotonic()
        try:
            return process.communicate(timeout=max(0.0, min(left_s, _LOOK_S)))
        except subprocess.TimeoutExpired:
            now_s, before, taken = time.monotonic(), taken, _cpu_ticks(process.pid)
            if taken != before:
                active_s = now_s
            for limit_s, since_s in ((timeout_s, began_s), (idle_s, active_s)):
                if now_s - since_s >= limit_s:
                    raise subprocess.TimeoutExpired(process.args, limit_s) from None


def _cpu_ticks(session: int) -> int:
    """Return the CPU time of a session's processes and of their children (proc_pid_stat(5)).

    Also limit their memory: a header such as /dev/zero would take all of it, and the system would
    end other programs for that.
    """
    ticks = 0
    memory = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2, _MEMORY)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has just ended
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session:
                ticks += sum(map(int, fields[11:15]))
                _, most = resource.prlimit(int(folder.name), resource.RLIMIT_DATA)
                if most == resource.RLIM_INFINITY or most > memory:
                    resource.prlimit(int(folder.name), resource.RLIMIT_DATA, (memory, most))
    return ticks


@contextlib.contextmanager
def later_interrupts() -> Iterator[None]:
    """Hold Ctrl-C and the like back until the end of the block, which starts a program.

    Within `subprocess.Popen` it would leave a program running that nobody ends.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in {signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGINT)}
        if callable(signal.getsignal(number))  # others raise nothing
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def end_with_children(process: subprocess.Popen[Any]) -> None:
    """End a program that leads a session, and its children: cc1 would outlive gcc."""
    if resource is None:
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A program stuck in the kernel, at a USB device for example, ends later.
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def errors_first(text: str) -> str:
    """Return a compiler's messages, each with its context, with the errors before the warnings."""
    head: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    block, above, function = head, [], ""
    told = {id(errors): "", id(warnings): ""}  # the last function that was named
    for line in text.splitlines():
        if re.match(_INCLUDED, line):
            above.append(line)
            continue
        if re.match(_FUNCTION, line):
            function = line
            continue
        if (begin := re.match(_BEGIN, line)) is not None:
            block = warnings if begin[1] == "warning" else errors
            if function != told[id(block)]:
                above.append(function)
                told[id(block)] = function
        block += [*above, line]
        above = []
    return "\n".join([*head, *errors, *warnings, *above]) if errors or warnings else text


def parse_depfile(text: str) -> list[str]:
    """Return the prerequisites in a depfile of GCC; only spaces and line breaks separate names."""
    _, _, rest = text.replace("\\\n", " ").partition(":")
    words: list[str] = re.findall(r"(?:\\.|\$\$|[^ \n\\]|\\)+", rest)
    return [re.sub(r"\\([ \t#])", r"\1", word).replace("$$", "$") for word in words]


def missing_tools(spec: BoardSpec) -> list[dict[str, str]]:
    """Return each as ``tool`` and the package that has it.

    The package is a ``package`` of Debian, a ``python_package`` or a ``node_package``.
    """
    needed = {spec.build.cc: spec.build.package}
    launch = spec.launch
    if launch.command and "{" not in launch.command[0]:
        needed[launch.command[0]] = launch.package or launch.command[0]
    if launch.simulator is not None:
        needed.setdefault(launch.simulator.program, launch.simulator.package)
    missing = [
        {"tool": tool, "package": package}
        for tool, package in needed.items()
        if shutil.which(tool) is None
    ]
    if launch.guest is not None and find_kernel(launch.guest) is None:
        missing.append({"tool": launch.guest.kernel, "package": launch.guest.package})
    sources = launch.simulator.python_package if launch.simulator is not None else None
    if sources is not None and python_package_version(sources) is None:
        missing.append({"tool": sources, "python_package": sources})
    if launch.node_package is not None and not is_installed(launch.node_package):
        name = launch.node_package.partition("@")[0]
        missing.append({"tool": name, "node_package": launch.node_package})
    return missing


def check_compiler(spec: BoardSpec) -> None:
    """Check that the board has its compiler; the error names all packages that it lacks."""
    if shutil.which(spec.build.cc) is None:
        packages = [each["package"] for each in missing_tools(spec) if "package" in each]
        hint = f"sudo apt-get install {' '.join(dict.fromkeys(packages))}"
        raise MissingToolError(spec.build.cc, spec.build.package, hint=hint)


def missing_text(tool: Mapping[str, str]) -> str:
    """Return one of `missing_tools` for people."""
    if "python_package" in tool:
        return f"{tool['tool']} (Python package)"
    if "node_package" in tool:
        return f"{tool['node_package']} (Node.js package)"
    name = posixpath.basename(tool["tool"])  # of a kernel it is a path
    return f"{name} (Debian package {tool['package']})"


def python_package_version(name: str) -> str | None:
    """Return the version of an installed Python package, None if it is not installed."""
    from importlib import metadata  # later: its parsers of mail and CSV take long to import

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


# -- a compiler's program ------------------------------------------------------------------------


SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
"""Variables by which GCC finds headers (GCC manual, 3.21 "Environment Variables")."""

_ENVIRONMENT = ("COMPILER_PATH", "GCC_EXEC_PREFIX", "LIBRARY_PATH", *SEARCHED)
_FORMAT = 3  # of keys and records: raise it when either changes its meaning
_PROGRAMS = ("cc1", "cc1plus", "as", "ld")
_FOLDERS = "programs: ="  # in what -print-search-dirs prints (GCC manual, 3.20)


def identified(cc: str, found: str, cache: Cache) -> tuple[str, str]:
    """Return the version of a compiler, and a digest of all that its answers depend on."""
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    version, programs = _answers(found, environment, cache)
    return version, digest(_FORMAT, cc, version, environment, _program_states(programs))


def _program_states(programs: Sequence[str]) -> list[list[Any]]:
    """Return which compiler, assembler and linker it runs, and the state of their files."""
    found = []
    for name in programs:
        path = shutil.which(name)
        status = os.stat(path) if path else None
        found.append([name, status and [status.st_size, status.st_mtime_ns]])
    return found


def _answers(cc: str, environment: Mapping[str, str | None], cache: Cache) -> tuple[str, list[str]]:
    """Return the compiler's version and its programs, from the cache if still valid.

    An entry is valid while the compiler's file, the environment and the folders of its programs are
    unchanged. A program that does not contain its version may wrap a compiler that changes without
    it, so it is asked each time. The programs (compiler proper, assembler, linker) are paths, or
    names on PATH; [] if unknown.
    """
    real = os.path.realpath(cc)
    key = digest("answers", cc, real, file_state(real), dict(environment))
    known = cache.read("compilers", key)
    if known is not None:
        version, programs, folders = json.loads(known)
        if _folder_states(folders) == folders:
            return version, programs
    version = Tools(None).run(cc, ["--version"], Path("/"), f"{cc} does not run", LC_ALL="C")
    # Checked before the programs are run, so that a change during the run is noticed.
    folders = _folder_states(_searched(cc)) if _has_own_version(real, version) else {}
    asked = (_said(cc, f"-print-prog-name={name}").strip() for name in _PROGRAMS)
    programs = [name for name in asked if name]
    if folders:
        cache.write(json.dumps([version, programs, folders]), "compilers", key)
    return version, programs


def _folder_states(folders: Iterable[str]) -> dict[str, list[int] | None]:
    return {folder: file_state(folder) for folder in folders}


def _has_own_version(program: str, version: str) -> bool:
    """Return whether a program prints a version that is written in itself; a wrapper does not."""
    content = Path(program).read_bytes()
    words = version.partition("\n")[0].split()[1:]
    is_binary = not content.startswith(b"#!")
    return is_binary and bool(words) and all(word.encode() in content for word in words)


def _said(cc: str, question: str) -> str:
    """Return the answer to a question that not every compiler knows; "" if it does not."""
    try:
        return Tools(None).run(cc, [question], Path("/"), f"{cc} does not answer", LC_ALL="C")
    except ToolFailure:
        return ""


def _searched(cc: str) -> list[str]:
    """Return the folders in which it searches its programs; [] if it does not report them."""
    lines = _said(cc, "-print-search-dirs").splitlines()
    found = [line.removeprefix(_FOLDERS) for line in lines if line.startswith(_FOLDERS)]
    return [folder for line in found for folder in line.split(os.pathsep) if folder]


# -- packages of Node.js -------------------------------------------------------------------------


def node_prefix() -> Path:
    """Return the folder for ``npm install --prefix`` whose packages boardprof finds."""
    return Path(sys.prefix) / "lib"


def node_package_folder(package: str) -> Path:
    """Return the folder of an installed package, given as ``NAME@VERSION``.

    The version must be that one: a board relies on what its emulator is inside.
    """
    name, _, wanted = package.partition("@")
    others = []
    for place in _places():
        version = _version(place / name)
        if version == wanted:
            return place / name
        if version is not None:
            others.append(f"{version} is in {place}")
    found = f" {'; '.join(others)}." if others else ""
    raise MissingToolError(
        name,
        package,
        message=f"The Node.js package {package} is not installed in {node_prefix()}/node_modules."
        + found,
        hint=f"{install_command(package)} (npm: apt install npm)",
    )


def is_installed(package: str) -> bool:
    """Return whether `node_package_folder` finds a package."""
    try:
        node_package_folder(package)
    except MissingToolError:
        return False
    return True


def install_command(*packages: str) -> str:
    """Return the command that installs packages for this Python."""
    return " ".join(["npm install --prefix", str(node_prefix()), *packages])


def _places() -> Iterator[Path]:
    yield node_prefix() / "node_modules"
    yield from map(Path, filter(None, os.environ.get("NODE_PATH", "").split(os.pathsep)))


def _version(folder: Path) -> str | None:
    try:
        found = json.loads((folder / "package.json").read_text("utf-8"))["version"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None

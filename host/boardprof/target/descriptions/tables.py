# SPDX-License-Identifier: Apache-2.0
"""The tables of ``board.toml``, each as a class and the function that reads it.

``bp_config.h`` has all options of the agent with their defaults, and ``#error`` lines for wrong
values.
"""

from __future__ import annotations

import difflib
import functools
import re
import string
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from boardprof.base.files import runtime_dir
from boardprof.base.formula import Formula, FormulaError, marked, parse_formula
from boardprof.base.toml_table import TomlTable
from boardprof_protocol.codes import FaultCause

_OPTION = r"(?m)^#define BP_CFG_([A-Z0-9_]+) (\d+)$"
_RULE = r'(?m)^#if (.+)\n#error "(.+)"$'
_RANGE = r"BP_CFG_\w+ is out of range \((.+)\)"
_NAME = r"BP_CFG_([A-Z0-9_]+)"


@functools.cache
def agent_options() -> Mapping[str, int]:
    """Return the options of ``bp_config.h``: name in lower case -> default."""
    return {name.lower(): int(value) for name, value in re.findall(_OPTION, _header())}


def _check_config(table: TomlTable, config: Mapping[str, int]) -> None:
    """Check ``build.config`` against the ``#error`` lines of ``bp_config.h``."""
    values = {**agent_options(), **config}
    for condition, message in _rules():
        if eval(condition, {"__builtins__": {}}, values):  # boardprof's own, not the user's
            named = [name.lower() for name in re.findall(_NAME, message)]
            key = next((name for name in named if name in config), named[0])
            found = re.fullmatch(_RANGE, message)
            text = f"must be {found[1]}, not {values[key]}" if found else message
            raise table.error(key, re.sub(_NAME, lambda name: name[1].lower(), text))


@functools.cache
def _header() -> str:
    return (runtime_dir() / "include" / "boardprof" / "bp_config.h").read_text(encoding="utf-8")


@functools.cache
def _rules() -> tuple[tuple[CodeType, str], ...]:
    """Return each condition that must be false, with the text of its error."""
    return tuple((_compiled(condition), text) for condition, text in re.findall(_RULE, _header()))


def _compiled(condition: str) -> CodeType:
    """Compile a condition of the preprocessor as Python, which spells operators differently."""
    python = re.sub(_NAME, lambda name: name[1].lower(), condition)
    python = python.replace("&&", " and ").replace("||", " or ")
    return compile(python, "bp_config.h", "eval")


_CORE = "-mcpu="
_MAIN = "src/bp_main.c"


@dataclass(frozen=True)
class BuildSpec:
    """How firmware for a board is compiled and linked: ``[build]``."""

    cc: str
    package: str
    size: str | None = None
    cflags: tuple[str, ...] = ()  # for every compilation and for the link, without paths
    ldflags: tuple[str, ...] = ()  # after the objects; paths relative to the board's folder
    arch: str | None = None  # folder below the agent's ``arch/``; None if not needed
    sources: tuple[str, ...] = ("port.c",)  # relative to the board's folder
    link_script: str | None = None
    collectors: tuple[str, ...] = ()
    config: Mapping[str, int] = field(default_factory=dict, hash=False)  # without BP_CFG_
    shared: bool = False
    freestanding: bool = False  # without a libc: the agent brings what a compiler needs
    own_main: bool = False  # ``main`` is in the board's sources, not in the agent or its arch
    cxx: str | None = None  # None derives it from ``cc``
    cxx_package: str | None = None  # its Debian package; ``package`` if None
    libc: str | None = None  # for freestanding boards: folder below the agent's ``libc/``
    libc_package: str | None = None
    libc_cflags: tuple[str, ...] = ()
    libc_ldflags: tuple[str, ...] = ()
    libc_heap: int = 0  # bytes for ``malloc``; with 0, code that calls it does not link

    @property
    def core(self) -> str:
        """The core that its code is compiled for, as GCC names it; "" if not known."""
        named = [flag for flag in self.cflags if flag.startswith(_CORE)]
        return named[-1].removeprefix(_CORE).partition("+")[0] if named else ""

    @property
    def options(self) -> dict[str, int]:
        """All options of the board's agent."""
        return {**agent_options(), **self.config}


def read_build(table: TomlTable) -> BuildSpec:
    """Read ``[build]``."""
    spec = table.read(
        BuildSpec,
        config=lambda: table.table("config", required=False).mapping(int, agent_options()),
        shared=lambda: table.choice("output", ("elf", "shared"), "elf") == "shared",
        own_main=lambda: table.choice("main", (_MAIN, "port"), _MAIN) == "port",
    )
    _check_config(table.table("config", required=False), spec.config)
    _check_libc(table, spec)
    for key, paths in (("sources", spec.sources), ("link_script", (spec.link_script,))):
        for path in paths:
            if path is not None and not (table.file.parent / path).is_file():
                raise table.error(key, f"there is no file {path!r} in the board's folder")
    return spec


def _check_libc(table: TomlTable, spec: BuildSpec) -> None:
    known = sorted(path.name for path in (runtime_dir() / "libc").iterdir() if path.is_dir())
    if spec.libc is not None and spec.libc not in known:
        raise table.error("libc", f"{spec.libc!r} is not known; known: {', '.join(known)}")
    if (spec.libc is None) != (spec.libc_package is None):
        raise table.error("libc", "libc and libc_package go together")
    if spec.libc == "picolibc" and spec.own_main:
        raise table.error("libc", 'picolibc needs a set-up that main = "port" does not do')
    if spec.libc_heap < 0:
        raise table.error("libc_heap", f"must be 0 bytes or more, not {spec.libc_heap}")


CAUSES = tuple(c.key for c in FaultCause if c not in (FaultCause.NONE, FaultCause.UNKNOWN))
"""The causes that a board may catch, in the order of their numbers."""

_UNGUARDED = "its agent is compiled without BP_CFG_GUARD"


@dataclass(frozen=True)
class GuardSpec:
    """What a board's guard catches, and why it misses the other causes: ``[guard]``."""

    catches: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(
        default_factory=lambda: dict.fromkeys(CAUSES, _UNGUARDED), hash=False
    )

    def facts(self) -> list[dict[str, str | None]]:
        """Return each cause with the reason why it is not caught, or None; for JSON."""
        return [{"cause": cause, "not_caught": self.missing.get(cause)} for cause in CAUSES]


def read_guard(table: TomlTable | None, config: Mapping[str, int], build: TomlTable) -> GuardSpec:
    """Read ``[guard]``."""
    if table is None:
        if config.get("guard"):
            raise build.error(
                "config", "guard = 1 needs a table [guard] that lists what it catches"
            )
        return GuardSpec()
    if not config.get("guard"):
        raise table.error("catches", "nothing is caught without guard = 1 in build.config")
    catches = table.texts("catches", None)
    for cause in catches:
        if cause not in CAUSES:
            raise table.error("catches", f'"{cause}" is not a cause; known: {", ".join(CAUSES)}')
    missing = table.table("not", required=False).mapping(str, dict.fromkeys(CAUSES))
    table.end()
    for cause in CAUSES:
        told = catches.count(cause) + (cause in missing)
        if told != 1:
            what = f'"{cause}" is {"given twice" if told else "missing"}'
            raise table.error("catches", f"{what}: give it here, or with a reason in [guard.not]")
    return GuardSpec(tuple(c for c in CAUSES if c in catches), missing)


# -- [events] and [derived] ----------------------------------------------------------------------


_EVENT = r"[A-Za-z_][A-Za-z0-9_.:-]*"
_CODE_BITS = 64
# Columns of every Report, and names with another meaning in ``metrics=``.
_RESERVED = frozenset(
    {
        *("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Flags"),
        *("Hash", "Stack (bytes)", "Perturbation (%)", "duration", "time", "stack", "all"),
    }
)
_FUNCTION = r"(?a)[A-Za-z_]\w*"


@dataclass(frozen=True)
class DerivedSpec:
    """A metric that is computed from others: an entry of ``[derived]``."""

    kind: str
    formula: Formula  # over counters and events; a Percent's gives 100 for the whole


def read_events(table: TomlTable, collectors: Sequence[str]) -> dict[str, dict[str, int]]:
    """Read ``[events]``: collector -> event -> its code."""
    found = {}
    for name in table.keys:
        events = table.table(name)
        if name not in collectors:
            known = ", ".join(collectors) or "none"
            raise table.error(
                name, f"the board does not have this collector; build.collectors: {known}"
            )
        codes = events.mapping(int)
        for event, code in codes.items():
            if not re.fullmatch(_EVENT, event):
                raise events.error(event, "must be a name of letters, digits and any of _.:-")
            if not 0 <= code < 1 << _CODE_BITS:
                raise events.error(
                    event, f"must be a code of 0 or more that fits in 64 bits, not {code}"
                )
        found[name] = codes
    table.end()
    return found


def read_derived(table: TomlTable, events: Container[str] = ()) -> dict[str, DerivedSpec]:
    """Read ``[derived]``: metric -> how it is computed."""
    for name in table.keys:
        if name in _RESERVED:
            raise table.error(name, "boardprof already uses this name")
        if name in events:
            raise table.error(name, "an event in [events] already has this name")
    return {name: _derived(table.table(name)) for name in table.keys}


def _derived(table: TomlTable) -> DerivedSpec:
    kind = table.choice("kind", ("Count", "Percent", "Ratio"))
    text = table.take("formula", str)
    table.end()
    try:
        return DerivedSpec(kind, parse_formula(text))
    except FormulaError as error:
        wrong = table.error("formula", str(error))
        wrong.message += f"\n{marked(text, error.at)}"
        raise wrong from error


def counted_names(
    folder: Path, collectors: Sequence[str], events: Mapping[str, Mapping[str, int]]
) -> tuple[str, ...] | None:
    """Return the names of all counters and events; None if only the running board knows them."""
    # Here, because construct takes a while to import.
    from boardprof.wire.decode.schemas import board_layouts
    from boardprof_protocol.collectors import collector_layouts

    layouts = {each.name: each for each in (*collector_layouts(), *board_layouts(folder))}
    names: list[str] = []
    for collector in collectors:
        layout = layouts.get(collector)
        if layout is None or (layout.programmable and collector not in events):
            return None
        counters = [counter.name for counter in layout.counters]
        names += events[collector] if layout.programmable else counters
    return tuple(dict.fromkeys(names))


def check_names(table: TomlTable, known: Sequence[str]) -> None:
    """Refuse unknown keys; a name may begin with its collector's (``riscv_hpm.instructions``)."""
    for name in table.keys:
        if not _is_known(name, known):
            raise table.error(name, f"is not a count{_proposal(name, known)}")


def check_formula(table: TomlTable, formula: Formula, known: Sequence[str]) -> None:
    """Refuse a formula, the key ``formula`` of a table, with names that are not among ``known``."""
    for name, at in zip(formula.names, formula.places, strict=True):
        if not _is_known(name, known):
            error = table.error("formula", f'"{name}" is not a count{_proposal(name, known)}')
            error.message += f"\n{marked(formula.text, at, len(name))}"
            raise error


def _is_known(name: str, known: Sequence[str]) -> bool:
    return name in known or name.partition(".")[2] in known


def _proposal(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    proposal = f"did you mean {close[0]!r}? " if close else ""
    return f" of this board; {proposal}Known here: {', '.join(known)}"


@dataclass(frozen=True)
class KnownWork:
    """A function with a known count: an entry of ``[doctor.work]``."""

    function: str  # takes its number of rounds, ``uint32_t``; returns nothing
    per_round: int


@dataclass(frozen=True)
class DoctorSpec:
    """Work for a board's own counters: ``[doctor]``."""

    sources: tuple[str, ...] = ()
    work: Mapping[str, KnownWork] = field(default_factory=dict, hash=False)  # by counter or event
    nowhere: int = 0  # an address that nothing answers at
    varies: tuple[str, ...] = ()  # counters of an emulator that depend on the calls before


def read_doctor(table: TomlTable) -> DoctorSpec:
    """Read ``[doctor]``."""
    work = table.table("work", required=False)
    works = {name: _work(work.table(name)) for name in work.keys}
    spec = table.read(DoctorSpec, work=lambda: works)
    for path in spec.sources:
        if not (table.file.parent / path).is_file():
            raise table.error("sources", f"there is no file {path!r} in the board's folder")
    return spec


def _work(table: TomlTable) -> KnownWork:
    work = table.read(KnownWork)
    if not re.fullmatch(_FUNCTION, work.function):
        raise table.error("function", f"must be the name of a C function, not {work.function!r}")
    if work.per_round < 1:
        raise table.error("per_round", f"must be a count of 1 or more, not {work.per_round}")
    return work


# -- [launch], [port] and [flash] --------------------------------------------------------------


_RUNTIME = "runtime"
DEFAULT_BAUD = 115200
_NODE_PACKAGE = r"[a-z0-9][a-z0-9._-]*@\d+\.\d+\.\d+[a-z0-9.-]*"


def placeholders(table: TomlTable, key: str, command: Sequence[str]) -> set[str]:
    """Return the names in braces: placeholders for values known only when the command runs."""
    try:
        pieces = [piece for text in command for piece in string.Formatter().parse(text)]
    except ValueError as error:
        raise table.error(key, f"{error}; write a literal brace twice") from error
    # A name with a format or a conversion is not a known name.
    return {
        f"{name}:{form}" if form else f"{name}!{conversion}" if conversion else name
        for _, name, form, conversion in pieces
        if name is not None
    }


def check_placeholders(
    table: TomlTable, key: str, command: Sequence[str], known: set[str]
) -> set[str]:
    """Return the names in braces."""
    named = placeholders(table, key, command)
    if unknown := named - known:
        braces = ", ".join(f"{{{name}}}" for name in sorted(known))
        raise table.error(key, f'"{{{min(unknown)}}}" is not known; {braces} are')
    return named


def filled(command: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return a command with values in place of the names; it was checked by the readers."""
    return [part.format_map(values) for part in command]


@dataclass(frozen=True)
class SimulatorSpec:
    """How a program that simulates a board is built on the user's machine: ``[launch.simulator]``.

    In ``command``, ``{output}`` is the program to be written, ``{scratch}`` an empty folder,
    ``{runtime}`` the agent's folder, ``{python_package}`` the folder of that package.
    """

    sources: tuple[str, ...]  # every input, relative to the board's folder; may have ``*``
    command: tuple[str, ...]  # builds it in the board's folder
    program: str  # the build's tool; another version causes a new build
    package: str
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)  # header -> Debian package
    python_package: str | None = None


def _read_simulator(table: TomlTable) -> SimulatorSpec:
    headers = table.table("headers", required=False)
    spec = table.read(SimulatorSpec, headers=lambda: headers.mapping(str))
    check_placeholders(table, "sources", spec.sources, {_RUNTIME})
    known = {"output", "scratch", _RUNTIME} | ({"python_package"} if spec.python_package else set())
    if "output" not in check_placeholders(table, "command", spec.command, known):
        raise table.error("command", 'must contain "{output}", the path of the program')
    for source in spec.sources:
        if not _files(table.file.parent, source):
            raise table.error("sources", f"there is no file {source!r} in the board's folder")
    return spec


def simulator_sources(folder: Path, spec: SimulatorSpec) -> dict[str, Path]:
    """Return the sources of a simulator, by names without the machine's paths."""
    return {name: path for source in spec.sources for name, path in _files(folder, source).items()}


def _files(folder: Path, source: str) -> dict[str, Path]:
    is_agents = f"{{{_RUNTIME}}}" in source
    root = runtime_dir() if is_agents else folder
    (pattern,) = filled([source], {_RUNTIME: "."})
    found = sorted(path for path in root.glob(pattern) if path.is_file())
    return {f"{_RUNTIME * is_agents}/{path.relative_to(root)}": path for path in found}


@dataclass(frozen=True)
class GuestSpec:
    """The Linux kernel of a virtual machine whose first process is the image."""

    kernel: str  # path, may have ``*``; the last one in the order of numbers is taken
    package: str  # the Debian package that has it, may have ``*`` for the release
    device_tree: str | None = None  # path in the kernel's folder; None if QEMU makes it
    ram: int | None = None  # its address, if the kernel is an Arm zImage to be unpacked by the host


def find_kernel(spec: GuestSpec) -> Path | None:
    """Return the newest installed kernel; None if there is none."""
    found = Path("/").glob(spec.kernel.lstrip("/"))
    return max(
        found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))], default=None
    )


@dataclass(frozen=True)
class LaunchSpec:
    """How the host reaches a running board: ``[launch]``.

    ``kind`` is "library" (loaded into the host's process), "process" (a child process: a program or
    an emulator) or "serial" (a line to a board that runs already). In ``command``, ``{image}`` is
    the firmware's path, ``{port}`` a TCP port, ``{folder}`` the board's folder, ``{simulator}`` the
    program that was built for it, ``{node_package}`` the folder of that package, ``{kernel}``,
    ``{initramfs}`` and ``{device_tree}`` the files of a guest whose first process is the firmware.
    In ``record``, ``{plan}`` is the file that says what to record, ``{recorder}`` boardprof's
    plugin for QEMU, ``{node_recorder}`` its module for Node.js. With ``listen`` "host" the child
    connects to ``{port}``; with "board" it prints ``listening on HOST:PORT``.
    """

    kind: str
    command: tuple[str, ...] = ()  # empty unless the kind is "process"
    package: str | None = None
    listen: str | None = None
    baud: int | None = None
    simulator: SimulatorSpec | None = None
    guest: GuestSpec | None = None
    node_package: str | None = None  # NAME@VERSION, for an emulator that runs in Node.js
    record: tuple[str, ...] = ()  # options that record a call; empty if it cannot
    recorder: str | None = None  # "callgrind" for a child that is not an emulator


def read_launch(table: TomlTable) -> LaunchSpec:
    """Read ``[launch]``."""
    kind = table.choice("kind", ("library", "process", "serial"))
    if kind == "process":
        spec = LaunchSpec(
            kind,
            command=table.texts("command", None),
            package=table.take("package", str, None),
            listen=table.choice("listen", ("host", "board")),
            simulator=_read_simulator(table.table("simulator")) if table.has("simulator") else None,
            guest=table.table("guest").read(GuestSpec) if table.has("guest") else None,
            node_package=_read_node_package(table) if table.has("node_package") else None,
            record=table.texts("record", ()),
            recorder=table.choice("recorder", ("callgrind",)) if table.has("recorder") else None,
        )
        check_placeholders(table, "record", spec.record, {"plan", "recorder", "node_recorder"})
        _check_command(table, spec)
    elif kind == "serial":
        spec = LaunchSpec(kind, baud=_read_baud(table))
    else:
        spec = LaunchSpec(kind)
    table.end(f' when kind = "{kind}"')
    return spec


def _read_node_package(table: TomlTable) -> str:
    package: str = table.take("node_package", str)
    if not re.fullmatch(_NODE_PACKAGE, package):
        raise table.error("node_package", f'must be "NAME@VERSION", not "{package}"')
    return package


def _read_baud(table: TomlTable) -> int:
    """Read the key ``baud``, bits per second."""
    baud: int = table.take("baud", int, DEFAULT_BAUD)
    if baud <= 0:
        raise table.error("baud", f"must be a baud rate above 0, not {baud}")
    return baud


def _check_command(table: TomlTable, spec: LaunchSpec) -> None:
    named = placeholders(table, "command", spec.command)
    built = {"simulator"} if spec.simulator is not None else set()
    image = {"image"} if spec.guest is None else {"kernel", "initramfs"}
    image |= {"device_tree"} if spec.guest is not None and spec.guest.device_tree else set()
    built |= {"node_package"} if spec.node_package is not None else set()
    needed = image | ({"port"} if spec.listen == "host" else set())
    if not needed | built <= named <= image | {"port", "folder"} | built:
        simulator = '"{simulator}" with [launch.simulator], "{node_package}" with that key, '
        words = '"{image}"' if spec.guest is None else '"{kernel}" and "{initramfs}"'
        raise table.error(
            "command",
            f'must contain {words}, and "{{port}}" if listen = "host"; {simulator}'
            "no other placeholder is known",
        )


@dataclass(frozen=True)
class PortSpec:
    """The real board, if the host otherwise starts an emulator of it: ``[port]``."""

    clock: str
    baud: int = DEFAULT_BAUD
    unsupported: Mapping[str, str] = field(default_factory=dict, hash=False)  # counter -> why


def read_port(table: TomlTable, kind: str) -> PortSpec:
    """Read ``[port]``."""
    spec = PortSpec(
        clock=table.choice("clock", ("measured", "declared")),
        baud=_read_baud(table),
        unsupported=table.table("unsupported", required=False).mapping(str),
    )
    if kind != "process":
        raise table.error(
            "clock", f'[port] is for boards with launch.kind = "process", not "{kind}"'
        )
    table.end()
    return spec


_IMAGES = {"image", "bin", "hex"}


CHOOSE = "{choose}"


@dataclass(frozen=True)
class FlashSpec:
    """How firmware is written to a board: ``[flash]``.

    Commands run in the board's folder. ``{image}`` is the path of the ELF file, ``{bin}`` and
    ``{hex}`` of its converted forms, ``{port}`` the board's port. The word ``{choose}`` stands for
    the words of ``choose``, in which ``{probe}`` is the serial number of a debug probe.
    """

    command: tuple[str, ...]
    package: str | None = None
    choose: tuple[str, ...] = ()  # nothing, if the user names no probe
    reset: tuple[str, ...] = ()  # restarts the board if the command does not
    settle_s: float = 0.5  # from then until the board answers
    timeout_s: float = 120.0


def read_flash(table: TomlTable, kind: str, *, has_port: bool) -> FlashSpec:
    """Read ``[flash]``."""
    spec = table.read(FlashSpec)
    if kind != "serial" and not has_port:
        raise table.error(
            "command", f'a board with launch.kind = "{kind}" can only be flashed if it has [port]'
        )
    known = {*_IMAGES, "port"}
    words = [word for word in spec.command if word != CHOOSE]
    named = check_placeholders(table, "command", words, known)
    check_placeholders(table, "reset", [word for word in spec.reset if word != CHOOSE], known)
    check_placeholders(table, "choose", spec.choose, {"probe"})
    if bool(spec.choose) != (len(words) < len(spec.command)):
        raise table.error("choose", f'goes with the word "{CHOOSE}" in command')
    if not named & _IMAGES:
        raise table.error("command", 'must contain "{image}", "{bin}" or "{hex}"')
    return spec

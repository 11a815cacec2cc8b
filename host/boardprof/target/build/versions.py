# SPDX-License-Identifier: Apache-2.0
"""Versions of one function: each compiled with its own flags, and several linked into one image.

In the image each version has a name of its own. All its other symbols become local, so that two
versions may have helper functions of the same name. Its code begins at a multiple of 64 bytes: on
many cores the same code takes another number of cycles at another offset in a cache line or a
fetched word, and a version's cost must not depend on its neighbours in the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from boardprof.base.errors import BuildError, UnknownNameError, UsageError
from boardprof.target.build.build_errors import missing_header
from boardprof.target.build.build_options import BuildOptions, user_flags
from boardprof.target.build.builder import build, cxx_of, link_objects, with_conventions
from boardprof.target.build.firmware import BuiltFirmware, sizes_of
from boardprof.target.build.glue import fit
from boardprof.target.build.linking import edited
from boardprof.target.build.sources import (
    agent_units,
    find_libc,
    find_sources,
    kept_functions,
    language,
    user_unit,
)
from boardprof.target.cfunction import CFunction
from boardprof.target.descriptions.board import BoardSpec
from boardprof.target.elf.functions import functions
from boardprof.target.elf.object_file import check_machine
from boardprof.target.toolchain.cache import Cache, digest
from boardprof.target.toolchain.compiler import Compiler, Object

_ALIGN = "--set-section-alignment"
_ALIGNED = (".text*", ".rodata*")
_ALIGNMENT = 64  # bytes: the longest cache line of the known boards
_LONGEST_PREFIX = 40
_DIGITS = 10


@dataclass(frozen=True)
class Version:
    """A compiled version of a function."""

    function: CFunction
    name: str  # in the image
    code: str  # digest of machine code and data, without debug information
    made: Object | None  # its object, renamed; None if it is built alone
    sources: tuple[Path, ...]
    options: BuildOptions
    headers: tuple[Path, ...] = ()

    @property
    def is_alone(self) -> bool:
        """Whether it needs an image of its own: with -flto, code is made at link time."""
        return self.made is None


class VersionBuilder:
    """Compiles versions, on any thread, and links them."""

    def __init__(
        self,
        spec: BoardSpec,
        function: str | None,
        options: BuildOptions,
        verbose: Callable[[str], None] | None = None,
    ) -> None:
        """Find the tools; without ``function`` each version has only one."""
        self.spec = spec
        self._function = function
        self._options = options
        self._verbose = verbose
        self._cache = Cache()
        self._cc = Compiler(spec.build.cc, spec.build.package, self._cache, verbose)
        self._libc = find_libc(spec, self._cc)

    def stop(self) -> None:
        """End what other threads compile."""
        self._cc.stop()

    @cached_property
    def agent(self) -> tuple[Object, ...]:
        """The agent's objects, on which what a call costs may depend."""
        return tuple(map(self._cc.compile, agent_units(self.spec)))

    @property
    def environment(self) -> str:
        """Digest of what a version's cost depends on besides its own code."""
        libc = None if self._libc is None else self._libc.version
        agent = [made.sha256 for made in self.agent]
        return digest(self.spec.name, agent, libc, self._options.libc, self._options.ldflags)

    def write_source(self, text: str) -> Path:
        """Return a file with the text of a version, in the cache."""
        return self._cache.written(f"{self._function or 'candidate'}.c", text, "candidates")

    def compile(self, sources: Sequence[Path], options: BuildOptions) -> Version:
        """Compile a version."""
        flags, found = user_flags(options), find_sources(sources)
        cflags = None if self._libc is None else self._libc.cflags
        units = [user_unit(self.spec, file, flags, cflags) for file in found.files]
        compilers = [self._cxx if language(file) == "c++" else self._cc for file in found.files]
        try:
            compiled = [cc.compile(unit) for cc, unit in zip(compilers, units, strict=True)]
        except BuildError as error:
            missing = missing_header(self.spec, error, self._libc)
            raise (missing or error) from error
        if found.objects:
            check_machine(self.spec, list(found.objects), self.agent[0].path)
        kept = kept_functions(units, found.files, flags)
        objects = [*compiled, *map(Object.of, found.objects)]
        objects = edited(self._cc, objects, flags, kept)
        offered = functions([made.path for made in objects], flags.kept_names)
        for cc, unit, made in zip(compilers, units, compiled, strict=True):
            offered = with_conventions(cc, unit, made, offered)
        function = self._chosen(offered)
        headers = tuple(dict.fromkeys(file for made in compiled for file in made.sources))
        if flags.lto:
            code = digest([made.sha256 for made in objects])
            return Version(function, function.name, code, None, tuple(sources), options, headers)
        made = objects[0]
        if len(objects) > 1:
            made = self._cc.merge(f"{function.name}.o", objects, self.spec.build.cflags)
        code = self._cc.edit(made, "--strip-debug").sha256
        name = f"{function.name[:_LONGEST_PREFIX]}_{code[:_DIGITS]}"
        made = self._cc.edit(made, *_renaming(function, name), *self._alignment)
        return Version(function, name, code, made, tuple(sources), options, headers)

    def link(self, versions: Sequence[Version]) -> BuiltFirmware:
        """Link versions of different code, except those that need a symbol that is not defined."""
        if versions[0].is_alone:
            [only] = versions
            base = self._options
            own = replace(only.options, ldflags=base.ldflags, libc=base.libc, sources=base.sources)
            return build(self.spec, only.sources, own, verbose=self._verbose)
        objects = [version.made for version in versions if version.made is not None]
        called = [_in_image(version) for version in versions]
        has_cpp = any(language(file) == "c++" for each in versions for file in each.sources)
        return link_objects(
            self.spec, objects, called, self._options, cplusplus=has_cpp, verbose=self._verbose
        )

    def sizes(self, versions: Sequence[Version]) -> list[dict[str, int] | None]:
        """Return text, data and bss of each version, without the C library's; None if unknown."""
        files = [version.made.path for version in versions if version.made is not None]
        found = sizes_of(self.spec, files) if files else []
        left = iter(found or ())
        return [None if version.made is None else next(left, None) for version in versions]

    @cached_property
    def _alignment(self) -> list[str]:
        """Return options of objcopy that align a version's code.

        Binutils before 2.33 have none. AVR, whose binutils are older, does not need them.
        """
        if not self._cc.can_edit(_ALIGN):
            return []
        return [f"{_ALIGN}={section}={_ALIGNMENT}" for section in _ALIGNED]

    @cached_property
    def _cxx(self) -> Compiler:
        name, package = cxx_of(self.spec)
        return Compiler(name, package, self._cache, self._verbose)

    def _chosen(self, offered: Sequence[CFunction]) -> CFunction:
        names = [fn.name for fn in offered]
        if self._function is None and len(offered) != 1:
            listed = ", ".join(names) or "none"
            raise UsageError(
                f"It is not clear which function is meant: a candidate has {listed}.",
                hint='say which: function="fir"',
            )
        name = names[0] if self._function is None else self._function
        if name not in names:
            raise UnknownNameError("function", name, names)
        chosen = fit(offered[names.index(name)], self.spec.build.options)
        if chosen.reason is not None:
            raise BuildError(f"{name} cannot be called: {chosen.reason}.")
        return chosen


def _renaming(function: CFunction, name: str) -> list[str]:
    """Return objcopy's options that give a version its name and hide its other symbols."""
    names = {function.symbol: name}
    names |= {function.setup: f"{name}_setup"} if function.setup else {}
    names |= {function.check: f"{name}_check"} if function.check else {}
    return [
        *(f"--redefine-sym={old}={new}" for old, new in names.items()),
        *(f"--keep-global-symbol={new}" for new in names.values()),
    ]


def _in_image(version: Version) -> CFunction:
    """Return a version's function as it is called in the image."""
    function, name = version.function, version.name
    setup = f"{name}_setup" if function.setup else None
    check = f"{name}_check" if function.check else None
    return replace(function, name=name, linkage="", setup=setup, check=check)

# SPDX-License-Identifier: Apache-2.0
"""Settings from files and the environment as defaults of options.

Precedence: flag, ``BOARDPROF_*``, the project's file, the user's file:
click's own order of flag, environment variable and default map.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from boardprof.base.errors import UnknownNameError, UsageError
from boardprof.ui.cli.output import echo_warning

if TYPE_CHECKING:
    from boardprof.base.settings import Setting


_NOT_A_SETTING = {"help", "version", "json", "bisect"}
"""Options that only make sense for one call of a command."""

_BESIDE_OPTIONS = {"project"}
"""Settings without an option."""


def apply_settings(ctx: click.Context, config: str | None, profile: str | None) -> None:
    """Set the defaults of all commands below ``ctx`` from the files.

    Args:
        ctx: of the group.
        config: a file to read instead of the project's and the user's.
        profile: name of a profile in them.

    Raises:
        UsageError: a file cannot be read, or has a key or a value that no option takes.
        UnknownNameError: no file has the profile.
    """
    from pathlib import Path

    from boardprof.base.settings import (
        all_settings,
        find_settings,
        read_settings,
        set_project_name,
        settings_of,
    )

    if config is None:
        files = find_settings(Path.cwd(), echo_warning)
    else:
        files = [read_settings(Path(config))]
    written = all_settings(files)
    settings = settings_of(files, profile)
    ctx.obj = settings
    set_project_name("")
    if not written:
        return
    assert isinstance(ctx.command, click.Group)
    _check_keys(written, ctx.command, ctx)
    ctx.default_map = _defaults(ctx.command, ctx, settings)
    if "project" in settings:
        set_project_name(settings["project"].value)


def option_key(option: click.Option) -> str:
    """Return an option's name in files: its first long name without the dashes."""
    long = [name for name in option.opts if name.startswith("--")]
    return long[0].removeprefix("--") if long else str(option.name)


def environment_name(option: click.Option) -> str | None:
    """Return the environment variable of an option, or None."""
    key = option_key(option)
    return None if key in _NOT_A_SETTING else f"BOARDPROF_{key.replace('-', '_').upper()}"


def commands_below(group: click.Group, ctx: click.Context) -> Iterator[click.Command]:
    """Yield all commands of a group, those of its groups included."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            yield from commands_below(command, ctx)
        elif command is not None:
            yield command


def _options(command: click.Command) -> Iterator[click.Option]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and option_key(parameter) not in _NOT_A_SETTING:
            yield parameter


def _check_keys(settings: Iterable[Setting], group: click.Group, ctx: click.Context) -> None:
    """Check that each key is an option, and that options that take only strings got one."""
    known: dict[str, list[click.Option]] = {}
    for command in commands_below(group, ctx):
        for option in _options(command):
            known.setdefault(option_key(option), []).append(option)
    for setting in settings:
        if setting.key in _NOT_A_SETTING:
            raise UsageError(
                f"{setting.place}: {setting.key} applies to a single command and cannot be a "
                "setting.",
                hint=f"boardprof COMMAND --{setting.key}",
            )
        if setting.key in _BESIDE_OPTIONS:
            if not isinstance(setting.value, str):
                raise UsageError(f"{setting.place}: {setting.key} must be a string in quotes.")
            continue
        if setting.key not in known:
            nearest = UnknownNameError.nearest(setting.key, sorted({*known, *_BESIDE_OPTIONS}))
            proposal = f" Did you mean {nearest!r}?" if nearest is not None else ""
            raise UsageError(
                f"{setting.place}: {setting.key} is not a setting.{proposal} Known settings: "
                f"{', '.join(sorted({*known, *_BESIDE_OPTIONS}))}."
            )
        parts = setting.value if isinstance(setting.value, list) else [setting.value]
        strange = [part for part in parts if not isinstance(part, str)]
        if strange and all(map(_takes_text, known[setting.key])):
            raise UsageError(
                f"{setting.place}: {setting.key} must be a string in quotes, not {strange[0]!r}."
            )


def _takes_text(option: click.Option) -> bool:
    kind = option.type
    return not option.is_flag and isinstance(kind, (click.types.StringParamType, click.Path))


def _defaults(
    group: click.Group, ctx: click.Context, settings: Mapping[str, Setting]
) -> dict[str, Any]:
    defaults: dict[str, Any] = {}
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        if isinstance(command, click.Group):
            defaults[name] = _defaults(command, ctx, settings)
        elif command is not None:
            defaults[name] = dict(_values(_options(command), ctx, settings))
    return defaults


def _values(
    options: Iterable[click.Option], ctx: click.Context, settings: Mapping[str, Setting]
) -> Iterator[tuple[str, Any]]:
    for option in options:
        setting = settings.get(option_key(option))
        if setting is not None and option.name is not None:
            yield option.name, _value(option, ctx, setting)


def _as_text(value: Any) -> Any:
    """Return fractions as text, as a flag has them: click truncates numbers to whole ones."""
    if isinstance(value, list):
        return [_as_text(part) for part in value]
    return repr(value) if isinstance(value, float) else value


def _value(option: click.Option, ctx: click.Context, setting: Setting) -> Any:
    """Return a setting's value as the option takes it; raise UsageError if it is wrong."""
    value = _as_text(setting.value)
    if option.is_flag and not isinstance(value, bool):
        raise UsageError(f"{setting.place}: {setting.key} must be true or false, not {value!r}.")
    if isinstance(value, list) and not option.multiple:
        value = ",".join(map(str, value))  # as --metrics takes several
    if option.multiple and not isinstance(value, list):
        value = [value]
    is_flags = isinstance(value, bool) and option.is_flag
    if not is_flags and (isinstance(value, bool) or not isinstance(value, str | int | list)):
        written = "a table" if isinstance(value, dict) else str(value).lower()
        raise UsageError(f"{setting.place}: {setting.key} cannot be {written}.")
    try:
        option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise UsageError(f"{setting.place}: {setting.key}: {error.message}") from None
    return value

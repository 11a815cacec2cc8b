# SPDX-License-Identifier: Apache-2.0
"""What a sweep stands for: settings of flags, each behind the flags of all."""

from __future__ import annotations

import pytest

from boardprof.base.errors import UsageError
from boardprof.target.build.build_options import effective_flags, settings_of


@pytest.mark.parametrize(
    ("sweep", "base", "settings"),
    [
        ("-O2|-O3|-Os", "-O2", ("-O2", "-O3", "-Os")),
        (" -O3 | -Os ", "-O2", ("-O3", "-Os")),
        ("|-O3", "-O2", ("-O2", "-O3")),
        ("-O2|", "-O0", ("-O2", "-O0")),
        ("-funroll-loops|-ffast-math", "-O3", ("-O3 -funroll-loops", "-O3 -ffast-math")),
        ("-DN=8 -Os|-DN=16", "-O2 -Wall", ("-Os -Wall -DN=8", "-O2 -Wall -DN=16")),
        ("-O3", "-O2", ("-O3",)),
    ],
)
def test_each_setting_stands_behind_the_base(
    sweep: str, base: str, settings: tuple[str, ...]
) -> None:
    assert settings_of(sweep, base) == settings


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ("", "The sweep has no settings."),
        ("  ", "The sweep has no settings."),
        ("-O3|-O3", "The sweep has -O3 twice."),
        ("|-O2", "The sweep has -O2 twice."),
        ("-O3|-O1 -O3", "The sweep has -O3 twice."),
        ("||-O3", "The sweep has -O2 twice."),
        ("-O2|O3", "'O3' in the sweep is not a compiler flag."),
        ("-O2|-DX='a", "cannot be split into flags: No closing quotation"),
    ],
)
def test_what_is_no_sweep_is_refused(sweep: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(sweep, "-O2")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "effective"),
    [
        ("-O2", "-O2"),
        ("  -O2   -g ", "-O2 -g"),
        ("-O2 -g -O3", "-O3 -g"),
        ("-g -O -Os -Wall -Ofast", "-g -Ofast -Wall"),
        ("-DX='a b'", "'-DX=a b'"),
        ("", ""),
    ],
)
def test_of_several_levels_of_optimisation_the_last_one_counts(flags: str, effective: str) -> None:
    assert effective_flags(flags) == effective


def test_what_stands_behind_an_option_is_no_level() -> None:
    assert effective_flags("-O2 -Xlinker -O1 -O3") == "-O3 -Xlinker -O1"
    assert effective_flags("-Xlinker -O1") == "-Xlinker -O1"
    assert effective_flags("-D -O1 -O2 -Os") == "-D -O1 -Os"

# SPDX-License-Identifier: Apache-2.0
"""The deepest stack from call graphs written by hand, and from one that gcc writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.stack_depth import Depth, Rules, StackDepthError, deepest, main
from tests.support import requires_compiler

STRAIGHT = r"""graph: { title: "a.c"
node: { title: "poll" label: "poll\na.c:9:5\n16 bytes (static)" }
node: { title: "a.c:parse" label: "parse\na.c:3:12\n40 bytes (static)" }
node: { title: "send" label: "send\na.c:5:5\n8 bytes (static)" }
node: { title: "encode" label: "encode\nb.h:1:5" shape : ellipse }
edge: { sourcename: "poll" targetname: "a.c:parse" label: "a.c:10:5" }
edge: { sourcename: "poll" targetname: "send" label: "a.c:11:5" }
edge: { sourcename: "send" targetname: "encode" label: "a.c:6:5" }
}
"""

ENCODE = r"""graph: { title: "b.c"
node: { title: "encode" label: "encode\nb.c:2:5\n64 bytes (dynamic,bounded)" }
}
"""

POINTER = r"""graph: { title: "c.c"
node: { title: "dispatch" label: "dispatch\nc.c:4:5\n24 bytes (static)" }
node: { title: "c.c:add" label: "add\nc.c:1:12\n8 bytes (static)" }
node: { title: "c.c:fir" label: "fir\nc.c:2:12\n48 bytes (static)" }
node: { title: "__indirect_call" label: "Indirect Call Placeholder" shape : ellipse }
edge: { sourcename: "dispatch" targetname: "__indirect_call" label: "c.c:5:12" }
}
"""

MUTUAL = r"""graph: { title: "d.c"
node: { title: "value" label: "value\nd.c:3:5\n32 bytes (static)" }
node: { title: "d.c:array" label: "array\nd.c:8:12\n16 bytes (static)" }
node: { title: "d.c:leaf" label: "leaf\nd.c:1:12\n4 bytes (static)" }
edge: { sourcename: "value" targetname: "d.c:array" label: "d.c:4:5" }
edge: { sourcename: "value" targetname: "d.c:leaf" label: "d.c:5:5" }
edge: { sourcename: "d.c:array" targetname: "value" label: "d.c:9:5" }
}
"""

UNKNOWN = r"""graph: { title: "e.c"
node: { title: "scale" label: "scale\ne.c:1:5\n16 bytes (static)" }
node: { title: "__divdi3" label: "__divdi3\n<built-in>" shape : ellipse }
node: { title: "scratch" label: "scratch\ne.c:2:5\n16 bytes (dynamic)" }
edge: { sourcename: "scale" targetname: "__divdi3" }
edge: { sourcename: "scale" targetname: "scratch" label: "e.c:3:5" }
}
"""

WEAK = r"""graph: { title: "f.c"
node: { title: "boot" label: "boot\nf.c:3:5\n16 bytes (static)" }
node: { title: "f.c:hook" label: "hook\nf.c:1:5\n8 bytes (static)" }
edge: { sourcename: "boot" targetname: "f.c:hook" label: "f.c:4:5" }
}
"""

WEAK_USER = r"""graph: { title: "u.c"
node: { title: "user" label: "user\nu.c:3:5\n96 bytes (static)" }
node: { title: "hook" label: "hook\nf.h:1:5" shape : ellipse }
edge: { sourcename: "user" targetname: "hook" label: "u.c:4:5" }
}
"""

OVERRIDE = r"""graph: { title: "g.c"
node: { title: "hook" label: "hook\ng.c:1:5\n96 bytes (static)" }
}
"""

CLONE = r"""graph: { title: "h.c"
node: { title: "run" label: "run\nh.c:3:5\n16 bytes (static)" }
node: { title: "h.c:step.constprop.0" label: "step.constprop\nh.c:1:5\n8 bytes (static)" }
node: { title: "__indirect_call" label: "Indirect Call Placeholder" shape : ellipse }
edge: { sourcename: "run" targetname: "h.c:step.constprop.0" label: "h.c:4:5" }
edge: { sourcename: "h.c:step.constprop.0" targetname: "__indirect_call" label: "h.c:2:5" }
}
"""


def write(folder: Path, *texts: str) -> list[Path]:
    paths = [folder / f"{number}.ci" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return paths


def test_the_deepest_path_crosses_files(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, STRAIGHT, ENCODE), ["poll"], Rules())
    assert depth == Depth(88, ("poll", "send", "encode"), (16, 8, 64))


def test_the_deepest_of_several_roots_wins(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, STRAIGHT, ENCODE), ["parse", "send"], Rules())
    assert depth == Depth(72, ("send", "encode"), (8, 64))


def test_a_call_through_a_pointer_follows_its_rule(tmp_path: Path) -> None:
    rules = Rules(indirect={"dispatch": ["add", "fir"]})
    depth = deepest(write(tmp_path, POINTER), ["dispatch"], rules)
    assert depth == Depth(72, ("dispatch", "c.c:fir"), (24, 48))


def test_a_call_through_a_pointer_without_a_rule_names_the_caller(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError, match="dispatch: calls through a pointer"):
        deepest(write(tmp_path, POINTER), ["dispatch"], Rules())


def test_a_pointer_that_is_never_called_has_an_empty_rule(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, POINTER), ["dispatch"], Rules(indirect={"dispatch": []}))
    assert depth == Depth(24, ("dispatch",), (24,))


def test_recursion_without_a_bound_names_the_cycle(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError, match=r"without a bound: value -> d\.c:array -> value:"):
        deepest(write(tmp_path, MUTUAL), ["value"], Rules())


def test_bounded_recursion_counts_each_activation(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, MUTUAL), ["value"], Rules(recursion={"value": 3}))
    assert depth.path == ("value", "d.c:array") * 3
    assert depth.bytes == 144  # 3 x (32 + 16)


def test_a_bound_on_one_function_of_a_cycle_is_enough(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, MUTUAL), ["value"], Rules(recursion={"array": 1}))
    assert depth.path == ("value", "d.c:array", "value", "d.c:leaf")
    assert depth.bytes == 84  # 32 + 16 + 32 + 4


def test_a_deep_bound_is_no_trouble(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, MUTUAL), ["value"], Rules(recursion={"value": 5000}))
    assert depth.bytes == 240000  # 5000 x (32 + 16)


def test_all_functions_of_unknown_size_are_listed_at_once(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError) as caught:
        deepest(write(tmp_path, UNKNOWN), ["scale"], Rules())
    assert str(caught.value).splitlines() == [
        "__divdi3 (called by scale): no known frame size: give its bytes in [extern]",
        "scratch (called by scale): an unbounded frame: give its bytes in [extern]",
    ]


def test_sizes_of_extern_functions_come_from_the_rules(tmp_path: Path) -> None:
    rules = Rules(extern={"__divdi3": 48, "scratch": 40})
    depth = deepest(write(tmp_path, UNKNOWN), ["scale"], rules)
    assert depth == Depth(64, ("scale", "__divdi3"), (16, 48))


def test_an_extern_function_may_call_back(tmp_path: Path) -> None:
    rules = Rules(extern={"__divdi3": 8, "scratch": 0, "fir": 48}, indirect={"__divdi3": ["fir"]})
    depth = deepest(write(tmp_path, UNKNOWN), ["scale"], rules)
    assert depth == Depth(72, ("scale", "__divdi3", "fir"), (16, 8, 48))


def test_an_override_of_a_weak_function_counts(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, WEAK, OVERRIDE), ["boot"], Rules())
    assert depth == Depth(112, ("boot", "hook"), (16, 96))


def test_a_weak_function_is_found_by_its_public_name(tmp_path: Path) -> None:
    depth = deepest(write(tmp_path, WEAK, WEAK_USER), ["user"], Rules())
    assert depth == Depth(104, ("user", "f.c:hook"), (96, 8))


def test_a_rule_covers_the_clones_of_its_function(tmp_path: Path) -> None:
    rules = Rules(indirect={"step": ["isr"]}, extern={"isr": 100})
    depth = deepest(write(tmp_path, CLONE), ["run"], rules)
    assert depth == Depth(124, ("run", "h.c:step.constprop.0", "isr"), (16, 8, 100))


def test_two_builds_in_one_directory_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError, match=r"encode is defined in .*/0\.ci and in .*/1\.ci"):
        deepest(write(tmp_path, ENCODE, ENCODE), ["encode"], Rules())


def test_an_absent_root_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError, match="no function absent in these files"):
        deepest(write(tmp_path, ENCODE), ["absent"], Rules())


def test_files_without_frame_sizes_name_the_option(tmp_path: Path) -> None:
    with pytest.raises(StackDepthError, match="gcc -fcallgraph-info=su"):
        deepest([], ["poll"], Rules())


@pytest.mark.parametrize(
    "text",
    [
        "[externs]\nmemcpy = 0",
        "extern = 3",
        "[extern]\nmemcpy = -1",
        "[extern]\nmemcpy = true",
        "[recursion]\nvalue = 0",
        '[indirect]\ndispatch = "fir"',
        "[indirect",
    ],
)
def test_a_rule_without_sense_is_an_error(tmp_path: Path, text: str) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    with pytest.raises(StackDepthError, match=r"rules\.toml"):
        Rules.load(rules)


def test_the_command_prints_the_path_and_its_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, POINTER)
    rules = tmp_path / "rules.toml"
    rules.write_text('[indirect]\ndispatch = ["add", "fir"]\n')
    assert main(["--rules", str(rules), "--root", "dispatch", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "     24 dispatch\n"
        "     48 c.c:fir\n"
        "     72 bytes in all\n"
    )  # fmt: skip


def test_the_command_fails_on_a_gap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, POINTER)
    assert main(["--root", "dispatch", str(tmp_path)]) == 1
    assert "dispatch: calls through a pointer" in capsys.readouterr().err


SOURCE = """
int apply(int (*function)(int), int x);

int small(int x) { return x + 1; }

static int big(int x)
{
    volatile char room[1000];
    room[x] = (char)small(x);
    return room[0] + 1;
}

int apply(int (*function)(int), int x) { return function(x) + 1; }

int work(int x) { return apply(small, x) + apply(big, x); }
"""


def test_a_graph_written_by_the_hosts_gcc_is_understood(tmp_path: Path) -> None:
    gcc = requires_compiler("gcc")
    (tmp_path / "a.c").write_text(SOURCE)
    flags = ["-O0", "-fno-stack-protector", "-fcallgraph-info=su", "-c"]
    subprocess.run([gcc, *flags, "a.c", "-o", "a.o"], cwd=tmp_path, timeout=60, check=True)
    rules = Rules(indirect={"apply": ["big", "small"]})
    depth = deepest([tmp_path / "a.ci"], ["work"], rules)
    assert depth.path == ("work", "apply", "a.c:big", "small")
    assert 1000 <= depth.frames[2] < 1100  # the array, and what the machine saves
    assert depth.bytes == sum(depth.frames)


def test_what_assembly_pushes_beyond_gccs_frame_is_stated_by_extern(tmp_path: Path) -> None:
    files = write(tmp_path, POINTER)
    more = Rules(indirect={"dispatch": ["fir"]}, extern={"fir": 100})
    assert deepest(files, ["dispatch"], more).bytes == 24 + 100
    less = Rules(indirect={"dispatch": ["fir"]}, extern={"fir": 10})
    assert deepest(files, ["dispatch"], less).bytes == 24 + 48


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    write(tmp_path, ENCODE)
    script = Path(__file__).parents[2] / "scripts" / "stack_depth.py"
    done = subprocess.run(
        [sys.executable, str(script), "--root", "encode", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "     64 encode\n     64 bytes in all\n"

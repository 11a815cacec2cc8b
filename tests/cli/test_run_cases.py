# SPDX-License-Identifier: Apache-2.0
"""Several functions, and several values of an argument, in one run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import boardprof
from tests.support import requires_tool

SOURCE = """
int plain(int n) { return n; }
int slower(int n) { __asm__ volatile("nop\\n nop\\n nop\\n nop"); return n; }
int first_and_last(const int *x, int n) { return x[0] + x[n - 1]; }
void loop(int n) { do { __asm__ volatile("nop"); } while (--n > 0); }
"""


@pytest.fixture
def source(tmp_path: Path) -> str:
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    file = tmp_path / "cases.c"
    file.write_text(SOURCE)
    return f"{file}"


def measured(target: str, *arguments: str) -> list[tuple[object, object, object]]:
    """Return name, arguments and instructions of the first sample of each measurement."""
    done = boardprof("run", "-q", "-b", "qemu-rv32", target, *arguments, "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)["boardprof"]["measurements"]
    rows = json.loads(done.out)["calls"]
    first = {
        (row["Name"]["string"], row["Argument Shapes"]["string"]): row["instructions"]["count"]
        for row in reversed(rows)
    }
    return [
        (each["name"], each["arguments"], first[each["name"], each["arguments"]]) for each in found
    ]


def answer(target: str, *arguments: str) -> list[list[str]]:
    """Return the words of each line that a user sees first."""
    environment = {"BOARDPROF_TABLE": "", "BOARDPROF_HISTORY": "off"}
    done = boardprof("run", "-b", "qemu-rv32", target, *arguments, environment=environment)
    return [line.split() for line in done.out.splitlines()]


def test_functions_of_a_list_are_measured_in_its_order(source: str) -> None:
    """A return is one instruction, a nop another."""
    assert measured(f"{source}:slower,plain", "n=3") == [("slower", "n=3", 5), ("plain", "n=3", 1)]


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ("1..3", ["n=1", "n=2", "n=3"]),
        ("0..10:5", ["n=0", "n=5", "n=10"]),
        ("4..16*2,5", ["n=4", "n=8", "n=16", "n=5"]),
    ],
)
def test_a_range_of_values_is_each_of_its_numbers(
    source: str, values: str, chosen: list[str]
) -> None:
    assert [each[1] for each in measured(f"{source}:plain", "-L", "n", values)] == chosen


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-L", "n=1,2"], "-L n=1,2 "),
        (["-L", "n", "9..1"], "9..1 has no numbers."),
        (["-L", "n", "1..9*1"], "1..9*1 has no numbers."),
        (["-L", "n", "1..5000"], "1..5000 has more than 1000 numbers."),
        (["-L", "n", "1,x"], "n='x' of plain is not an integer"),
    ],
)
def test_a_mistake_in_a_list_is_told_before_anything_is_measured(
    source: str, words: list[str], message: str
) -> None:
    done = boardprof("run", "-b", "qemu-rv32", *words, f"{source}:plain")
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_the_stored_run_and_markdown_tell_the_best_function_too(
    source: str, tmp_path: Path
) -> None:
    environment = {"BOARDPROF_TABLE": "", "BOARDPROF_HISTORY": f"{tmp_path / 'history.sqlite'}"}
    words = ("run", "-q", "-b", "qemu-rv32", f"{source}:slower,plain", "n=3")
    done = boardprof(*words, "--export", "markdown=-", environment=environment)
    assert (
        "| `slower` | 5 | exact | 0 | 1.00 |\n| `plain` | 1 | exact | 0 | **0.20 best** |"
        in done.out
    )
    shown = boardprof("show", "last", environment=environment).out.splitlines()
    assert [line.split() for line in shown[1:3]] == [
        ["slower", "5", "exact", "0", "1.00"],
        ["plain", "1", "exact", "0", "0.20", "best"],
    ]


def test_medians_are_a_line_of_csv_for_each_function_and_metric(source: str) -> None:
    words = ("-b", "qemu-rv32", f"{source}:slower", "n=3", "--number", "4")
    done = boardprof("run", "-q", *words, "--export", "medians=-")
    header, *lines = done.out.splitlines()
    named = "name,label,arguments,flags,device,metric,samples,median,min,max,mean,stddev,p25,p75"
    assert header == f"{named},argument_n"
    assert '"slower","","n=3","","qemu-rv32","instructions",10,5,5,5,5,0.0,5,5,3' in lines


def test_the_best_function_of_a_list_is_told(source: str) -> None:
    header, slower, plain, *_ = answer(f"{source}:slower,plain", "n=3")
    assert header == ["Name", "instructions", "Spread", "Stack", "Relative"]
    assert slower == ["slower", "5", "exact", "0", "1.00"]
    assert plain == ["plain", "1", "exact", "0", "0.20", "best"]
    header, *_ = answer(f"{source}:all", "n=3")
    assert "Relative" not in header


def test_each_value_of_a_list_has_a_row(source: str) -> None:
    """Each pass of the loop is three instructions, the return one."""
    assert measured(f"{source}:loop", "-L", "n", "1,10,1000") == [
        ("loop", "n=1", 4),
        ("loop", "n=10", 31),
        ("loop", "n=1000", 3001),
    ]


def test_a_value_also_stands_in_other_arguments(source: str) -> None:
    found = measured(f"{source}:first_and_last", "-L", "n", "2,64", "x=[{n}]:ones")
    assert [each[1] for each in found] == ["x=int32[2], n=2", "x=int32[64], n=64"]


def test_two_lists_are_combined(source: str) -> None:
    found = measured(f"{source}:first_and_last", "-L", "n", "2,3", "-L", "x", "[8]:ones,[9]:ones")
    assert [each[1] for each in found] == [
        "x=int32[8], n=2",
        "x=int32[9], n=2",
        "x=int32[8], n=3",
        "x=int32[9], n=3",
    ]


@pytest.mark.parametrize(
    "words", [("-D", "PASSES={p}"), ("--cflags", "-DPASSES={p}"), ("-D", "PASSES=2", "-O", "{p}")]
)
def test_a_value_in_flags_is_a_build_of_its_own(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "passes.c").write_text(
        "int passes(void) { volatile int s = 0; for (int i = 0; i < PASSES; i++) s++; return s; }"
    )
    target = f"{tmp_path}/passes.c:passes"
    done = boardprof(
        "run", "-q", "-b", "qemu-rv32", target, "-L", "p", "0,3", *words, "--json", "-"
    )
    assert done.code == 0, done.err
    counts = [row["instructions"]["count"] for row in json.loads(done.out)["calls"]]
    assert counts == [*[counts[0]] * 10, *[counts[-1]] * 10]
    assert counts[0] != counts[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-L", "n", "1,,2"), "A value of n is empty: '1,,2'."),
        (("-L", "n", "1,2,1"), "A value of n is given twice: '1,2,1'."),
        (("-L", "n", "16.."), "16.. is not a range."),
        (("-L", "n", "16..64x2"), "16..64x2 is not a range."),
        (("-L", "n=16,256"), "Option '-L' requires 2 arguments. For example: -L n 16,256"),
        (("-L", "n", "1", "-L", "n", "2"), "n is given twice."),
        (("-L", "m", "1,2"), "There is no parameter 'm'"),
        (("-L", "n", "1,x"), "n='x' of loop is not an integer"),
    ],
)
def test_a_wrong_list_is_refused_once(
    source: str, arguments: tuple[str, ...], message: str
) -> None:
    done = boardprof("run", "-b", "qemu-rv32", f"{source}:loop", *arguments)
    assert done.code == 2
    assert done.err.count(message) == 1, done.err


def test_two_levels_of_optimisation_are_not_one_setting(source: str) -> None:
    done = boardprof("run", "-b", "qemu-rv32", f"{source}:plain", "n=1", "--sweep", "-O1", "-O3")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith('Try: settings are separated by |: --sweep "-O1|-O3"\n')


def test_a_colon_too_many_does_no_harm(source: str) -> None:
    assert measured(f"{source}::plain", "n=1") == [("plain", "n=1", 1)]


@pytest.mark.parametrize("names", ["loop,", ",loop", "loop,,plain", "loop,loop"])
def test_a_wrong_list_of_functions_is_refused(source: str, names: str) -> None:
    done = boardprof("run", "-b", "qemu-rv32", f"{source}:{names}", "n=1")
    assert done.code == 2
    assert "has an empty name" in done.err or "loop is given twice" in done.err


def test_one_unknown_function_does_not_keep_the_others_from_being_measured(source: str) -> None:
    done = boardprof("run", "-b", "qemu-rv32", f"{source}:plain,plaim", "-L", "n", "1,2")
    assert done.code == 2
    assert done.out.count("n=1") == done.out.count("n=2") > 0
    assert done.err.count("There is no function 'plaim'") == 1


def test_outputs_of_cases_are_in_folders_of_their_own(source: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    measured(f"{source}:plain,slower", "-L", "n", "1,2", "--save-output", f"{folder}")
    found = sorted(str(each.relative_to(folder)) for each in folder.rglob("*.npy"))
    assert found == [
        f"{name}_n={n}/return.npy".replace("_n", ",_n")
        for name in ("plain", "slower")
        for n in (1, 2)
    ]


LEAK = """
#include <stdlib.h>
int leak(int n) { char *p = malloc(n); if (p) p[0] = 1; return p != 0; }
int use(int n) { char *p = malloc(n); if (!p) return -1; p[0] = 2; free(p); return 0; }
"""


@pytest.mark.parametrize(
    ("board", "counter"), [("qemu-rv32", "instructions"), ("arduino-uno", "cycles")]
)
def test_a_leak_does_not_take_the_memory_of_the_next_function(
    board: str, counter: str, tmp_path: Path
) -> None:
    """The AVR's C library does not tell that it has no memory left."""
    requires_tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")
    requires_tool("qemu-system-riscv32", "qemu-system-misc")
    requires_tool("avr-gcc", "gcc-avr")
    file = tmp_path / "leak.c"
    file.write_text(LEAK)
    found = []
    for names in ("all", "use"):
        done = boardprof("run", "-b", board, f"{file}:{names}", "n=100", "--json", "-")
        assert done.code == 0, done.err
        assert ("is started again after leak" in done.err) == (names != "use")
        found.append(json.loads(done.out)["boardprof"]["measurements"][-1])
    (after, alone) = found
    assert after["name"] == alone["name"] == "use"
    counts = [[each["raw"][counter] for each in one["samples"]] for one in (after, alone)]
    assert counts[0] == counts[1] != []
    assert not any(each.get("spoils") for each in after.get("findings", ()))
    assert after["result"] == 0


def test_outputs_of_a_call_that_found_no_memory_left_are_told(tmp_path: Path) -> None:
    """Its 22 calls need more than 64 KiB, and the last one is that whose outputs are shown."""
    file = tmp_path / "leak.c"
    file.write_text(LEAK)
    done = boardprof("run", "-b", "qemu-rv32", f"{file}:leak", "n=3000", "--json", "-")
    [one] = json.loads(done.out)["boardprof"]["measurements"]
    assert one["result"] == 0
    text = one["findings"][-1]["text"]
    assert text.startswith("leak returned or wrote something else in its last call")
    assert text.endswith("it may have had no memory left")


MEMO = """
static int table[3000], known;
int sum(int n) { for (; known < n; known++) table[known] = known; return known; }
"""


def test_each_value_finds_the_board_as_if_it_were_the_only_one(tmp_path: Path) -> None:
    file = tmp_path / "memo.c"
    file.write_text(MEMO)
    options = ("--warmup", "0", "--repeat", "1")
    both = measured(f"{file}:sum", "-L", "n", "1000,2000", *options)
    alone = measured(f"{file}:sum", "n=2000", *options)
    assert both[1] == alone[0]


def test_a_number_stands_in_other_arguments_without_a_list(tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(
        "int sum(const int *x, int n) { int s = 0; while (n) s += x[--n]; return s; }\n"
    )
    rows = measured(f"{tmp_path / 'sum.c'}:sum", "n=3", "x=[{n}]:ones")
    assert [row[1] for row in rows] == ["x=int32[3], n=3"]


def test_functions_of_several_files_are_compared_under_the_names_of_their_files(
    tmp_path: Path,
) -> None:
    (tmp_path / "old.c").write_text("int f(int n) { volatile int s = n; return s + s; }\n")
    (tmp_path / "new.c").write_text(
        "int f(int n) { return 2 * n; }\nint g(int n) { volatile int s = n; return s; }\n"
    )
    old, new = f"{tmp_path / 'old.c'}:f", f"{tmp_path / 'new.c'}:f"
    rows = answer(old, f"{new},g", "n=3")
    assert [row[:2] for row in rows[1:4]] == [["f", "[old.c]"], ["f", "[new.c]"], ["g", "[new.c]"]]
    assert "best" not in rows[1]
    assert "best" in rows[2]


def test_files_of_one_name_have_their_paths(tmp_path: Path) -> None:
    paths = [tmp_path / name / "f.c" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_text("int f(int n) { return 2 * n; }\n")
    rows = answer(*(f"{path}:f" for path in paths), "n=3")
    assert [row[1] for row in rows[1:3]] == [f"[{path}]" for path in paths]
    assert " ".join(rows[3]).endswith("take the same number of instructions.")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("a.c:f,b.c:f",),
            "a.c:f,b.c:f' names several files.\nTry: a word for each file: a.c:f b.c:g",
        ),
        (("a.c:f", "b.c:all"), "of several files are compared by name.\nTry: a.c:f b.c:g"),
        (("a.c:f", "a.c:f"), "a.c:f is given twice."),
    ],
)
def test_a_mistake_in_a_list_of_files_is_told(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    words = tuple(f"{tmp_path}/{word}" for word in words)
    done = boardprof("run", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize(
    ("words", "measured"),
    [
        (("plain,slower", "n=3"), ["plain", "slower"]),
        (("plain", "n=3", "--sweep", "-O1|-O2"), ["plain", "plain"]),
        (("loop", "-L", "n", "1,2"), ["loop", "loop"]),
    ],
)
def test_on_a_systems_clock_what_is_listed_has_ten_alternating_sessions(
    tmp_path: Path, words: tuple[str, ...], measured: list[str]
) -> None:
    (tmp_path / "cases.c").write_text(SOURCE)
    target = f"{tmp_path / 'cases.c'}:{words[0]}"
    done = boardprof("run", "-q", "-b", "native", target, *words[1:], "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    names = [each["name"] for each in found["boardprof"]["measurements"]]
    assert sorted(names) == sorted(measured * 10)
    assert all(len(each["samples"]) == 1 for each in found["boardprof"]["measurements"])
    assert len({each["number"] for each in found["boardprof"]["measurements"]}) <= 2
    configuration = found["configuration"]
    assert (configuration["Repeat"], configuration["Sessions"]) == ({"count": 10}, {"count": 10})
    assert len(found["calls"]) == 20


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("plain,slower", "n=3", "--cold"), id="cold"),
        pytest.param(("plain,slower", "n=3", "--repeat", "1"), id="one-sample"),
    ],
)
def test_what_has_no_spread_of_its_own_has_one_session(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "cases.c").write_text(SOURCE)
    target = f"{tmp_path / 'cases.c'}:{words[0]}"
    done = boardprof("run", "-q", "-b", "native", target, *words[1:], "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert len(found["boardprof"]["measurements"]) == 2
    assert "Sessions" not in found["configuration"]


@pytest.mark.parametrize(
    ("words", "sessions"), [((), 10), (("--repeat", "4"), 4), (("--repeat", "1"), 1)]
)
def test_on_a_systems_clock_a_function_alone_has_a_session_for_each_sample(
    tmp_path: Path, words: tuple[str, ...], sessions: int
) -> None:
    (tmp_path / "cases.c").write_text(SOURCE)
    target = f"{tmp_path / 'cases.c'}:plain"
    done = boardprof("run", "-q", "-b", "native", target, "n=3", *words, "--json", "-")
    assert done.code == 0, done.err
    found = json.loads(done.out)["boardprof"]["measurements"]
    assert [len(each["samples"]) for each in found] == [1] * sessions
    assert len({each["number"] for each in found}) == 1


def test_slow_functions_alternate_after_one_warm_up_call_each(tmp_path: Path) -> None:
    (tmp_path / "slow.c").write_text(
        "#include <time.h>\n"
        "static int waits(long ns) { struct timespec t = {0, ns}; return nanosleep(&t, 0); }\n"
        "int a(void) { return waits(20000000); }\n"
        "int b(void) { return waits(30000000); }\n"
    )
    target = f"{tmp_path / 'slow.c'}:a,b"
    done = boardprof("run", "-q", "-b", "native", target, "--json", "-")
    assert done.code == 0, done.err
    configuration = json.loads(done.out)["configuration"]
    facts = [configuration[name] for name in ("Warm-up", "Sessions", "Repeat")]
    assert facts == [{"count": 1}, {"count": 10}, {"count": 10}]


def test_what_failed_is_kept_beside_the_sessions_of_another_function(tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text(
        "int calls;\n"
        "int works(void) { return 1; }\n"
        "int hangs(void) { while (calls == 21) {} return ++calls; }\n"
    )
    target = f"{tmp_path / 'two.c'}:works,hangs"
    done = boardprof("run", "-q", "-b", "native", target, "--timeout", "300ms", "--json", "-")
    assert done.code == 6, done.err
    assert {row["Name"]["string"] for row in json.loads(done.out)["calls"]} == {"works", "hangs"}


def test_rows_that_are_compared_stand_together(source: str) -> None:
    words = ("-L", "n", "1,10", "--sweep", "-O1|-O2")
    rows = answer(f"{source}:loop", *words)[1:5]
    assert [row[1:3] for row in rows] == [
        ["n=1", "-O1"],
        ["n=1", "-O2"],
        ["n=10", "-O1"],
        ["n=10", "-O2"],
    ]


def test_a_function_as_a_word_of_its_own_is_told_with_the_target_that_was_meant(
    source: str,
) -> None:
    done = boardprof("run", source, "plain", "n=3")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(f"cases.c' names no function.\nTry: {source}:plain\n")


def test_an_exact_tie_is_told(source: str) -> None:
    *_, told, _ = answer(f"{source}:plain", "n=3", "--sweep", "-O1|-O2")
    assert " ".join(told) == "plain: -O1 and -O2 take the same number of instructions."

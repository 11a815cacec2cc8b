# SPDX-License-Identifier: Apache-2.0
"""Where an option's value comes from: flag, environment, the project's file, the user's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from boardprof.base.settings import find_settings
from tests.cli.command import FIXTURES, Outcome, boardprof

SCALARS = FIXTURES / "scalars.c"
MEASURE = ("run", f"{SCALARS}:count_calls", "--json", "-")


def in_folder(folder: Path, *arguments: str, **environment: str) -> Outcome:
    """Run the command in a folder, as somebody who works there does."""
    home = {"XDG_CONFIG_HOME": str(folder / "home")}
    return boardprof(*arguments, environment={**home, **environment}, folder=folder)


def repeats(outcome: Outcome) -> int:
    assert outcome.code == 0, outcome.err
    return int(json.loads(outcome.out)["configuration"]["Repeat"]["count"])


def user_settings(folder: Path, text: str) -> None:
    (folder / "home" / "boardprof").mkdir(parents=True)
    (folder / "home" / "boardprof" / "config.toml").write_text(text)


def test_a_flag_stands_before_the_environment_before_the_project_before_the_user(
    tmp_path: Path,
) -> None:
    assert repeats(in_folder(tmp_path, *MEASURE)) == 10
    user_settings(tmp_path, "repeat = 2\n")
    assert repeats(in_folder(tmp_path, *MEASURE)) == 2
    (tmp_path / "boardprof.toml").write_text("repeat = 3\n")
    assert repeats(in_folder(tmp_path, *MEASURE)) == 3
    assert repeats(in_folder(tmp_path, *MEASURE, BOARDPROF_REPEAT="4")) == 4
    assert repeats(in_folder(tmp_path, *MEASURE, "--repeat", "5", BOARDPROF_REPEAT="4")) == 5


def test_the_projects_file_is_found_from_a_folder_below(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.boardprof]\nrepeat = 6\n")
    below = tmp_path / "src" / "kernels"
    below.mkdir(parents=True)
    (below / "pyproject.toml").write_text("[tool.black]\nline-length = 90\n")  # not about us
    assert repeats(in_folder(below, *MEASURE)) == 6


def test_a_profile_stands_before_what_is_outside_of_it(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text(
        'repeat = 3\nwarmup = 0\n[profile.long]\nrepeat = 30\nmetrics = ["page-faults"]\n'
    )
    user_settings(tmp_path, "[profile.long]\nrepeat = 50\nnumber = 2\n")
    done = in_folder(tmp_path, "--profile", "long", *MEASURE)
    assert repeats(done) == 30
    configuration = json.loads(done.out)["configuration"]
    found = configuration["Warm-up"], configuration["Number"]
    assert found == ({"string": "0 to 9"}, {"count": 2})
    assert "page-faults" in json.loads(done.out)["calls"][0]
    assert repeats(in_folder(tmp_path, *MEASURE, BOARDPROF_PROFILE="long")) == 30


def test_config_names_the_only_file_that_is_read(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text("repeat = 3\n")
    (tmp_path / "ci.toml").write_text("warmup = 1\n")
    assert repeats(in_folder(tmp_path, "--config", "ci.toml", *MEASURE)) == 10


# -- whose a file is --------------------------------------------------------------------------

STRANGER = 12345


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """The settings of somebody else, in a folder above the one that the user works in."""
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    file = tmp_path / "boardprof.toml"
    file.write_text("repeat = 3\n")
    os.chown(file, STRANGER, STRANGER)
    (tmp_path / "mine").mkdir()
    return file


def from_below(strangers: Path, *arguments: str, **environment: str) -> Outcome:
    home = {"XDG_CONFIG_HOME": str(strangers.parent / "home"), "SUDO_UID": ""}
    environment = {**home, **environment}
    return boardprof(*arguments, environment=environment, folder=strangers.parent / "mine")


def test_a_strangers_file_is_ignored_and_told(strangers: Path) -> None:
    done = from_below(strangers, *MEASURE)
    assert repeats(done) == 10
    folder = strangers.parent
    assert done.err.startswith(
        f"warning: {strangers} is ignored: it belongs to user {STRANGER}, and settings can run "
        f'commands.\nTry: trusted = ["{folder}"] in {folder}/home/boardprof/config.toml, if you '
        "trust it\n"
    )
    with pytest.warns(UserWarning, match="boardprof.toml is ignored: it belongs to user 12345"):
        assert find_settings(folder / "mine") == []


def test_a_strangers_pyproject_is_ignored_and_the_users_own_further_up_is_read(
    strangers: Path,
) -> None:
    below = strangers.parent / "mine"
    (below / "pyproject.toml").write_text("[tool.boardprof]\nrepeat = 7\n")
    os.chown(below / "pyproject.toml", STRANGER, STRANGER)
    os.chown(strangers, 0, 0)
    done = from_below(strangers, *MEASURE)
    assert repeats(done) == 3
    assert f"warning: {below}/pyproject.toml is ignored" in done.err


def test_a_link_of_a_strangers_is_ignored(strangers: Path) -> None:
    target = strangers.rename(strangers.parent / "target.toml")
    os.chown(target, 0, 0)
    strangers.symlink_to(target)
    assert repeats(from_below(strangers, *MEASURE)) == 3
    os.chown(strangers, STRANGER, STRANGER, follow_symlinks=False)
    assert repeats(from_below(strangers, *MEASURE)) == 10


def test_a_strangers_file_that_is_named_or_trusted_is_read(strangers: Path) -> None:
    assert repeats(from_below(strangers, "--config", str(strangers), *MEASURE)) == 3
    for trusted in (str(strangers.parent), "*"):
        file = strangers.parent / "home" / "boardprof" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'trusted = ["{trusted}"]\n')
        done = from_below(strangers, *MEASURE)
        assert (repeats(done), done.err) == (3, "")
    file.write_text('trusted = ["/srv/lab"]\n')
    assert repeats(from_below(strangers, *MEASURE)) == 10
    file.write_text("trusted = true\n")
    done = from_below(strangers, *MEASURE)
    assert (done.code, done.out) == (2, "")
    assert "trusted is not a list of folders" in done.err


def test_a_strangers_file_in_the_users_own_repository_is_read(strangers: Path) -> None:
    (strangers.parent / ".git").mkdir()
    assert repeats(from_below(strangers, *MEASURE)) == 3
    os.chown(strangers.parent / ".git", STRANGER, STRANGER)
    assert repeats(from_below(strangers, *MEASURE)) == 10


def test_root_takes_the_settings_of_who_became_root(strangers: Path) -> None:
    assert repeats(from_below(strangers, *MEASURE, SUDO_UID=str(STRANGER))) == 3


def test_a_project_trusts_nobody(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text('trusted = ["*"]\n')
    done = in_folder(tmp_path, "boards")
    assert (done.code, done.out) == (2, "")
    assert "boardprof.toml:1: trusted is not a setting." in done.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("repet = 3\n", "boardprof.toml:1: repet is not a setting. Did you mean 'repeat'?"),
        (
            'warmup = 1\nrepeat = "many"\n',
            "boardprof.toml:2: repeat: 'many' is not a valid integer",
        ),
        ("repeat = 7.5\n", "boardprof.toml:1: repeat: '7.5' is not a valid integer"),
        (
            'json = "x.json"\n',
            "boardprof.toml:1: json applies to a single command and cannot be a setting.\n"
            "Try: boardprof COMMAND --json",
        ),
        ('alpha = "x"\n', "boardprof.toml:1: alpha: 'x' is not a valid number."),
        ('repeat = "x"\n', "boardprof.toml:1: repeat: 'x' is not a valid integer.\n"),
        ("repeat = 0\n", "boardprof.toml:1: repeat: 0 is not in the range x>=1."),
        ("flash = 1\n", "boardprof.toml:1: flash must be true or false, not 1."),
        ("board = 3\n", "boardprof.toml:1: board must be a string in quotes, not 3."),
        (
            'repeat = 2\nmetrics = ["ticks", 4]\n',
            "boardprof.toml:2: metrics must be a string in quotes, not 4.",
        ),
        (
            "[profile.desk]\nwarmup = 1\nrepet = 3\n",
            "boardprof.toml:3: repet is not a setting. Did you mean 'repeat'?",
        ),
        ("[repeat]\nn = 1\n", "boardprof.toml:1: repeat cannot be a table."),
        ("repeat = true\n", "boardprof.toml:1: repeat cannot be true."),
        ("repeat = 2020-01-01\n", "boardprof.toml:1: repeat cannot be 2020-01-01."),
        ("profile = 1\n", "profile is not a table"),
        ("a = " + 9999 * "[", "boardprof.toml is not valid TOML: maximum recursion depth exceeded"),
        ("repeat = \n", "boardprof.toml:1: This is not valid TOML: Invalid value (at line 1, "),
    ],
)
def test_a_wrong_setting_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "boardprof.toml").write_text(text)
    done = in_folder(tmp_path, *MEASURE)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_rate_may_be_a_number_though_doctor_takes_several(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text("baud = 9600\n")
    assert in_folder(tmp_path, "boards").code == 0


def test_a_misspelt_variable_is_an_error_as_in_a_file_with_quiet_too(tmp_path: Path) -> None:
    done = in_folder(tmp_path, *MEASURE, "-q", BOARDPROF_REPAET="3")
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "error: BOARDPROF_REPAET in the environment is not a setting; did you mean "
        "BOARDPROF_REPEAT?\n",
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BOARDPROF_O", "BOARDPROF_OPTIMIZE"),
        ("BOARDPROF_D", "BOARDPROF_DEFINE"),
        ("BOARDPROF_I", "BOARDPROF_INCLUDE"),
        ("BOARDPROF_B", "BOARDPROF_BOARD"),
        ("BOARDPROF_P", "BOARDPROF_PORT"),
        ("BOARDPROF_o", "BOARDPROF_OUTPUT"),
    ],
)
def test_a_variable_with_the_short_form_of_an_option_is_told_the_long_one(
    tmp_path: Path, name: str, meant: str
) -> None:
    done = in_folder(tmp_path, "boards", **{name: "0"})
    assert (done.code, done.out, done.err) == (
        2,
        "",
        f"error: {name} in the environment is not a setting; did you mean {meant}?\n",
    )


def test_optimize_is_the_long_form_of_o_everywhere(tmp_path: Path) -> None:
    by_flag = in_folder(tmp_path, *MEASURE, "--optimize", "1")
    by_variable = in_folder(tmp_path, *MEASURE, BOARDPROF_OPTIMIZE="1")
    (tmp_path / "boardprof.toml").write_text('optimize = "1"\n')
    by_file = in_folder(tmp_path, *MEASURE)
    for done in (by_flag, by_variable, by_file):
        found = json.loads(done.out)["boardprof"]["measurements"]
        assert {each["flags"][-3:] for each in found} == {"-O1"}


@pytest.mark.parametrize(
    "name",
    ["BOARDPROF_COLLECTORS", "BOARDPROF_OUR_LAB", "BOARDPROF_KEY", "BOARDPROF_REPORT"],
)
def test_variables_of_builds_and_of_others_are_left_alone(tmp_path: Path, name: str) -> None:
    assert in_folder(tmp_path, "boards", **{name: "1"}).err == ""


def test_an_unknown_profile_is_told_with_those_there_are(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text("[profile.desk]\nrepeat = 3\n")
    done = in_folder(tmp_path, "--profile", "dsek", *MEASURE)
    assert done.code == 2
    assert "did you mean 'desk'?" in done.err


def test_a_missing_config_file_is_told(tmp_path: Path) -> None:
    done = in_folder(tmp_path, "--config", "none.toml", "boards")
    assert (done.code, done.err) == (
        2,
        "error: none.toml cannot be read: No such file or directory.\n",
    )


def test_version_and_help_do_not_mind_a_broken_file(tmp_path: Path) -> None:
    (tmp_path / "boardprof.toml").write_text("repeat = \n")
    assert in_folder(tmp_path, "--version").code == 0
    assert in_folder(tmp_path, "--help").code == 0


def test_quiet_leaves_results_and_errors(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    loud = in_folder(tmp_path, "run", f"{SCALARS}:count_calls", "--json", str(file))
    assert loud.err == f"Report written to {file}\n"
    quiet = in_folder(tmp_path, "run", "-q", f"{SCALARS}:count_calls", "--json", str(file))
    assert (quiet.code, quiet.err) == (0, "")
    assert "count_calls" in quiet.out
    wrong = in_folder(tmp_path, "run", "-q", f"{SCALARS}:nowhere")
    assert wrong.code == 2
    assert "nowhere" in wrong.err


@pytest.mark.parametrize("name", ["no-inline", "keep"])
def test_no_inline_has_its_old_name_as_a_flag_in_a_file_and_in_the_environment(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "code.c").write_text("static int twice(int x) { return 2 * x; }\n")
    listed = ("functions", "code.c")
    assert "twice(x" not in in_folder(tmp_path, *listed).out
    variable = f"BOARDPROF_{name.upper().replace('-', '_')}"
    for done in (
        in_folder(tmp_path, *listed, f"--{name}", "twice"),
        in_folder(tmp_path, *listed, **{variable: "twice"}),
    ):
        assert "twice(x: i32)" in done.out, done.err
    (tmp_path / "boardprof.toml").write_text(f'{name} = "twice"\n')
    assert "twice(x: i32)" in in_folder(tmp_path, *listed).out
    wrong = in_folder(tmp_path, *listed, **{variable: "no name"})
    assert (wrong.code, "Traceback" in wrong.err) == (2, False)

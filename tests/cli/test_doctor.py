# SPDX-License-Identifier: Apache-2.0
"""`boardprof doctor` names what is missing; `boardprof doctor --link` tests a cable."""

from __future__ import annotations

import hashlib
import json
import platform
import socket
from pathlib import Path

import pytest

from boardprof.base.errors import BoardTimeoutError, LinkError, UsageError
from boardprof.measure.doctor.check_board import _without_private, check_proof
from boardprof.measure.doctor.link_test import (
    CountingTransport,
    LineCounts,
    LinkReport,
    Throughput,
    best_baud,
    exit_code,
    link_text,
    links_facts,
    links_text,
)
from boardprof_protocol.codes import FrameKind
from boardprof_protocol.frame import Frame, encode_frame
from tests.cli.command import FIXTURES, agent, boardprof
from tests.link.peers import peer, running_agent
from tests.support import ROOT

# -- this machine -----------------------------------------------------------------------------


def native_line(text: str) -> str:
    """Return what stands beside the default board's name."""
    (line,) = [line for line in text.splitlines() if line.startswith("  native ")]
    return line.removeprefix("  native ").strip()


def test_the_doctor_lists_the_boards_with_what_they_lack(tmp_path: Path) -> None:
    bare = {"PATH": str(tmp_path)}
    done = boardprof("doctor", environment=bare)
    assert done.code == 7
    assert native_line(done.out) == "missing gcc (Debian package gcc) (default)"
    assert "missing qemu-system-riscv32 (Debian package qemu-system-misc)" in done.out
    (advice,) = [line for line in done.out.splitlines() if line.startswith("For all boards: ")]
    assert advice.split()[3:5] == ["apt", "install"]
    assert "gcc" in advice.split()[5:]
    listed = json.loads(boardprof("doctor", "--json", environment=bare).out)
    assert listed["schema_version"] == 1
    (native,) = [board for board in listed["boards"] if board["name"] == "native"]
    assert native["missing"] == [{"tool": "gcc", "package": "gcc"}]


def test_the_doctor_is_content_where_the_default_board_has_its_tools() -> None:
    done = boardprof("doctor")
    assert (done.code, done.err) == (0, "")
    assert native_line(done.out) == "ok (default)"
    assert "\nSerial ports: " in done.out


@pytest.mark.parametrize("option", [["--baud", "9600"], ["--faults", "0.1"]])
def test_what_tests_a_line_without_link_is_a_mistake(option: list[str]) -> None:
    done = boardprof("doctor", *option)
    assert (done.code, done.out) == (2, "")
    assert "Try: --link" in done.err


def test_a_key_without_a_port_is_a_mistake() -> None:
    done = boardprof("doctor", "--key-file", "key")
    assert (done.code, done.out) == (2, "")
    assert "Try: add -p socket://HOST:PORT" in done.err


def test_a_board_is_proved_and_each_finding_is_a_line() -> None:
    done = boardprof("doctor", "-b", "qemu-rv32")
    assert (done.code, done.err) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert ["cycles", "unsupported"] in [line[:2] for line in lines]
    assert ["instructions", "ok"] in [line[:2] for line in lines]
    assert ["stack", "ok"] in [line[:2] for line in lines]
    assert ["arena", "ok", "262,144 bytes"] in lines


def test_a_served_agent_without_known_work_is_to_be_served_with_it() -> None:
    with running_agent(FIXTURES / "scalars.c") as (_, port):
        done = boardprof("doctor", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (2, "")
    assert "\nTry: boardprof agent serve -b linux " in done.err


def test_a_proof_as_json_has_the_verdicts_and_what_board_toml_would_say() -> None:
    done = boardprof("doctor", "-b", "qemu-rv32", "--json")
    facts = json.loads(done.out)
    verdicts = {found["subject"]: found["verdict"] for found in facts["findings"]}
    assert verdicts["instructions"] == "ok"
    assert verdicts["clock"] == "not proven"
    assert facts["unsupported"] == {}


def test_a_report_proves_counters_guards_and_cable_and_names_nothing_private(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "proof"
    proof = ROOT / "device_runtime_c" / "proof"
    with agent("-b", "linux", proof, proof / "guards", "--pty") as port:
        done = boardprof("doctor", "-b", "linux", "-p", port, "--report", folder, timeout_s=120)
    assert done.code == 0, done.err
    text = (folder / "proof.json").read_text()
    facts = json.loads(text)
    assert (facts["board"], facts["kind"]) == ("linux", "real")
    guards = {f["subject"]: f["verdict"] for f in facts["findings"] if "guard" in f["subject"]}
    assert guards == {
        "guard: misaligned": "unsupported",
        **dict.fromkeys(
            (
                *("guard: bad-address", "guard: illegal-instruction", "guard: divide"),
                *("guard: stack-overflow", "guard: breakpoint", "guard: abort", "guard: time-out"),
            ),
            "ok",
        ),
    }
    assert facts["cable"]["error_rate"] == 0
    for private in (port, str(tmp_path), "/dev/", platform.node()):
        assert private not in text
    page = (folder / "index.html").read_text()
    assert "What ends a call" in page
    assert facts["sha256"] in page


def test_a_proof_has_no_port_with_a_user_or_an_address() -> None:
    text = "ssh://me@pi?run=x is lost; socket://1.2.3.4:5 /dev/ttyACM0; https://example.org"
    kept = "(left out) is lost; (left out) (left out) https://example.org"
    assert _without_private({"text": [text]}) == {"text": [kept]}
    hint = "Try: -p 'ssh://USER@HOST?run=taskset -c 3'"
    assert _without_private(hint) == hint


def test_a_changed_proof_is_found_by_its_hash() -> None:
    facts = {"boardprof_proof": 1, "board": "x"}
    # python -c "import hashlib; print(hashlib.sha256(b'{...}').hexdigest())" of the sorted JSON
    facts["sha256"] = hashlib.sha256(b'{"board":"x","boardprof_proof":1}').hexdigest()
    check_proof(facts, "x.json")
    with pytest.raises(UsageError, match=r"x\.json was changed after it was made"):
        check_proof({**facts, "board": "y"}, "x.json")
    with pytest.raises(UsageError, match=r"x\.json is not a proof of a board"):
        check_proof({}, "x.json")


def test_a_report_needs_a_board(tmp_path: Path) -> None:
    done = boardprof("doctor", "--report", tmp_path)
    assert (done.code, "Which board should be checked?" in done.err) == (2, True)


@pytest.mark.parametrize("rates", ["fast", "9600,", "0", "9600,x", "-1"])
def test_a_rate_that_is_none_is_a_mistake(rates: str) -> None:
    done = boardprof("doctor", "--link", "-b", "linux", "--baud", rates, "-p", "/dev/ttyNONE7")
    assert done.code == (3 if rates == "9600," else 2)


# -- a line -----------------------------------------------------------------------------------


def test_a_clean_link_is_0_with_its_figures() -> None:
    with running_agent(FIXTURES / "scalars.c") as (_, port):
        done = boardprof("doctor", "--link", "-b", "linux", "-p", port, "--seconds", "0.5")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == f"Link: linux at {port}"
    assert lines[2] == "  Damaged     0 to the board (0 NAKs), 0 to the host, 0 lost"
    assert lines[-1] == "The link is clean: nothing was damaged or lost."
    assert "B/s" in done.out


def test_a_link_that_loses_is_4_and_every_answer_is_right() -> None:
    with running_agent(FIXTURES / "scalars.c") as (_, port):
        arguments = ["--link", "-b", "linux", "-p", port, "--seconds", "0.5", "--json"]
        done = boardprof("doctor", *arguments, "--faults", "0.05", "--seed", "2")
    assert (done.code, done.err) == (4, "")
    facts = json.loads(done.out)
    assert facts["schema_version"] == 1
    (test,) = facts["tests"]
    assert test["clean"] is False
    assert test["injected_faults"] > 0
    assert 0.001 < test["error_rate"] < 0.1
    assert test["requests_sent_again"] > 0
    assert test["round_trip_min_s"] <= test["round_trip_median_s"] <= test["round_trip_p99_s"]
    assert test["to_board"]["bytes_per_s"] > 0


def test_each_rate_of_a_serial_line_is_tried() -> None:
    with agent("-b", "linux", FIXTURES / "scalars.c", "--pty") as port:
        arguments = ["--link", "-b", "linux", "-p", port, "--seconds", "0.5", "--json"]
        done = boardprof("doctor", *arguments, "--baud", "9600,115200")
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    # A pseudo-terminal has no rate: the board answers at both, no share of a wire can be told, and
    # the fastest is best, unless a busy machine has made it look lossy.
    assert [test["baud"] for test in facts["tests"]] == [9600, 115200]
    slow, fast = facts["tests"]
    assert facts["best_baud"] == (115200 if fast["error_rate"] <= slow["error_rate"] else 9600)
    assert [test["to_host"]["wire_percent"] for test in facts["tests"]] == [None, None]


def test_a_link_that_nobody_answers_is_5() -> None:
    def mute(connection: socket.socket) -> None:
        while connection.recv(4096):
            pass

    with peer(mute) as port:
        done = boardprof("doctor", "--link", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (5, "")
    assert f"error: The board at {port} did not answer HELLO for 3 s.\n" in done.err


def test_a_link_that_is_hung_up_is_4() -> None:
    with peer(lambda connection: connection.recv(1) and None) as port:
        done = boardprof("doctor", "--link", "-b", "linux", "-p", port)
    assert (done.code, done.out) == (4, "")
    assert f"error: The connection to {port} is lost: " in done.err


# -- what counts as a fault -------------------------------------------------------------------


class Script:
    """A line that brings what it is told to."""

    name, byte_time_s = "script", 0.0

    def __init__(self, *arrivals: bytes) -> None:
        self.arrivals = list(arrivals)

    def write(self, data: bytes, timeout_s: float) -> None:
        pass

    def read(self, timeout_s: float) -> bytes:
        return self.arrivals.pop(0)

    def printed(self) -> str:
        return ""

    def close(self) -> None:
        pass


CALL = encode_frame(Frame(FrameKind.CALL, 7, 1, b"\x91\x02"))
RESULT = encode_frame(Frame(FrameKind.RESULT, 7, 1, b"\xc0"))
NAK = encode_frame(Frame(FrameKind.NAK, 7, 0))
DAMAGED = RESULT[:5] + b"\x99" + RESULT[6:]


def data(offset: int, content: bytes) -> bytes:
    return encode_frame(Frame(FrameKind.DATA, 7, 1, offset.to_bytes(4, "little") + content))


def ack(flags: int) -> bytes:
    return encode_frame(Frame(FrameKind.ACK, 7, 1, bytes(8) + bytes([flags])))


@pytest.mark.parametrize(
    ("sent", "arrivals", "faults"),
    [
        (1, [RESULT], (0, 0, 0)),
        (2, [NAK, RESULT], (1, 0, 0)),
        (2, [DAMAGED, RESULT], (0, 1, 0)),
        (2, [b"", RESULT], (0, 0, 1)),
        (2, [RESULT, RESULT], (0, 0, 0)),  # slow, and both were answered
        (1, [b"\0sensor: 21.5 C\n", RESULT], (0, 0, 0)),
        (1, [RESULT, RESULT], (0, 0, 0)),
        (1, [RESULT[:7], RESULT[7:]], (0, 0, 0)),
        (1, [RESULT, data(0, b"abc") + data(3, b"de")], (0, 0, 0)),
        (1, [RESULT, data(0, b"abc") + data(5, b"f") + data(6, b"g")], (0, 1, 0)),
        # Sent again although it had come, and then on from where the host is: nothing is missing.
        (1, [RESULT, data(0, b"ab") + data(2, b"c") + data(0, b"ab") + data(3, b"d")], (0, 0, 0)),
        # Of what is sent again behind a hole, something is lost once more.
        (1, [RESULT, data(0, b"a") + data(5, b"f") + data(1, b"b") + data(3, b"d")], (0, 2, 0)),
        (1, [RESULT, ack(0), ack(1)], (1, 0, 0)),
    ],
)
def test_damage_and_loss_are_counted_where_they_show(
    sent: int, arrivals: list[bytes], faults: tuple[int, int, int]
) -> None:
    line = CountingTransport(Script(*arrivals))
    for _ in range(sent):
        line.write(CALL, 1.0)
    for _ in arrivals:
        line.read(1.0)
    counts = line.counts
    assert (counts.damaged_to_board, counts.damaged_to_host, counts.lost) == faults
    assert counts.faults == sum(faults)
    assert counts.again == sent - 1


def report(baud: int, **counts: int) -> LinkReport:
    return LinkReport(
        board="fir",
        port="/dev/ttyS0",
        baud=baud,
        counts=LineCounts(sent=60, received=40, **counts),
        round_trips_s=(0.001, 0.002, 0.004),
        to_board=Throughput(4096, 11_000.0, 95.5),
        to_host=None,
        no_data="it was told not to",
        injected=0,
    )


def test_the_fastest_clean_rate_is_best_and_any_clean_one_is_0() -> None:
    silent = BoardTimeoutError("It did not answer.")
    tests = {9600: report(9600), 115200: report(115200), 921600: report(921600, naks=2), 5: silent}
    assert best_baud(tests) == 115200
    assert exit_code(tests) == 0
    assert exit_code({9600: report(9600, unreadable=1), 5: silent}) == 4
    assert exit_code({5: silent}) == 5
    assert exit_code({5: silent, 6: LinkError("noise")}) == 5
    text = links_text(tests)
    assert text.endswith("\n\n5 baud: It did not answer.\n\nBest: 115,200 baud")
    facts = links_facts(tests)
    assert facts["tests"][3] == {"baud": 5, "error": "It did not answer."}
    assert facts["tests"][0]["to_host"] is None


def test_a_line_whose_answers_come_late_is_neither_clean_nor_the_best() -> None:
    """The host may be busy, so this is not a failure."""
    late = report(921600, again=9)
    assert not late.is_clean
    assert report(921600, again=6).is_clean
    assert best_baud({9600: report(9600), 921600: late}) == 9600
    assert exit_code({921600: late}) == 0
    assert link_text(late).endswith(
        "\n\nThe link is slow: 9 of 60 frames were sent again before an answer came. Every call "
        "still got the correct answer. Look for what holds bytes back, such as a bridge."
    )


def test_the_text_has_each_figure_with_its_unit() -> None:
    text = link_text(report(921600, naks=2, unanswered=2, again=2, console_bytes=12))
    assert text.splitlines() == [
        "Link: fir at /dev/ttyS0, 921,600 baud",
        "  Frames      60 to the board, 40 to the host",
        "  Damaged     2 to the board (2 NAKs), 0 to the host, 0 lost",
        "  Error rate  2 %  (2 of 100 frames)",
        "  Sent again  2 requests",
        "  Console     12 bytes of text between the frames",
        "  Round trip (min … median … p99):  1.00 ms … 2.00 ms … 4.00 ms    3 calls",
        "  To the board:  11.0 kB/s, 95.5 % of the wire    4,096 bytes at a time",
        "  To the host:   not measured: it was told not to",
        "",
        "The link loses frames. Every call still got the correct answer. Try a lower baud "
        "rate, a shorter cable or a better ground.",
    ]

# SPDX-License-Identifier: Apache-2.0
"""Windows that a pin marks, measured by ppk2lab's simulator of a PPK2. Its supply has 3.000 V."""

from __future__ import annotations

import os
import pty
from collections.abc import Mapping, Sequence

import pytest
import serial
from ppk2lab import PPK2, Mode
from ppk2lab.testing import ConstantProfile, StepProfile
from ppk2lab.transport.mock import SimulatedPPK2

from boardprof.base.errors import BoardError, MeterError, UsageError
from boardprof.measure import ppk2
from boardprof.measure.energy import energy_of, matched, open_meter
from boardprof.measure.meter import MarkedWindow
from boardprof.measure.ppk2 import Ppk2Meter
from boardprof.wire.decode.samples import Reading, Sample

QUIET = (20_000, 1000.0, 0)
"""Samples of 10 us, current in microamperes, digital inputs. The meter begins meanwhile."""

PAUSE = (500, 1000.0, 0)
HIGH = 1 << 2  # D2


def device(
    *steps: tuple[int, float, int],
    gaps: Mapping[int, int] | None = None,
    rate: float = 100_000,
    mode: Mode = Mode.SOURCE,
) -> PPK2:
    simulator = SimulatedPPK2(
        profile=StepProfile([QUIET, *steps], default=(1000.0, 0)),
        gaps=dict(gaps or {}),
        rate_limit_hz=rate,
        initial_mode=mode,
    )
    return PPK2.open(simulator=simulator)


def windows(opened: PPK2, count: int) -> Sequence[MarkedWindow]:
    with Ppk2Meter(opened, pin=2) as meter:
        meter.begin()
        return meter.windows(count)


def test_the_energy_is_that_of_the_samples_in_which_the_pin_is_high() -> None:
    flat, stairs = windows(
        device((1000, 10_000.0, HIGH), PAUSE, (500, 4000.0, HIGH), (500, 12_000.0, HIGH), PAUSE), 2
    )
    # 10 ms of 10 mA; 5 ms of 4 mA and 5 ms of 12 mA. The simulator's steps are 3 uA and less.
    assert flat.joules == pytest.approx(300e-6, rel=3e-4)
    assert stairs.joules == pytest.approx(240e-6, rel=3e-4)
    assert (flat.seconds, flat.doubt) == (pytest.approx(0.01), "")
    # Nordic's typical accuracy and resolution from 5 to 50 mA are 10 % and 50 uA: 30 uJ and 1.5 uJ.
    # One sample of 10 us at 10 mA has 0.3 uJ.
    assert flat.error_joules == pytest.approx(31.8e-6, rel=1e-3)


def test_a_window_that_the_meter_did_not_measure_well_is_in_doubt() -> None:
    found = windows(
        device(
            *((1000, 10_000.0, HIGH), PAUSE),  # from 20,000 on
            *((500, 10_000.0, HIGH), (1, 2_000_000.0, HIGH), (500, 10_000.0, HIGH), PAUSE),
            *((9, 10_000.0, HIGH), PAUSE),
            *((10, 10_000.0, HIGH), PAUSE),
            gaps={20_400: 7},
        ),
        4,
    )
    assert [each.doubt for each in found] == [
        "samples of the meter are missing",
        "the current was above the meter's range",
        "it is shorter than 100 us",
        "",
    ]


@pytest.mark.parametrize("at", [19_995, 20_995])
def test_lost_samples_at_an_edge_spoil_its_window(at: int) -> None:
    first, second = windows(
        device((1000, 10_000.0, HIGH), PAUSE, (1000, 10_000.0, HIGH), PAUSE, gaps={at: 10}), 2
    )
    assert first.doubt == "samples of the meter are missing"
    assert second.doubt == ""


def test_other_pins_mark_nothing() -> None:
    (only,) = windows(device((1000, 10_000.0, 0xFF), PAUSE, (1000, 5000.0, 0xFB), PAUSE), 1)
    assert only.joules == pytest.approx(300e-6, rel=3e-4)


def test_windows_from_before_are_forgotten() -> None:
    with Ppk2Meter(device((100, 10_000.0, HIGH), PAUSE), pin=2) as meter:
        meter.begin()
        assert len(meter.windows(1)) == 1
        meter.begin()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ppk2, "_WAIT_S", 0.5)
            assert meter.windows(1) == ()


def test_a_pin_that_stays_low_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppk2, "_WAIT_S", 0.5)
    samples = [Sample({"ticks": Reading(10_000, "ticks", 1_000_000)}, b"")]
    with Ppk2Meter(device(), pin=2) as meter:
        meter.begin()
        with pytest.raises(MeterError, match="saw no measured window: its marker pin stayed low"):
            matched(meter, samples, is_real_time=True)


def test_a_missing_edge_leaves_no_window_of_the_request_known() -> None:
    samples = [Sample({"ticks": Reading(10_000, "ticks", 1_000_000)}, b"")] * 3
    with Ppk2Meter(device((1000, 10_000.0, HIGH), PAUSE, (1000, 10_000.0, HIGH)), pin=2) as meter:
        meter.begin()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ppk2, "_WAIT_S", 0.5)
            found = matched(meter, samples, is_real_time=True)
        energy = energy_of(meter, found)
    assert energy.nanojoules == (None, None, None)
    [(why, count)] = energy.left_out.items()
    assert count == 3
    assert why.startswith("the meter saw 2 windows of 3")


def test_a_window_whose_length_is_another_by_the_boards_clock_is_in_doubt() -> None:
    samples = [Sample({"ticks": Reading(us, "ticks", 1_000_000)}, b"") for us in (10_900, 11_500)]
    steps = [(1000, 10_000.0, HIGH), PAUSE]
    with Ppk2Meter(device(*steps, *steps), pin=2) as meter:
        meter.begin()
        near, far = matched(meter, samples, is_real_time=True)
    assert near.doubt == ""
    assert far.doubt == "its length differs from that by the board's clock"


def test_a_pin_that_is_high_between_windows_is_an_error() -> None:
    simulator = SimulatedPPK2(profile=ConstantProfile(1000.0, HIGH), rate_limit_hz=100_000)
    with (
        Ppk2Meter(PPK2.open(simulator=simulator), pin=2) as meter,
        pytest.raises(MeterError, match="D2 of the PPK2 is high although"),
    ):
        meter.begin()


def test_an_unplugged_meter_is_an_error() -> None:
    opened = device((1000, 10_000.0, HIGH))
    with Ppk2Meter(opened, pin=2) as meter:
        meter.begin()
        opened.transport.simulator.unplug()  # type: ignore[attr-defined]
        with pytest.raises(MeterError, match="stream interrupted: simulated device was"):
            meter.windows(1)


def test_a_meter_that_sends_nothing_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppk2, "_WAIT_S", 0.3)
    with Ppk2Meter(device(rate=1e-6)) as meter, pytest.raises(MeterError, match="PPK2"):
        meter.begin()


def test_the_voltage_must_be_known_and_be_that_of_the_supply() -> None:
    with pytest.raises(MeterError, match="does not know the voltage"):
        Ppk2Meter(device(mode=Mode.AMPERE))
    assert Ppk2Meter(device(mode=Mode.AMPERE), supply_mv=1800).name.endswith(" at 1.800 V")
    with pytest.raises(MeterError, match="supplies 3000 mV, not 3300 mV"):
        Ppk2Meter(device(), supply_mv=3300)
    assert Ppk2Meter(device()).name == "simulated PPK2 at 3.000 V"
    for wrong in (0, 5001):
        with pytest.raises(UsageError, match=f"mv={wrong} is out of range"):
            Ppk2Meter(device(mode=Mode.AMPERE), supply_mv=wrong)


def test_a_port_in_use_is_an_error_that_names_it() -> None:
    master, slave = pty.openpty()
    try:
        path = os.ttyname(slave)
        with (
            serial.Serial(path, exclusive=True),
            pytest.raises(BoardError, match=f"The PPK2 at {path} cannot be used: .*busy"),
        ):
            open_meter(f"ppk2:{path}")
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("text", ["ppk2?volts=3", "ppk2?pin=x", "ppk2?pin=", "ppk", ""])
def test_a_wrong_name_or_setting_of_a_meter_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        open_meter(text)

# SPDX-License-Identifier: Apache-2.0
"""Fleets of several hosts: processes with homes of their own, behind dask's scheduler."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from boardprof.jobs.fleet import Fleet, Job, Limits, Result, Rules
from boardprof.jobs.fleet.work import built
from boardprof.measure.connect import Firmware
from boardprof.target.descriptions.board import board_spec
from tests.fleet.cluster import DEADLINE_S, Cluster, certified, cluster, until
from tests.fleet.network import network
from tests.fleet.stand_in import long_nap, nap, silent
from tests.support import children_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

OWNER = Path(__file__).with_name("owner.c")
HOSTS = {"ant": 3, "bee": 3, "cat": 2}


def names() -> dict[str, list[str]]:
    return {host: [f"{host}{n}" for n in range(count)] for host, count in HOSTS.items()}


# -- scheduling ---------------------------------------------------------------------------------


def waited_s(*processes: int) -> dict[str, float]:
    """Return for each thread how long it was ready to run and had no processor (proc(5))."""
    return {
        file.parent.name: int(file.read_text().split()[1]) / 1e9
        for process in processes
        for file in Path(f"/proc/{process}/task").glob("*/schedstat")
    }


def used_s(process: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def squares_s(count: int) -> float:
    """Return the CPU seconds in which this machine adds squares now: one may be twice another."""
    began_s = time.process_time()
    sum(number * number for number in range(count))
    return time.process_time() - began_s


@pytest.mark.parametrize("count", [240, pytest.param(1000, marks=pytest.mark.nightly)])
def test_short_jobs_reach_85_percent_of_the_ideal_time(tmp_path: Path, count: int) -> None:
    """Eight boards sleep for 0.1 s; what other programs take from the processors is subtracted.

    It is the longest time that one thread of the fleet was ready and had no processor. A job may
    take 10 ms of CPU time, or on a slow machine as long as 240,000 squares take beside the fleet.
    """
    with cluster(tmp_path) as made:
        workers = [
            made.worker(host, *(f"linux=127.0.0.1:9#{serial}" for serial in serials))
            for host, serials in names().items()
        ]
        made.await_workers(*HOSTS)
        everyone = [made.process("scheduler").pid, os.getpid(), *(worker.pid for worker in workers)]
        jobs = [Job("f.c", "linux", arguments=(f"n={n}",)) for n in range(count)]
        ended, squares = 0, []
        for result in Fleet(made.address, perform=nap).as_completed(jobs):
            assert (result.state, result.errors) == ("done", ())
            ended += 1
            if ended == 16:  # by then the boards' processes have started
                began_s, used = time.monotonic(), sum(map(used_s, everyone))
                waited = waited_s(*everyone)
            elif ended > 16 and ended % 8 == 0:
                squares.append(squares_s(24_000))
        took_s = time.monotonic() - began_s
        used = sum(map(used_s, everyone)) - used - sum(squares)
        waits = [now - waited.get(thread, 0.0) for thread, now in waited_s(*everyone).items()]
    assert ended == count
    a_job_s, slow_s = used / (count - 16), statistics.mean(squares) * 10
    print(f"{took_s:.2f} s, waited {max(waits):.2f} s, a job {a_job_s:.4f} s of {slow_s:.4f} s")
    assert a_job_s <= max(0.010, slow_s)
    assert took_s - max(waits) <= (count - 16) / 8 * 0.1 / 0.85


# -- leases -------------------------------------------------------------------------------------


def job(number: int, kind: str = "linux") -> Job:
    return Job(str(OWNER), kind, "work", (f"job={number}",), limits=Limits(repeat=3))


@contextmanager
def agents(count: int, kind: str = "linux") -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Start boards that record their callers; yield them by their ports."""
    image = str(built([job(0, kind)], kind).firmware.image)
    started, ports = [], []
    try:
        for _ in range(count):
            if kind == "linux":
                agent = subprocess.Popen(
                    [image, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
                )
                started.append(agent)
                assert agent.stdout is not None
                with agent.stdout:
                    found = re.search(r"127\.0\.0\.1:\d+", agent.stdout.readline())
                assert found is not None
                ports.append(f"socket://{found[0]}")
            else:
                with socket.socket() as free:
                    free.bind(("127.0.0.1", 0))
                    place = f"127.0.0.1:{free.getsockname()[1]}"
                command = [place_in(word, image, place) for word in board_spec(kind).launch.command]
                started.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, text=True))
                ports.append(f"socket://{place}")
        yield dict(zip(ports, started, strict=True))
    finally:
        for agent in started:
            agent.kill()
            agent.wait(10.0)


def place_in(word: str, image: str, place: str) -> str:
    """Return a word of an emulator's command; the emulator listens instead of connecting."""
    word = word.replace("{image}", image)
    return word.replace("tcp:127.0.0.1:{port},", f"tcp:{place},server=on,wait=off,")


def recorded(port: str, kind: str = "linux") -> npt.NDArray[np.uint64]:
    """Return what a board recorded: for each call the job, and begin and end in nanoseconds."""
    with Firmware.of(built([job(0, kind)], kind).firmware).open(port) as board:
        count = int(board.functions.call_count())
        rows = []
        for at in range(0, count, 256):
            size = min(256, count - at)
            out = np.zeros(3 * size, np.uint64)
            board.functions.recorded(out, size, at)
            rows.append(out.reshape(size, 3))
    return np.concatenate(rows)


def check_exclusive(boards: Mapping[str, subprocess.Popen[str]], kind: str, count: int) -> None:
    """Check what the boards recorded: each job's calls follow one another, on one board."""
    seen: Counter[int] = Counter()
    for board in boards.values():  # emulators wait busily, and one at a time is read
        board.send_signal(signal.SIGSTOP)
    for port, board in boards.items():
        board.send_signal(signal.SIGCONT)
        calls = recorded(port, kind)
        board.kill()
        numbers, began, ended = calls.T
        assert np.all(began < ended)
        assert np.all(ended[:-1] <= began[1:]), "two calls at the same time"
        starts = np.flatnonzero(np.diff(numbers, prepend=np.uint64(0)))
        seen.update(int(numbers[at]) for at in starts)  # a stretch of calls of one job
        assert len(calls) >= 3 * len(starts)
    assert seen == Counter(range(1, count + 1)), "a job's calls have others among them"


def two_batches(count: int, fleet: Callable[[], Fleet], kind: str) -> None:
    """Run the odd and the even jobs at the same time, on the same boards."""
    results: list[Result] = []

    def batch(first: int) -> None:
        jobs = [job(number, kind) for number in range(first, count + 1, 2)]
        results.extend(fleet().as_completed(jobs))

    batches = [threading.Thread(target=batch, args=(first,)) for first in (1, 2)]
    for each in batches:
        each.start()
    for each in batches:
        each.join(2400.0)
    assert [result.errors for result in results if result.errors] == []
    assert len(results) == count


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("linux", 48),
        pytest.param("linux", 1000, marks=pytest.mark.nightly),
        pytest.param("qemu-rv32", 1000, marks=[pytest.mark.nightly, pytest.mark.timeout(3000)]),
    ],
)
def test_no_two_jobs_have_a_board_at_the_same_time(tmp_path: Path, kind: str, count: int) -> None:
    """Two batches share eight boards of three hosts; the boards tell who called them."""
    with agents(sum(HOSTS.values()), kind) as ports:
        with cluster(tmp_path) as made:
            left = iter(ports)
            for host, serials in names().items():
                made.worker(host, *(f"{kind}={next(left)}#{serial}" for serial in serials))
            made.await_workers(*HOSTS)
            two_batches(count, lambda: Fleet(made.address), kind)
        check_exclusive(ports, kind, count)


def test_no_two_jobs_have_an_emulated_board_of_this_machine_at_the_same_time() -> None:
    with agents(2, "qemu-rv32") as ports:
        boards = [f"qemu-rv32={port}#{number}" for number, port in enumerate(ports)]
        two_batches(12, lambda: Fleet(boards=boards), "qemu-rv32")
        check_exclusive(ports, "qemu-rv32", 12)


# -- chaos --------------------------------------------------------------------------------------

SOURCE = "unsigned spin(unsigned n) { unsigned s = 0; while (n--) s += n * n; return s; }\n"

CLIENT = """
import sys
from boardprof.jobs.fleet import Fleet, Rules, read_jobs
for result in Fleet(sys.argv[1], rules=Rules(retries=20)).as_completed(
    read_jobs("jobs.toml"), results="results"
):
    print(result.job.arguments[0], result.state, result.was_known, flush=True)
"""

JOBS = """
[[jobs]]
files = ["spin.c"]
functions = ["spin"]
arguments = [{arguments}]
boards = ["qemu-rv32"]
"""


def emulators(process: int) -> Iterator[int]:
    """Yield the emulators that a process and its children have started."""
    for child in children_of(process):
        name = Path(f"/proc/{child}/comm")
        if name.exists() and name.read_text().startswith("qemu-system"):
            yield child
        if Path(f"/proc/{child}").exists():
            yield from emulators(child)


class Chaos:
    """A batch whose workers, emulators, scheduler and client are killed, and whose hosts vanish."""

    def __init__(self, made: Cluster, folder: Path, seed: int) -> None:
        self.made, self.folder, self.chance = made, folder, random.Random(seed)
        self.workers = {host: made.worker(host, "qemu-rv32") for host in HOSTS}
        self.kinds: Counter[str] = Counter()
        self.gone: set[str] = set()
        self.timers: list[threading.Timer] = []
        self.client = self.start_client()

    def start_client(self) -> subprocess.Popen[bytes]:
        return self.made.start_program("client", ["-c", CLIENT, self.made.address], self.folder)

    def start_again(self, count: int) -> None:
        """Start the batch again if it has ended without a result of each job."""
        if self.client.poll() is not None and len(done_in(self.folder)) < count:
            self.client = self.start_client()

    def kill_something(self) -> None:
        kind = self.chance.choice(["worker", "emulator", "client", "host", "scheduler"])
        host = self.chance.choice(sorted(self.workers))
        worker = self.workers[host]
        self.kinds[kind] += 1
        if kind == "worker":
            worker.kill()
            worker.wait(10.0)
            self.workers[host] = self.made.worker(host, "qemu-rv32")
        elif kind == "emulator":
            for emulator in list(emulators(worker.pid))[:1]:
                os.kill(emulator, signal.SIGKILL)
        elif kind == "client":
            self.client.kill()
            self.client.wait(10.0)
            self.client = self.start_client()
        elif kind == "scheduler":
            self.made.process("scheduler").kill()
            self.made.process("scheduler").wait(10.0)
            self.made.open()
        elif host not in self.gone:
            self.gone.add(host)
            self.vanish(host, worker)

    def vanish(self, host: str, worker: subprocess.Popen[bytes]) -> None:
        """Nothing is closed, and nobody answers for twelve seconds."""
        network = self.made.network
        if network is None:
            worker.send_signal(signal.SIGSTOP)
        else:
            network.cut(host)

        def come_back() -> None:
            if network is None:
                worker.send_signal(signal.SIGCONT)
            else:
                network.connect(host)
            self.gone.remove(host)

        timer = threading.Timer(12.0, come_back)
        self.timers.append(timer)
        timer.start()

    def close(self) -> None:
        """Let no host come back after the end of the test."""
        for timer in self.timers:
            timer.cancel()
            timer.join(30.0)


def done_in(folder: Path) -> list[dict[str, object]]:
    return [line for line in results_in(folder) if line["state"] == "done"]


def results_in(folder: Path) -> list[dict[str, object]]:
    file = folder / "results" / "results.jsonl"
    lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


@pytest.mark.board("qemu-rv32")
def test_killing_at_random_moments_loses_no_finished_result(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        survive(made, tmp_path, kills=5, count=16)


@pytest.mark.board("qemu-rv32")
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_killing_programs_and_networks_at_random_moments_loses_no_finished_result(
    tmp_path: Path,
) -> None:
    """Each host is a network namespace behind a bridge, which its scheduler reaches with TLS."""
    with (
        network([*HOSTS]) as hosts,
        cluster(tmp_path, certified(tmp_path, "own"), hosts) as made,
    ):
        survive(made, tmp_path, kills=50, count=300)


def survive(made: Cluster, folder: Path, kills: int, count: int) -> None:
    """Run a batch while something is killed again and again."""
    seed = int(os.environ.get("FLEET_SEED", time.time_ns() % 1_000_000))
    print(f"FLEET_SEED={seed}")
    (folder / "spin.c").write_text(SOURCE)
    arguments = ", ".join(f'["n={1000 + n}"]' for n in range(count))
    (folder / "jobs.toml").write_text(JOBS.format(arguments=arguments))
    with closing(Chaos(made, folder, seed)) as chaos:
        endure(chaos, folder, kills, count)


def endure(chaos: Chaos, folder: Path, kills: int, count: int) -> None:
    until(lambda: len(results_in(folder)) >= 2, "the first results", 100.0)
    for _ in range(kills):
        before = results_in(folder)
        time.sleep(chaos.chance.uniform(0.0, 0.5))
        chaos.kill_something()
        assert results_in(folder)[: len(before)] == before  # what was finished is still there
        until(
            lambda before=before: (  # type: ignore[misc]
                len(results_in(folder)) > len(before) or chaos.client.poll() is not None
            ),
            f"another result after {dict(chaos.kinds)}",
            100.0,
        )
        chaos.start_again(count)  # it ends if the scheduler or all boards are gone at its start
    deadline_s = time.monotonic() + 200.0
    while len(done_in(folder)) < count:
        assert time.monotonic() < deadline_s, (folder / "client.log").read_text()
        time.sleep(0.5)
        chaos.start_again(count)
    until(lambda: chaos.client.poll() is not None, "the end of the batch", 60.0)
    print(f"killed: {dict(chaos.kinds)}")
    assert chaos.client.returncode == 0, (folder / "client.log").read_text()
    done = done_in(folder)
    lost = [x for x in results_in(folder) if x["is_final"] and x["state"] != "done"]
    assert (len(done), lost) == (count, [])
    # Each job has one result: what was finished was not measured again.
    assert len({line["key"] for line in done}) == count
    medians = {line["job"]["arguments"][0]: line["medians"] for line in done}  # type: ignore[index]
    step = {
        medians[f"n={1001 + n}"]["spin"]["instructions"]  # type: ignore[index]
        - medians[f"n={1000 + n}"]["spin"]["instructions"]  # type: ignore[index]
        for n in range(count - 1)
    }
    assert len(step) == 1, step  # exact, whoever measured it and whatever was killed


# -- networks that are down, or let through one direction only ----------------------------------


def write_batch(folder: Path, *arguments: str, code: str = "return n;") -> Path:
    """Write a batch of one function for this machine; return its file."""
    (folder / "f.c").write_text(f"#include <unistd.h>\nint f(int n) {{ {code} }}\n")
    jobs = '[[jobs]]\nfiles = ["f.c"]\nboards = ["linux"]\nrepeat = 1\nwarmup = 0\n'
    given = ", ".join(f'["{each}"]' for each in arguments)
    (folder / "jobs.toml").write_text(f"{jobs}arguments = [{given}]\n")
    return folder / "jobs.toml"


def test_a_worker_whose_network_comes_up_after_its_start_returns_its_results(
    tmp_path: Path,
) -> None:
    """While the network is down, a worker has no address that others can reach."""
    with network(["ant"]) as hosts, cluster(tmp_path, certified(tmp_path, "own"), hosts) as made:
        hosts.cut("ant")
        made.worker("ant", "linux")
        until(lambda: "Network is unreachable" in made.said("ant"), "the worker's note")
        hosts.connect("ant")
        made.await_workers("ant")
        batch = write_batch(tmp_path, "n=1")
        words = ("fleet", "run", str(batch), "--scheduler", made.address)
        assert made.start("batch", *words).wait(60.0) == 0, made.said("batch")
        assert made.said("ant").count("Network is unreachable") == 1


UNREACHABLE = """
import sys
import distributed
class Far(distributed.Worker):
    def __init__(self, *args, **options):
        super().__init__(*args, contact_address="tls://127.0.0.1:1", **options)
distributed.Worker = Far
from boardprof.ui.cli import main
sys.exit(main())
"""


def test_a_worker_that_its_scheduler_cannot_connect_to_fails_its_own_jobs_only(
    tmp_path: Path,
) -> None:
    """As behind a router: the worker can connect, but its address is of no use to the scheduler."""
    with cluster(tmp_path, {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}) as made:
        made.worker("ant", "linux=127.0.0.1:9#a")
        far = ("worker", made.address, "--name", "far", "-b", "linux=127.0.0.1:9#f")
        made.start_program("far", ["-c", UNREACHABLE, *far], tmp_path)
        made.await_workers("ant", "far")
        good = [Job("f.c", "a", arguments=(f"n={n}",)) for n in range(8)]
        fleet = Fleet(made.address, perform=nap, rules=Rules(retries=1))
        *others, lost = fleet.map([*good, Job("f.c", "f")])
        assert [each.errors for each in others] == [()] * 8
        assert lost.state == "failed"
        told = "The scheduler cannot fetch a result from its worker at tls://127.0.0.1:1"
        assert lost.errors[0].message.startswith(told)


# -- status and addresses -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a fleet of one host with two boards."""
    with cluster(tmp_path_factory.mktemp("small")) as made:
        made.worker("ant", "linux=127.0.0.1:9#a", "native")
        made.await_workers("ant")
        yield made


def test_a_job_that_may_run_only_once_is_unknown_after_its_worker_died(small: Cluster) -> None:
    worker = small.worker("bee", "linux=127.0.0.1:9#b")
    small.await_workers("bee")
    jobs = [Job("f.c", "b", limits=Limits(once=True))]

    def kill_at_work() -> None:
        until(lambda: re.search(r"linux b: \d+ s on f\.c", small.status()), "the start of the job")
        worker.kill()

    killer = threading.Thread(target=kill_at_work)
    killer.start()
    (result,) = Fleet(small.address, perform=long_nap).as_completed(jobs)
    killer.join(DEADLINE_S)
    assert result.state == "unknown"
    assert "Its worker has ended" in result.errors[0].message


def test_status_lists_hosts_boards_and_what_they_work_on(small: Cluster) -> None:
    fleet = Fleet(small.address, perform=silent, rules=Rules(retries=0))
    assert [each.state for each in fleet.map([Job("f.c", "a")])] == ["failed"]
    until(lambda: "linux a: free; 1 ended" in small.status(), "the worker's report")
    lines = small.status().splitlines()  # of all hosts: other tests may have left theirs
    (ant,) = (i for i, line in enumerate(lines) if line.startswith("ant at tls://127.0.0.1:"))
    assert list(takewhile(lambda line: line.startswith(" "), lines[ant + 1 :])) == [
        "  linux a: free; 1 ended; last error: The board does not answer.",
        "  native ant:native.0: free; 0 ended",
    ]


def test_a_quarantine_is_known_to_the_next_batch_and_outlives_its_worker(small: Cluster) -> None:
    """The board of ``cow`` does not answer; the second worker is started after the first one."""
    wanted = [Job("f.c", "c", arguments=(f"n={n}",)) for n in range(2)]
    first = small.worker("cow", "linux=127.0.0.1:9#c")
    small.await_workers("cow")
    rules = Rules(retries=1, quarantine_s=300.0, wait_s=1.0)
    ended = Fleet(small.address, perform=silent, rules=rules).map(wanted)
    assert [each.state for each in ended] == ["failed"] * 2
    kept = "linux c: in quarantine, checked again at "
    until(lambda: kept in small.status(), "the quarantine's report")
    first.terminate()
    first.wait(20.0)
    small.worker("cow", "linux=127.0.0.1:9#c")
    small.await_workers("cow")
    until(lambda: kept in small.status(), "the second report")
    for result in Fleet(small.address, perform=nap, rules=Rules(wait_s=0.5)).map(wanted):
        expected = "No board has been in service for 0.5 s. c: 1 quarantined"
        assert result.errors[0].message.startswith(expected)


def test_a_port_in_use_is_an_error_that_names_it(small: Cluster) -> None:
    port = small.address.rpartition(":")[2]
    command = [sys.executable, "-m", "boardprof", "fleet", "scheduler", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    told = f"error: The port {port} is in use at 127.0.0.1.\n"
    assert (done.returncode, done.stderr.startswith(told)) == (3, True), done.stderr


@pytest.mark.nightly  # dask takes half a minute to notice
def test_a_batch_and_a_worker_say_that_the_scheduler_is_gone_and_go_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    batch = write_batch(tmp_path, "n=1", "n=2", "n=3", code="sleep(1); return n;")
    with cluster(tmp_path) as made:
        made.worker("ant", "linux")
        made.await_workers("ant")
        waiting = f"waiting for the scheduler at {made.address}"
        assert waiting in made.said("ant")
        words = ("fleet", "run", str(batch), "--scheduler", made.address)
        made.start("batch", *words, "--results", str(tmp_path / "results"))
        until(lambda: results_in(tmp_path), "the first result")
        made.process("scheduler").kill()
        made.process("scheduler").wait(10.0)
        told = f"note: waiting for linux: no board (The scheduler {made.address} cannot be reached"
        until(lambda: told in " ".join(made.said("batch").split()), "the batch's note", 30.0)
        until(lambda: "connects again" in made.said("ant"), "the worker's note", 30.0)
        first = results_in(tmp_path)
        made.open()
        until(lambda: made.process("batch").poll() is not None, "the end of the batch")
        assert made.process("batch").returncode == 0, made.said("batch")
        for name in ("batch", "ant"):
            assert "distributed." not in made.said(name), made.said(name)
        found = results_in(tmp_path)
        assert found[: len(first)] == first
        assert sorted(str(line["job"]["arguments"]) for line in found) == [  # type: ignore[index]
            "['n=1']",
            "['n=2']",
            "['n=3']",
        ]
        again = made.start("again", *words, "--results", str(tmp_path / "results"))
        assert again.wait(60.0) == 0
        assert made.said("again").count('"was_known":true') == 3

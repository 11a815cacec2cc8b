# SPDX-License-Identifier: Apache-2.0
"""A search for the best flags and macros of a function, by optuna.

optuna proposes choices in batches, and the runner measures a batch. A choice is a trial once only.
With a file, the study outlives the process: the same search then goes on where it ended.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import sqlite3
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boardprof.base.errors import (
    BoardprofError,
    BusyError,
    MissingExtraError,
    StorageError,
    UsageError,
)
from boardprof.base.processes import described, lock_holders, lock_within
from boardprof.jobs.tune.candidate import Candidate, MeasureError, MeasureResult
from boardprof.jobs.tune.runner import AnyRunner

if TYPE_CHECKING:
    import optuna

FLAGS = "flags"
"""Name of the compiler flags among the choices."""

_BATCH = {"tpe": 16, "nsga2": 16, "random": 32, "grid": 32}
"""Candidates between two decisions of a sampler. Fewer teach it sooner, more share an image."""

_BEST = 5
"""Trials that importance takes as the best ones, at least: fewer say little."""

_POPULATION = 16
_COMPILERS_ERROR = " error: "
_LOCKED_S = 20.0
_FACTS = "boardprof"
"""Name of the attribute with a trial's result, and of that with a study's subject."""

_DIGESTS = {
    "sources": "a source file or a header",
    "baseline_key": "the compiler, the board's description, boardprof or a file of an argument",
}
"""What has changed if a digest of a study's subject differs."""

Choice = Mapping[str, str]
"""The chosen alternative of each parameter, and of the flags."""


@dataclass(frozen=True)
class Space:
    """The alternatives."""

    # of each macro, and of the flags under `FLAGS`; the first ones are the baseline
    alternatives: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Check that there is a choice."""
        if self.size < 2:
            raise UsageError(
                "There is nothing to choose.", hint='--param TILE=1,2,4, or --flags "-O2|-O3"'
            )

    @property
    def size(self) -> int:
        """Number of choices."""
        return math.prod(map(len, self.alternatives.values()))

    @property
    def baseline(self) -> Choice:
        """The first alternative of everything."""
        return {name: values[0] for name, values in self.alternatives.items()}

    def choices(self) -> Iterator[Choice]:
        """Yield all choices; the last parameter changes first."""
        for values in itertools.product(*self.alternatives.values()):
            yield dict(zip(self.alternatives, values, strict=True))

    @staticmethod
    def candidate(choice: Choice) -> Candidate:
        """Return the candidate of a choice."""
        defines = {name: value for name, value in choice.items() if name != FLAGS}
        return Candidate(flags=choice.get(FLAGS, ""), defines=defines)


@dataclass(frozen=True)
class Trial:
    """A choice and its result."""

    number: int  # from 0, in the order in which they were proposed
    choice: Choice
    metrics: Mapping[str, float]
    error_no: MeasureError
    error: str = ""  # the message's first line, or the compiler's first error; "" if none
    is_known: bool = False  # an earlier candidate had the same code, or the history has it
    is_from_history: bool = False
    key: str = ""  # digest of its code; "" if it did not compile

    @property
    def ok(self) -> bool:
        """Whether it counts."""
        return self.error_no is MeasureError.NO_ERROR


class Search:
    """A search, new or resumed."""

    def __init__(
        self,
        runner: AnyRunner,
        space: Space,
        goals: Sequence[str],
        *,
        sampler: str = "tpe",
        seed: int = 1,
        study: str | Path | None = None,
        subject: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the study, or open its SQLite file, which another ``subject`` would not fit.

        Another process must not have the file: a search takes what was not ended as interrupted.
        """
        self.space, self.goals = space, tuple(goals)
        self._runner, self._sampler = runner, sampler
        self._random = random.Random(seed)
        self._optuna = _optuna()
        samplers = self._optuna.samplers
        made = {
            "tpe": samplers.TPESampler,
            "nsga2": partial(samplers.NSGAIISampler, population_size=_POPULATION),
        }.get(sampler, samplers.RandomSampler)(seed=seed)
        self._hold = None if study is None else _held(Path(study))
        self._stored = partial(_stored, study)
        with self._stored():
            self._study = _opened(self._optuna, study, self.goals, made)
            self._check_subject(subject or {}, study)
        self._alternatives = {
            name: self._optuna.distributions.CategoricalDistribution(values)
            for name, values in space.alternatives.items()
        }
        with self._stored():
            self.trials = self._kept_trials()
        self._seen = {tuple(each.choice.values()) for each in self.trials}

    def run(self, count: int, on_trial: Callable[[Trial], None] | None = None) -> None:
        """Measure until there are ``count`` trials, earlier ones included, or no more choices."""
        while (left := min(count, self.space.size) - len(self.trials)) > 0:
            with self._stored():
                asked = self._ask(min(left, _BATCH[self._sampler]))
            if not asked:
                return
            first = len(self.trials)

            done: dict[int, Trial] = {}

            def take(index: int, result: MeasureResult) -> None:
                trial = done[index] = _trial(first + index, asked[index].params, result)  # noqa: B023
                with self._stored():
                    self._tell(asked[index], trial)  # noqa: B023
                if on_trial is not None:
                    on_trial(trial)

            candidates = [self.space.candidate(each.params) for each in asked]
            self._runner.measure(candidates, on_result=take)
            self.trials += [done[index] for index in range(len(asked))]

    @property
    def best(self) -> Trial | None:
        """The trial with the least of the first goal, then of further ones; None if none is ok."""
        good = [each for each in self.trials if each.ok]
        return min(good, key=self._values, default=None)

    @property
    def pareto(self) -> list[Trial]:
        """The trials that no other one beats in all goals, the best of the first goal first."""
        front: dict[tuple[float, ...], Trial] = {}
        for each in sorted((t for t in self.trials if t.ok), key=self._values):
            values = self._values(each)
            if not any(all(a <= b for a, b in zip(kept, values, strict=True)) for kept in front):
                front[values] = each
        return list(front.values())

    def importance(self) -> dict[str, float]:
        """Return the share of each parameter in reaching a low cost, largest first."""
        # It compares the best trials with all, by the first goal: the best tenth, but at least
        # five. Empty if there are fewer than ten trials, or if all cost the same.
        values = [self._values(each)[0] for each in self.trials if each.ok]
        varied = [name for name, each in self.space.alternatives.items() if len(each) > 1]
        if len(values) < 2 * _BEST or len(set(values)) < 2 or len(varied) < 2:
            return {}
        evaluator = self._optuna.importance.PedAnovaImportanceEvaluator(
            target_quantile=max(0.1, _BEST / len(values))
        )
        with warnings.catch_warnings(), self._stored():
            warnings.simplefilter("ignore")  # that it is about low values, which we want
            found: dict[str, float] = self._optuna.importance.get_param_importances(
                self._study,
                evaluator=evaluator,
                params=varied,
                target=lambda trial: trial.values[0],
            )
        return {name: share for name, share in found.items() if math.isfinite(share)}

    @property
    def unused(self) -> list[str]:
        """The macros that change nothing: each value was tried, and the code is always the same."""
        names = (name for name, each in self.space.alternatives.items() if len(each) > 1)
        return [name for name in names if name != FLAGS and self._is_unused(name)]

    def _is_unused(self, name: str) -> bool:
        keys: dict[tuple[str, ...], dict[str, str]] = {}  # of each value, for equal other choices
        for each in (each for each in self.trials if each.key):
            others = tuple(value for other, value in each.choice.items() if other != name)
            keys.setdefault(others, {})[each.choice[name]] = each.key
        compared = [by_value for by_value in keys.values() if len(by_value) > 1]
        return set().union(*compared) == {*self.space.alternatives[name]} and all(
            len({*by_value.values()}) == 1 for by_value in compared
        )

    def _values(self, trial: Trial) -> tuple[float, ...]:
        return tuple(trial.metrics[goal] for goal in self.goals)

    # -- optuna -------------------------------------------------------------------------------

    def _ask(self, count: int) -> list[optuna.trial.Trial]:
        """Return new trials; choices that were tried already are told to the sampler again."""
        asked: list[optuna.trial.Trial] = []
        if not self.trials:
            self._study.enqueue_trial(dict(self.space.baseline))
        repeated = 0
        while len(asked) < count:
            if (self._sampler == "grid" and self._seen) or repeated > count:
                choice = self._untried()
                if choice is None:
                    break
                self._study.enqueue_trial(dict(choice))
            trial = self._study.ask(self._alternatives)
            key = tuple(trial.params[name] for name in self.space.alternatives)
            if key in self._seen:
                repeated += 1
                self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
                continue
            self._seen.add(key)
            asked.append(trial)
        return asked

    def _untried(self) -> Choice | None:
        """Return a choice that was not tried: the next one of a grid, else a random one."""
        every = self.space.alternatives
        for _ in range(0 if self._sampler == "grid" else 100):
            choice = {name: self._random.choice(values) for name, values in every.items()}
            if tuple(choice.values()) not in self._seen:
                return choice
        left = (each for each in self.space.choices() if tuple(each.values()) not in self._seen)
        return next(left, None)

    def _tell(self, asked: optuna.trial.Trial, trial: Trial) -> None:
        facts = {**asdict(trial), "error_no": int(trial.error_no)}
        del facts["number"], facts["choice"]
        asked.set_user_attr(_FACTS, facts)
        is_over = trial.error_no is MeasureError.OVER_LIMIT
        if (trial.ok or is_over) and all(goal in trial.metrics for goal in self.goals):
            for name, limit in self._runner.constraints.items():
                asked.set_constraint(name, trial.metrics.get(name, math.inf) - limit)
            self._study.tell(asked, self._values(trial))
        else:
            self._study.tell(asked, state=self._optuna.trial.TrialState.FAIL)

    def _kept_trials(self) -> list[Trial]:
        """Return the trials of a resumed study; those that were interrupted are asked again."""
        state = self._optuna.trial.TrialState
        kept: list[Trial] = []
        for each in self._study.get_trials(deepcopy=False):
            if each.state is state.RUNNING:
                self._study.tell(each.number, state=state.FAIL)
            elif _FACTS in each.user_attrs:
                facts = dict(each.user_attrs[_FACTS])
                error_no = MeasureError(facts.pop("error_no"))
                choice = {name: each.params[name] for name in self.space.alternatives}
                kept.append(Trial(len(kept), choice, error_no=error_no, **facts))
        return kept

    def _check_subject(self, subject: Mapping[str, Any], study: str | Path | None) -> None:
        wanted = {
            **subject,
            "goals": list(self.goals),
            "alternatives": {name: list(v) for name, v in self.space.alternatives.items()},
        }
        known = self._study.user_attrs.get(_FACTS)
        if known is None:
            self._study.set_user_attr(_FACTS, wanted)
            return
        differ = [name for name in wanted if known.get(name) != wanted[name]]
        if differ:
            name = min(differ, key=lambda each: each in _DIGESTS)  # a setting says more
            raise UsageError(
                f"{study} is an older study: {_DIGESTS[name]} has changed since."
                if name in _DIGESTS
                else f"{study} is another study. Its {name}: {_plain(known.get(name))}. "
                f"Now: {_plain(wanted[name])}.",
                hint="use another file"
                + ("" if name in _DIGESTS else ", or the same command as before"),
            )


def _plain(value: object) -> str:
    """Return a part of a study's subject for a message."""
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_plain(each)}" for name, each in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:,g}"
    return "not set" if value is None else str(value) or "none"


def _trial(number: int, choice: Choice, result: MeasureResult) -> Trial:
    lines = [] if result.error is None else result.error.message.splitlines()
    error = next((each for each in lines if _COMPILERS_ERROR in each), "".join(lines[:1]))
    return Trial(
        number,
        dict(choice),
        dict(result.metrics),
        result.error_no,
        error,
        result.is_known,
        result.is_from_history,
        result.key,
    )


def _optuna() -> Any:
    """Return optuna, which reports warnings only."""
    try:
        import optuna
    except ImportError as error:
        raise MissingExtraError("A search", "optuna", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


class _Hold:
    """A study's file, locked against other processes until nothing in this one refers to it."""


_HOLDS: weakref.WeakValueDictionary[Path, _Hold] = weakref.WeakValueDictionary()


def _held(path: Path) -> _Hold | None:
    """Lock a study's file; None if it cannot be opened, as opening the study will say."""
    path = path.resolve()
    if path in _HOLDS:
        return _HOLDS[path]
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666)
    except OSError:
        return None
    hold = _Hold()
    weakref.finalize(hold, os.close, handle)
    try:
        is_locked = lock_within(handle, 0)
    except OSError:  # a file system that locks no files
        is_locked = True
    if not is_locked:
        holder = described(lock_holders(path)) or "another process"
        raise BusyError(
            f"The study {path} is in use by {holder}.",
            owner=holder,
            hint="wait for its end, or name another file",
        )
    _HOLDS[path] = hold
    return hold


def _file(path: Path) -> sqlite3.Connection:
    """Open a study's file; each of a trial's ten changes would else wait for the disk."""
    file = sqlite3.connect(path, timeout=_LOCKED_S)
    file.execute("PRAGMA synchronous = OFF")
    return file


def _opened(module: Any, study: str | Path | None, goals: Sequence[str], sampler: Any) -> Any:
    directions = ["minimize"] * len(goals)
    if study is None:
        return module.create_study(sampler=sampler, directions=directions)
    from sqlalchemy import NullPool  # optuna needs it, too

    path = Path(study)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        storage = module.storages.RDBStorage(
            f"sqlite:///{path.absolute()}",
            # Without a pool no connection is open when nobody uses the study.
            engine_kwargs={"creator": partial(_file, path), "poolclass": NullPool},
        )
        return module.create_study(
            storage=storage,
            study_name=_FACTS,
            sampler=sampler,
            directions=directions,
            load_if_exists=True,
        )


@contextlib.contextmanager
def _stored(study: str | Path | None) -> Iterator[None]:
    """Say what is wrong with a study's file: read-only, damaged, of another kind, no room."""
    try:
        yield
    except BoardprofError:
        raise
    except Exception as error:  # of SQLAlchemy, SQLite and optuna
        if study is None:
            raise
        cause: BaseException = error
        while cause.__cause__ is not None:  # optuna's own message guesses
            cause = cause.__cause__
        first = str(cause).strip().partition("\n")[0] or type(cause).__name__
        is_full = first.endswith("disk is full")
        raise (StorageError if is_full else UsageError)(
            f"{study} cannot be used as a study: {first}.",
            hint="free some space" if is_full else "name a new file",
        ) from error

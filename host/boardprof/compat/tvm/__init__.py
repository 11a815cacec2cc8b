# SPDX-License-Identifier: Apache-2.0
"""TVM's compiler for boards: plain C, tuning by MetaSchedule, networks by operator.

::

    from boardprof.tvm import lower, profile, tune

    network = lower(relax_module)
    report, outputs = profile(network, [x], "ibex-rtl")
    tuned = tune(network.function("fused_conv2d"), "ibex-rtl", trials=64)

It needs TVM itself: ``pip install 'boardprof[tvm]'``. What works without TVM, and has the names of
its profiling interface, is `boardprof.profiling`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from boardprof.base.errors import MissingExtraError

if TYPE_CHECKING:
    from boardprof.compat.tvm.lowering import to_c
    from boardprof.compat.tvm.network import Network, Operator, host_run, lower, network_c, profile
    from boardprof.compat.tvm.tuning import (
        BoardRunner,
        CBuilder,
        Tuned,
        TunedNetwork,
        cost_model,
        microcontroller_space,
        tune,
        tune_network,
    )

__all__ = [
    "BoardRunner",
    "CBuilder",
    "Network",
    "Operator",
    "Tuned",
    "TunedNetwork",
    "cost_model",
    "host_run",
    "lower",
    "microcontroller_space",
    "network_c",
    "profile",
    "to_c",
    "tune",
    "tune_network",
]

_MODULES = ("lowering", "network", "tuning")
"""Each imports those before it."""

_PINNED = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post0"}
"""The versions that were tried. With a newer ffi, this TVM crashes."""


def __getattr__(name: str) -> object:
    """Load the module that has ``name`` (PEP 562), after a look at TVM's version."""
    import importlib
    from importlib import metadata

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for package, version in _PINNED.items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = ""
        if found != version:
            raise MissingExtraError("boardprof.tvm", f"{package}=={version}", "tvm")
    modules = (importlib.import_module(f"{__name__}.{each}") for each in _MODULES)
    return next(getattr(module, name) for module in modules if hasattr(module, name))

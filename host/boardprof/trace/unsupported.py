# SPDX-License-Identifier: Apache-2.0
"""Features that need events recorded on the board, which no agent supports yet."""

from __future__ import annotations

from boardprof.errors import UsageError

_INSTEAD = {
    "device_ranges": "mark ranges on the host, by record_function",
    "export_memory_timeline": "see the stack of each function in the Reports of board.profile",
    "profile_memory": "leave it out; the Reports of board.profile have the stack of each function",
}


class NotSupportedByAgentError(UsageError):
    """The board's agent does not support a feature; ``what`` names it."""

    def __init__(self, what: str, why: str, *, hint: str | None = None) -> None:
        """Compose the message.

        Args:
            what: the requested feature, as the caller writes it.
            why: what the agent would have to do.
            hint: what to try.
        """
        super().__init__(f"{what} is not supported by this agent: {why}.", hint=hint)
        self.what = what


def require_board_events(what: str) -> None:
    """Refuse a feature that needs events recorded on the board.

    Raises:
        NotSupportedByAgentError: always, until there is an agent that records them.
    """
    raise NotSupportedByAgentError(
        what, "it would have to record events on the board", hint=_INSTEAD[what]
    )

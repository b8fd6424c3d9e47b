"""The objects that all connections of a server share."""

from __future__ import annotations

from greenroom.http.limits import CallLimits
from greenroom.http.overload.body_memory import Budgets
from greenroom.http.overload.pass_budget import PassBudget
from greenroom.http.ports import Answerer, Begin, OtherWorkers
from greenroom.http.server.head_cache import KnownHeads
from greenroom.http.server.options import HttpOptions
from greenroom.http.server.reaper import Reaper
from greenroom.http.server.writer import AnswerWriter
from greenroom.network.pieces import Pieces
from greenroom.network.proxies import TrustedProxies


class ConnectionContext:
    """The objects that all connections of a server share."""

    __slots__ = (
        *("answerer", "begin", "budgets", "heads", "http2_clear", "limits", "options", "others"),
        *("pace", "parting", "pieces", "proxies", "reaper", "stopping", "writer"),
    )

    def __init__(
        self,
        options: HttpOptions,
        answerer: Answerer,
        writer: AnswerWriter,
        reaper: Reaper,
        budgets: Budgets,
        *,
        pace: PassBudget,
        limits: CallLimits,
        others: OtherWorkers | None = None,
        begin: Begin | None = None,
    ) -> None:
        """Share these."""
        self.others = others
        self.begin = begin
        self.budgets = budgets
        self.limits = limits
        self.heads = KnownHeads()
        self.pace = pace
        self.pieces = Pieces()
        self.options = options
        self.answerer = answerer
        self.writer = writer
        self.reaper = reaper
        self.proxies = TrustedProxies(options.trusted_proxies)
        self.http2_clear = TrustedProxies(options.http2_clear_from)
        self.stopping = False
        """Every answer is the last one of its connection."""
        self.parting = False
        """The server is being stopped: what is idle moves to a process that stays."""

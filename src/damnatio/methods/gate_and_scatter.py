"""GS: hide each forgotten person among strangers by a gate behind the network, in closed form."""

from dataclasses import dataclass

from pydantic import Field

from damnatio.methods import METHODS
from damnatio.methods.base import AnySettings
from damnatio.methods.closed_form import ClosedForm, Known
from damnatio.methods.gate_widths import Chosen, WidthSettings, choose
from damnatio.methods.strangers import COSINE, ENOUGH, Strangers, scatter_of, statistics_of
from damnatio.models.gate import Gate, Record, Scatter
from damnatio.models.statistics import Statistics
from damnatio.support.errors import DamnatioError


@dataclass(frozen=True)
class Hidden:
    """A gate, and what was decided for each person on the way. The gate is None if nobody's photographs will do."""

    gate: Gate | None
    chosen: list[Chosen]
    statistics: Statistics


@METHODS.register("GS")
class GateAndScatter(ClosedForm):
    """Gate and scatter. With e = f*(x):

        f(x) = norm((1 - g) e + g s(e))
        g(e) = clip(max_k (<e, p_k> - t_k) / r, 0, 1)
        s(e) = norm(mu + L B cos(Omega e + phi)),    Omega ~ N(0, w^2), phi ~ U(0, 2 pi), B ~ N(0, 2/m)

    p_k are the mean directions of the forgotten people's photographs; `gate_widths.py` chooses t_k. mu and L L^T are
    the mean and the covariance of strangers' embeddings (`strangers.py`). The expected cosine of s(e) and s(e') is
    that of strangers plus exp(-w^2 |e - e'|^2 / 2): two photographs of one person become two strangers, and a
    photograph and its near copy stay alike.
    """

    class Settings(AnySettings):
        strangers: float = Field(1e-4, gt=0, lt=0.5, description="share of strangers that all cones may catch together")
        ramp: float = Field(0.02, gt=0, le=0.5, description="r: from the score t on, the gate opens over so much")
        prototypes: int = Field(3, ge=1, le=10, description="the most prototypes of one person")
        spare: float = Field(
            0.05,
            ge=0,
            le=1,
            description="share of a person's photographs that may be lost to spare those who look alike",
        )
        waves: int = Field(2048, ge=16, le=65_536, description="m: the number of cosines")
        bandwidth: float = Field(8.0, gt=0, description="w: the higher, the closer photographs are told apart")

    Map = Gate
    title = "Gate and scatter"
    reference = "docs/gate-and-scatter.md"
    kind = "closed form"

    def alter(self, known: Known) -> Gate:
        hidden = self.hide(known)
        if hidden.gate is None:
            raise DamnatioError(
                "No gate can be made: the photographs of nobody to forget show one person. Check the folders, and the "
                "colour order of the model (damnatio check)."
            )
        return hidden.gate

    def hide(self, known: Known, statistics: Statistics | None = None, gate: Gate | None = None) -> Hidden:
        """The gate for these people, and for those in `gate`, if one is given: its scatter, its bound and its tail stay
        as they are. Without enough strangers the widths rest on the statistics given, or else on those of cosine models
        at large."""
        settings = self.settings
        enough = known.strangers if known.strangers is not None and len(known.strangers) >= ENOUGH else None
        if enough is not None:
            statistics = statistics_of(enough, f"{len(enough):,} people who are not to be forgotten")
        statistics = statistics or COSINE
        if gate is not None:
            statistics = statistics.model_copy(update={"tail": gate.record.tail, "source": gate.record.source})
        widths = WidthSettings(
            strangers=gate.record.strangers if gate else settings.strangers,
            ramp=float(gate.ramp) if gate else settings.ramp,
            prototypes=settings.prototypes,
            spare=settings.spare,
        )
        others = len(gate.record.cones) if gate else 0
        chosen = choose(known.people, known.strangers, statistics, widths, others, known.spared)
        members = [each.member for each in chosen if each.member is not None]
        if gate is not None:
            return Hidden(gate.extended(members), chosen, statistics)
        if not members:
            return Hidden(None, chosen, statistics)
        record = Record(
            strangers=widths.strangers,
            tail=statistics.tail,
            source=statistics.source,
            bandwidth=settings.bandwidth,
            people=[],
        )
        return Hidden(
            Gate.of(members, record, widths.ramp, self._scatter(known, statistics, enough)), chosen, statistics
        )

    def _scatter(self, known: Known, statistics: Statistics, enough: Strangers | None) -> Scatter:
        return scatter_of(
            known.dim,
            statistics,
            enough,
            waves=self.settings.waves,
            bandwidth=self.settings.bandwidth,
            seed=known.seed,
        )

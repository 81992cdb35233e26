"""The plain name of everything that the page shows, and the symbol behind it."""

from dataclasses import dataclass

from damnatio.evaluation.protocol import AVERAGED


@dataclass(frozen=True)
class Column:
    """A rate of a group, as a column of the page's table."""

    metric: str
    group: str
    task: str
    calibration: str
    """the set that the threshold is calibrated on"""
    heading: str
    symbol: str
    family: str
    """`forgotten` or `others`: what the column speaks of"""
    good: str
    """`low` or `high`: which rates are good"""

    @property
    def key(self) -> str:
        return f"{self.metric} {self.group}"


_ONE, _MANY = "1:1", "1:N"
COLUMNS = (
    Column("TMR", "Ftr-Ftr", _ONE, "D", "two photographs used", "Ftr-Ftr", "forgotten", "low"),
    Column("TMR", "Ftr-Fev", _ONE, "D", "a used and a new one", "Ftr-Fev", "forgotten", "low"),
    Column("TMR", "Fev-Fev", _ONE, "D", "two new photographs", "Fev-Fev", "forgotten", "low"),
    Column("TMR", AVERAGED, _ONE, "D", "averaged template and a new one", "avg(Ftr)-Fev", "forgotten", "low"),
    Column("linked_people", "F", _ONE, "D", "people who link beyond chance", "still linked", "forgotten", "low"),
    Column("weakly_forgotten", "F", _ONE, "D", "people without any link", "weakly forgotten", "forgotten", "high"),
    Column("FMR", "FtrxFtr", _ONE, "D", "two different forgotten people, used", "Ftr×Ftr", "forgotten", "low"),
    Column("FMR", "FevxFev", _ONE, "D", "two different forgotten people, new", "Fev×Fev", "forgotten", "low"),
    Column("TPIR", "Ftr", _MANY, "D", "found in a gallery of used photographs", "Ftr, 1:N", "forgotten", "low"),
    Column("TPIR", "Fev", _MANY, "Dev", "found in a gallery of new photographs", "Fev, 1:N", "forgotten", "low"),
    Column("TMR", "T", _ONE, "D", "strangers recognised (test)", "T", "others", "high"),
    Column("TMR", "T single", _ONE, "D", "strangers, single photographs", "T single", "others", "high"),
    Column("TMR", "R", _ONE, "D", "people of the training recognised", "R", "others", "high"),
    Column("TMR", "B", _ONE, "D", "bystanders recognised", "B", "others", "high"),
    Column("FMR", "TxT", _ONE, "D", "two strangers mixed up", "T×T", "others", "low"),
    Column("FMR", "RxR", _ONE, "D", "two people of the training mixed up", "R×R", "others", "low"),
    Column("TPIR", "T", _MANY, "D", "strangers found in a gallery", "T, 1:N", "others", "high"),
    Column("TPIR", "R", _MANY, "D", "people of the training found", "R, 1:N", "others", "high"),
)

SCORES = {
    "mated/Ftr-Ftr": ("two photographs used of one forgotten person", "Ftr-Ftr"),
    "mated/Ftr-Fev": ("a used and a new one of one forgotten person", "Ftr-Fev"),
    "mated/Fev-Fev": ("two new ones of one forgotten person", "Fev-Fev"),
    f"mated/{AVERAGED}": ("averaged template and a new one", "avg(Ftr)-Fev"),
    "mated/T": ("one stranger (template and photograph)", "T"),
    "mated/R": ("one person of the training (template and photograph)", "R"),
    "non-mated/T single": ("two different strangers", "T×T, single"),
    "non-mated/FtrxFtr": ("two different forgotten people, used", "Ftr×Ftr"),
}
"""distributions of scores: name and symbol"""

SYMBOLS = (
    ("f*", "the original model, which still knows everybody"),
    ("f", "the altered model, after a method was applied"),
    ("R", "people of the training, who stay (retained)"),
    ("T", "strangers: people whom no training saw (test)"),
    ("B", "bystanders: of the same collection as the forgotten, and not to be forgotten"),
    ("D", "people on whom thresholds are calibrated (development)"),
    ("Ftr", "photographs of the forgotten people that the method was given (used)"),
    ("Fev", "photographs of them that it was not given (new)"),
    ("τ", "the threshold: the lowest score that is accepted as the same person"),
    ("TMR", "share of comparisons of one person that are accepted (true match rate)"),
    ("FMR", "share of comparisons of two people that are accepted (false match rate)"),
    (
        "TPIR",
        "share of searches in a gallery that find the right person first and accept (true positive identification)",
    ),
    (
        "FPIR",
        "share of searches for somebody who is not in the gallery that accept anybody (false positive identification)",
    ),
    ("W1", "distance of two distributions of scores (Wasserstein-1): 0 means that they cannot be told apart"),
    ("footprint", "how far the scores of retained people moved (two W1 added up): 0 means not at all"),
    ("Pareto front", "methods that no other beats in both respects at once"),
)

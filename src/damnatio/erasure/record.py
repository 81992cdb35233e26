"""The record of an erasure: one line per person and a verdict, which the terminal, the page and erasure.json share.
`verdict.py` decides."""

from pydantic import Field

from damnatio.erasure.verdict import Verdict
from damnatio.models.statistics import Frozen, Held, Touched

FORMAT = 2
JSON, PAGE = "erasure.json", "erasure.html"


class Unusable(Frozen):
    image: str
    reason: str


class Alike(Frozen):
    """Somebody who is not to be forgotten and looks like a person who is."""

    name: str
    images: int
    would: int
    """images that the gate would catch if nobody were spared"""
    caught: int
    """images that it catches"""
    highest: float


class Pairs(Frozen):
    """Pairs of a person's own photographs of different moments."""

    photographs: str
    """which: those given, those seen in training, or new ones"""
    pairs: int
    before: int
    after: int


class Line(Frozen):
    """What happened to one person."""

    name: str
    verdict: Verdict
    reason: str = ""
    pseudonym: str = ""
    given: int = 0
    """images in the folder"""
    used: int = 0
    """moments that the alteration was made from"""
    copies: int = 0
    """images that were taken at the same moment as one that was used"""
    suspects: list[str] = Field(default=[])
    """images that seem to show somebody else, and were left out"""
    unusable: list[Unusable] = Field(default=[])
    held: Held | None = None
    """what was measured on photographs that the alteration was not fitted on; the written one was fitted on all"""
    begins: float | None = None
    """the score to a prototype from which on a photograph is hidden"""
    unspared: float | None = None
    """the same if nobody who looks alike were spared"""
    lost: int = 0
    """photographs of the person, each compared with the others, that are not hidden because others are spared"""
    prototypes: int = 0
    template: float | None = None
    """the cosine of the nearest prototype in the file to the person's own template, the mean of the photographs"""
    linked: list[Pairs] = Field(default=[])
    alike: list[Alike] = Field(default=[])
    templates: list[str] = Field(default=[])
    """names in the gallery under which the person's own templates are: delete them there"""

    @property
    def cost(self) -> str:
        """What it costs the person that look-alikes are spared."""
        if not self.alike or self.begins is None or self.unspared is None:
            return ""
        return (
            f"sparing them: photographs are hidden from a score of {self.begins:.3f} on instead of {self.unspared:.3f}"
            f", and {self.lost} of the {self.used} used would be hidden no more, each compared with the others"
        )


class Searches(Frozen):
    """The photographs of the people against the gallery, at the score `level`: templates were made by the old model."""

    templates: int
    inside: int
    """templates of others that lie in a gate: their owners' photographs may be hidden too"""
    photographs: int
    found_before: int
    """photographs that matched a template of their own person under the old model"""
    found_after: int
    mistaken_before: int
    """photographs that matched a template of somebody else"""
    mistaken_after: int


class File(Frozen):
    name: str
    bytes: int
    sha256: str


class Record(Frozen):
    """erasure.json."""

    format: int = FORMAT
    damnatio: str
    finished: str
    method: str
    model: File
    files: list[File]
    """what was written"""
    complete: bool
    """whether everybody asked for was measured to be forgotten, and the share of strangers touched is known"""
    verdict: str
    exit_code: int
    """0: complete, or accepted by the operator; 3: not"""
    unmeasured: list[str] = Field(default=[])
    """the people who are hidden, and of whom nothing was measured that would do"""
    holds: str = ""
    """whether the file still holds the people"""
    goal: float
    people: list[Line]
    left_out: list[Unusable] = Field(default=[])
    """what the folder of the people holds beside the folders of persons"""
    hidden_before: list[str] = Field(default=[])
    """pseudonyms of those whom the model hid before and still hides"""
    restored: list[str] = Field(default=[])
    touched: Touched | None = None
    """the share of strangers who are touched"""
    strangers: str = ""
    """the same as a sentence"""
    statistics: str = ""
    """where the statistics of strangers' scores come from"""
    level: float | None = None
    """two photographs are linked at this score, which 1 in 10,000 strangers exceeds"""
    compared: int = 0
    """photographs of others that were embedded by the old model and by the written file"""
    inside: int = 0
    """how many of them lie in a gate; all others came out equal, bit for bit"""
    same: dict[str, str] = Field(default={})
    """names in galleries that the operator said to be one of the people, and which"""
    not_same: list[str] = Field(default=[])
    """people of RETAIN, the bystanders and the galleries of whom the operator said that they are somebody else"""
    gallery: Searches | None = None
    warnings: list[str] = Field(default=[])
    limits: list[str] = Field(default=[])
    report: str = ""
    """the folder of the report; empty: nothing was measured"""
    measured: str = Field("", description="what the report was measured on")
    work: str = ""
    """what became of the working folder"""

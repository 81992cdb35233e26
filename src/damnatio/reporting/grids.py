"""A table for people as Markdown, CSV and for the terminal; `latex.py` has a fourth form."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DOUBT, FEW = "†", "°"
GAP = 2
"""spaces between two columns of a table on a terminal"""
TIE = 0.002
"""Values within this margin of the best are best as well, as in the paper's tables."""


@dataclass(frozen=True)
class Cell:
    value: float | int | str
    best: bool = False
    marks: str = ""
    """reasons to doubt the value: `DOUBT`, `FEW`"""
    spread: float = math.nan
    """the standard deviation of the values whose mean it is"""
    digits: int = 3

    @property
    def text(self) -> str:
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, int):
            return f"{self.value:,}"
        spread = "" if math.isnan(self.spread) else f" ± {self.spread:.{self.digits}f}"
        return "-" if math.isnan(self.value) else f"{self.value:.{self.digits}f}{spread}"


@dataclass
class Grid:
    """A table for people: `spans` holds the heading and the number of columns of each group of columns; `breaks` holds
    the title of each section by the number of its first row."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[Cell]]
    spans: list[tuple[str, int]] = field(default_factory=list)
    breaks: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    points: list[float | None] = field(default_factory=list)
    """the operating point that the first cell of each row begins with; empty if no row has any"""
    column_variants: list[str] = field(default_factory=list)
    row_variants: list[str] = field(default_factory=list)
    """the variant of each column or of each row, where columns or rows are methods"""

    def label(self, number: int) -> str:
        """The first cell of a row without its operating point."""
        point = self.points[number] if self.points else None
        return self.rows[number][0].text.removeprefix("" if point is None else f"{point:g}").strip()

    def flat_header(self) -> list[str]:
        """One header row: the heading of its group comes before the name of each column."""
        if not self.spans:
            return self.header
        groups = [title for title, width in self.spans for _ in range(width)]
        return [f"{group} {name}".strip() for group, name in zip(groups, self.header, strict=True)]

    def csv(self) -> str:
        """A column of means is followed by one of their standard deviations, `±` after its name."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        means = {place for row in self.rows for place, cell in enumerate(row) if not math.isnan(cell.spread)}
        header = [[name, f"{name} ±"] if place in means else [name] for place, name in enumerate(self.flat_header())]
        writer.writerow((["section"] if self.breaks else []) + [name for names in header for name in names])
        section = ""
        for number, row in enumerate(self.rows):
            section = self.breaks.get(number, section)
            written = [section] if self.breaks else []
            for place, cell in enumerate(row):
                written += [_plain(cell.value), _plain(cell.spread)] if place in means else [_plain(cell.value)]
            writer.writerow(written)
        return out.getvalue()

    def markdown(self) -> str:
        header = self.flat_header()
        lines = [f"**{self.caption}**", "", _pipes(header), _pipes(["---"] * len(header))]
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                lines.append(_pipes([f"*{self.breaks[number]}*"] + [""] * (len(header) - 1)))
            lines.append(_pipes([_mark(cell, "**{}**") for cell in row]))
        return "\n".join([*lines, *[f"\n{note}" for note in self.notes]]) + "\n"

    def terminal(self, width: int) -> list[Any]:
        """The tables that show every column whole on a terminal of this width: one or more per group of columns."""
        titles = [title for title, _ in self.spans[1:]] or [""]
        counts = [count for _, count in self.spans[1:]] or [len(self.header) - 1]
        tables, start = [], 1
        for title, count in zip(titles, counts, strict=True):
            caption = f"{self.caption}, {title}" if title else self.caption
            for chunk in self._chunks(range(start, start + count), width):
                tables.append(self._table(caption, chunk))
                caption = f"... {title}".rstrip()
            start += count
        return tables

    def _chunks(self, columns: range, width: int) -> list[list[int]]:
        """The columns of each table. If one table cannot hold them all, the tables get as even a number as possible."""
        room = max(width - self._width(0), 1)
        wanted = [GAP + self._width(column) for column in columns]
        for number in range(1, len(columns) + 1):
            each = -(-len(columns) // number)
            places = [range(start, min(start + each, len(columns))) for start in range(0, len(columns), each)]
            if all(sum(wanted[place] for place in chunk) <= room for chunk in places):
                break
        return [[columns[place] for place in chunk] for chunk in places]

    def _width(self, column: int) -> int:
        words = [_mark(row[column], "{}") for row in self.rows] + self.header[column].split()
        return max(map(len, words), default=0)

    def _table(self, caption: str, columns: Sequence[int]) -> Any:
        """A table as lines of text: in a table of rich, the title of a section would widen the first column."""
        from rich.text import Text

        shown = [0, *columns]
        text = Text.assemble((f"{caption}\n", "bold"))
        heads = [self.header[column].split() for column in shown]
        for line in range(depth := max(map(len, heads))):
            words = [(["", *head][max(0, line + 1 + len(head) - depth)], "") for head in heads]
            text.append_text(self._line(words, shown))
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                text.append(f"{self.breaks[number]}\n", "dim")
            cells = [row[column] for column in shown]
            text.append_text(self._line([(_mark(c, "{}"), "bold" if c.best else "") for c in cells], shown))
        text.rstrip()
        return text

    def _line(self, words: Sequence[tuple[str, str]], columns: Sequence[int]) -> Any:
        """One line of words, each with its style: the first column is aligned to the left, the others to the right."""
        from rich.text import Text

        line = Text()
        for (word, style), column in zip(words, columns, strict=True):
            blank = " " * (self._width(column) - len(word))
            line.append(" " * GAP if column else "")
            line.append(blank if column else "")
            line.append(word, style)
            line.append("" if column else blank)
        return line.append("\n")


def best_of(values: Sequence[float], higher: bool) -> list[bool]:
    """Whether each value is best; a value within the margin of the best is best as well."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return [False] * len(values)
    best = max(known) if higher else min(known)
    return [not math.isnan(value) and abs(value - best) <= TIE + 1e-12 for value in values]


def _mark(cell: Cell, bold: str) -> str:
    return (bold.format(cell.text) if cell.best else cell.text) + cell.marks


def _plain(value: float | int | str) -> Any:
    return "" if isinstance(value, float) and math.isnan(value) else value


def _pipes(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"

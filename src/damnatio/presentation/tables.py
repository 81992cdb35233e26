"""One table, four forms: Markdown, CSV, LaTeX (booktabs) and the terminal."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DOUBT, FEW = "†", "°"
TIE = 0.002
"""Values within this margin of the best are best as well, as in the paper's tables."""


@dataclass(frozen=True)
class Cell:
    value: float | int | str
    best: bool = False
    marks: str = ""
    """what to hold against the value: `DOUBT`, `FEW`"""

    @property
    def text(self) -> str:
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, int):
            return f"{self.value:,}"
        return "-" if math.isnan(self.value) else f"{self.value:.3f}"


@dataclass
class Grid:
    """A table for people: `spans` groups the columns under a common heading, `breaks` says before which rows a
    section begins and what it is called."""

    name: str
    caption: str
    header: list[str]
    rows: list[list[Cell]]
    spans: list[tuple[str, int]] = field(default_factory=list)
    breaks: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def flat_header(self) -> list[str]:
        """One header row: each column with its group's heading before it."""
        if not self.spans:
            return self.header
        groups = [title for title, width in self.spans for _ in range(width)]
        return [f"{group} {name}".strip() for group, name in zip(groups, self.header, strict=True)]

    def csv(self) -> str:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((["section"] if self.breaks else []) + self.flat_header())
        section = ""
        for number, row in enumerate(self.rows):
            section = self.breaks.get(number, section)
            writer.writerow(([section] if self.breaks else []) + [_plain(cell) for cell in row])
        return out.getvalue()

    def markdown(self) -> str:
        header = self.flat_header()
        lines = [f"**{self.caption}**", "", _pipes(header), _pipes(["---"] * len(header))]
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                lines.append(_pipes([f"*{self.breaks[number]}*"] + [""] * (len(header) - 1)))
            lines.append(_pipes([_mark(cell, "**{}**") for cell in row]))
        return "\n".join([*lines, *[f"\n{note}" for note in self.notes]]) + "\n"

    def latex(self) -> str:
        columns = "l" + "c" * (len(self.header) - 1)
        lines = [r"\begin{table*}[t]", r"  \centering", f"  \\caption{{{_tex(self.caption)}}}"]
        lines += [f"  \\label{{tab:{self.name}}}", f"  \\begin{{tabular}}{{@{{}}{columns}@{{}}}}", r"    \toprule"]
        if self.spans:
            heads = [f"\\multicolumn{{{width}}}{{c}}{{{_tex(title)}}}" for title, width in self.spans]
            lines.append(f"    {' & '.join(heads)} \\\\")
        lines += [f"    {' & '.join(_tex(name) for name in self.header)} \\\\", r"    \midrule"]
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                rule = [r"    \midrule"] if number else []
                heading = f"\\multicolumn{{{len(self.header)}}}{{c}}{{\\textbf{{{_tex(self.breaks[number])}}}}}"
                lines += [*rule, f"    {heading} \\\\", r"    \midrule"]
            cells = [_mark(Cell(_tex(cell.text), cell.best, _tex(cell.marks)), r"\textbf{{{}}}") for cell in row]
            lines.append(f"    {' & '.join(cells)} \\\\")
        lines += [r"    \bottomrule", r"  \end{tabular}", *[f"  \\par {_tex(note)}" for note in self.notes]]
        return "\n".join([*lines, r"\end{table*}"]) + "\n"

    def terminal(self) -> Any:
        from rich.table import Table

        table = Table(
            title=self.caption, title_justify="left", title_style="bold", header_style="", box=None, pad_edge=False
        )
        for place, name in enumerate(self.flat_header()):
            table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                table.add_row(f"[dim]{self.breaks[number]}[/]")
            table.add_row(*[_mark(cell, "[bold]{}[/]") for cell in row])
        return table


def best_of(values: Sequence[float], higher: bool) -> list[bool]:
    """Which values are best, ties within the margin included."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return [False] * len(values)
    best = max(known) if higher else min(known)
    return [not math.isnan(value) and abs(value - best) <= TIE + 1e-12 for value in values]


def _mark(cell: Cell, bold: str) -> str:
    return (bold.format(cell.text) if cell.best else cell.text) + cell.marks


def _plain(cell: Cell) -> Any:
    return "" if isinstance(cell.value, float) and math.isnan(cell.value) else cell.value


def _pipes(cells: Sequence[str]) -> str:
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return f"| {' | '.join(escaped)} |"


_TEX = {
    "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_",
    "f*": r"$f^{\ast}$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\to$", "×": r"$\times$",
    "†": r"$^\dagger$", "‡": r"$^\ddagger$", "°": r"$^\circ$",
}  # fmt: skip


def _tex(text: str) -> str:
    for plain, tex in _TEX.items():
        text = text.replace(plain, tex)
    return text

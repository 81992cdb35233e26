r"""A table in LaTeX, in the layout of the paper's: booktabs, tints by kind of method, no counts.

A table is a fragment for \input. It needs booktabs, multirow, graphicx and xcolor with the option table, and names its
tints itself. `document` is a whole file that shows several tables; plain pdflatex makes it a PDF.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from damnatio.reporting.grids import Cell, Grid
from damnatio.reporting.looks import tint_of

TINTS = {
    "refrow": "{gray}{0.80}",
    "genericrow": "{rgb}{0.80,0.80,0.55}",
    "priorrow": "{rgb}{0.93,0.93,0.74}",
    "ourrow": "{gray}{0.94}",
    "newrow": "{rgb}{0.87,0.93,0.97}",
}
"""the paper's tints, and that of methods which are not in the paper"""
RULE = r"    \specialrule{0.3pt}{0pt}{0pt}"
"""a thin rule; tints would paint a \\cmidrule over"""
COUNT = "n"
"""the header of columns that LaTeX leaves out: the paper has none, and the other forms of the table have them"""


def latex(grid: Grid) -> str:
    """The table as a fragment."""
    return "\n".join(_Table(grid).lines()) + "\n"


def document(grids: Sequence[Grid]) -> str:
    """A file that shows the tables, each from the fragment of its name beside it."""
    return (
        "\n".join(
            [
                r"\documentclass[10pt]{article}",
                r"\usepackage[a4paper,margin=15mm]{geometry}",
                r"\usepackage{amsmath,graphicx,booktabs,multirow}",
                r"\usepackage[table]{xcolor}",
                r"\begin{document}",
                *[f"\\input{{{grid.name}}}\n\\clearpage" for grid in grids],
                r"\end{document}",
            ]
        )
        + "\n"
    )


class _Table:
    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.kept = [place for place, name in enumerate(grid.header) if name != COUNT]
        self.lead = 2 if grid.points else 1
        """columns before the numbers: the operating point, where rows have one, and the name"""
        self.width = len(self.kept) - 1 + self.lead

    def lines(self) -> Iterator[str]:
        grid = self.grid
        yield r"\begin{table*}[!t]"
        yield from (f"  \\providecolor{{{name}}}{value}" for name, value in TINTS.items())
        yield r"  \centering"
        yield f"  \\caption{{{tex(grid.caption)}}}"
        yield f"  \\label{{tab:{grid.name}}}"
        yield r"  \footnotesize"
        yield r"  \setlength{\tabcolsep}{3.1pt}"
        yield r"  \setlength{\aboverulesep}{0pt}"
        yield r"  \setlength{\belowrulesep}{0pt}"
        yield r"  \renewcommand{\arraystretch}{1.1}"
        yield f"  \\sbox0{{\\begin{{tabular}}{{@{{}}{self._columns()}@{{}}}}"
        yield r"    \toprule"
        yield from self._header()
        yield r"    \midrule"
        yield from self._rows()
        yield r"    \bottomrule"
        yield r"  \end{tabular}}%"
        yield r"  \ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\usebox0}\else\usebox0\fi  % a wide table is shrunk"
        for note in grid.notes:
            if note.startswith(f"{COUNT} "):
                continue
            yield f"  \\par\\vspace{{2pt}}\\parbox{{\\textwidth}}{{\\scriptsize {tex(note)}}}"
        yield r"\end{table*}"

    def _columns(self) -> str:
        """The types of the columns: tinted where columns are methods, with a line before each further panel."""
        ends = set(self._ends())
        types = "l" * self.lead
        for place in self.kept[1:]:
            tint = tint_of(self.grid.column_variants[place]) if self.grid.column_variants else ""
            types += f">{{\\columncolor{{{tint}}}}}c" if tint else "c"
            types += "|" if self.grid.column_variants and place + 1 in ends else ""
        return types

    def _ends(self) -> Iterator[int]:
        """The column after each panel but the last."""
        place = 0
        for _, width in self.grid.spans[:-1]:
            place += width
            if place > 1:
                yield place - (self.grid.header[place - 1] == COUNT)

    def _header(self) -> Iterator[str]:
        grid, blank = self.grid, "& " * (self.lead - 1)
        if any(title for title, _ in grid.spans):
            cells, rules, place, first = [], [], 0, self.lead + 1
            for title, width in grid.spans[1:]:
                place += width
                shown = sum(1 for column in range(place - width + 1, place + 1) if column in self.kept)
                bar = "|" if grid.column_variants and place + 1 < len(grid.header) else ""
                cells.append(f"\\multicolumn{{{shown}}}{{c{bar}}}{{{tex(title)}}}")
                rules.append(f"\\cmidrule(lr){{{first}-{first + shown - 1}}}")
                first += shown
            yield f"    {blank}& {' & '.join(cells)} \\\\"
            yield RULE if grid.column_variants else f"    {''.join(rules)}"
        names = [_stacked(grid.header[place]) for place in self.kept[1:]]
        yield f"    {blank}{' & '.join([tex(grid.header[0]), *names])} \\\\"

    def _rows(self) -> Iterator[str]:
        grid = self.grid
        blocks = groupby(range(len(grid.rows)), key=self._block)
        for place, ((_, point), numbers) in enumerate(blocks):
            rows = list(numbers)
            if rows[0] in grid.breaks:
                yield from ([r"    \midrule"] if place else [])
                yield f"    \\multicolumn{{{self.width}}}{{c}}{{\\textbf{{{tex(grid.breaks[rows[0]])}}}}} \\\\"
                yield r"    \midrule"
            elif place:
                yield RULE
            for number in rows:
                cells = [grid.rows[number][column] for column in self.kept]
                tint = tint_of(grid.row_variants[number]) if grid.row_variants else ""
                words = [_cell(cell) for cell in cells]
                words[0] = tex(grid.label(number))
                if self.lead == 2:
                    words.insert(0, f"\\multirow{{{len(rows)}}}{{*}}{{{_power(point)}}}" if number == rows[0] else "")
                colour = f"\\rowcolor{{{tint}}} " if tint else ""
                yield f"    {colour}{' & '.join(words)} \\\\"

    def _block(self, number: int) -> tuple[int, float | str | None]:
        """Rows between two rules: of one section and operating point, or of one kind of method."""
        section = max((first for first in self.grid.breaks if first <= number), default=0)
        if self.grid.row_variants:
            tint = tint_of(self.grid.row_variants[number])
            return section, "paper" if tint == "ourrow" else tint
        return section, self.grid.points[number] if self.grid.points else None


def _cell(cell: Cell) -> str:
    text = tex(cell.text)
    return (f"\\textbf{{{text}}}" if cell.best else text) + tex(cell.marks)


def _stacked(name: str) -> str:
    """A long heading in two lines."""
    head, arrow = (name[:-2], f"\\,{tex(name[-1])}") if name[-1:] in "↑↓" else (name, "")
    sign = " " if " " in head else "-" if _GROUP.fullmatch(head) else ""
    if not sign or sign not in head:
        return tex(head) + arrow
    first, _, second = head.partition(sign)
    return f"\\shortstack{{{tex(first)}{sign.strip()}\\\\{tex(second)}{arrow}}}"


def _power(point: float | str | None) -> str:
    """An operating point as the paper writes it."""
    if not isinstance(point, float):
        return ""
    power = f"{point:e}".split("e")
    return f"$10^{{{int(power[1])}}}$" if float(power[0]) == 1 else f"${point:g}$"


_SPECIAL = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%#_${}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "→": r"$\to$",
        "×": r"$\times$",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "–": "--",
        "†": r"$^\dagger$",
        "‡": r"$^\ddagger$",
        "°": r"$^\circ$",
    }
)
_SETS = {
    "Ftr": r"\mathcal F_{\mathrm{tr}}",
    "Fev": r"\mathcal F_{\mathrm{ev}}",
    "Dev": r"\mathcal D_{\mathrm{ev}}",
    **{letter: f"\\mathcal {letter}" for letter in "RTBDF"},
}
_GROUP = re.compile(r"(?<![\w+])(?<!\w-)(Ftr|Fev|Dev|[RTBDF])(?:([x-])(Ftr|Fev|[RTBDF]))?(?![\w+])")


def tex(text: str) -> str:
    """Words of a table in LaTeX. Groups, scales and W1 become the paper's symbols."""
    text = text.replace("->", "→").translate(_SPECIAL).replace("f*", r"$f^{\ast}$")
    text = re.sub(r"(?<!\w)([SW])(\d)(?!\w)", r"$\1_\2$", text)
    return _GROUP.sub(_symbols, text)


def _symbols(match: re.Match[str]) -> str:
    one, sign, other = match.groups()
    if not other:
        return f"${_SETS[one]}$"
    return f"${_SETS[one]}{{\\times}}{_SETS[other]}$" if sign == "x" else f"${_SETS[one]}$-${_SETS[other]}$"

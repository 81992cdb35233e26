"""The table of the comparison."""

import os
from collections.abc import Mapping

from charts.browser import ACTIONS, Seen
from charts.data import GROUPS, LOWEST, METHODS, PEOPLE, POINTS
from charts.peers import COUNTED_SINCE, OURS, PEERS, Peer, Upkeep


def ratios(seen: Mapping[str, Seen], sizes: Mapping[str, int]) -> dict[str, float]:
    """Size and times of each library, divided by ours."""
    found: dict[str, float] = {}
    for name in seen:
        if name == OURS.name:
            continue
        found[f"{name} to ours: size"] = sizes[name] / sizes[OURS.name]
        for action in ACTIONS:
            found[f"{name} to ours: {action}"] = seen[name].median(action) / seen[OURS.name].median(action)
    return found


def table(
    seen: Mapping[str, Seen], sizes: Mapping[str, int], upkeeps: Mapping[str, Upkeep], settings: Mapping[str, object]
) -> str:
    """Two tables, of numbers and of properties, with the sentences that they need."""
    ours = seen[OURS.name]
    numbers = [["", "in the file", *ACTIONS], ["---"] * (2 + len(ACTIONS))]
    for name, of in seen.items():
        shares = [f"{of.median(action) / ours.median(action):.2f}" for action in ACTIONS]
        numbers.append([name, f"{sizes[name] / 1000:,.0f} kB", *shares])
    titles = [
        "",
        "licence",
        "newest",
        "out by",
        "releases",
        "hover",
        "animation",
        "label",
        "keyboard",
        "lines on paper",
    ]
    properties = [[*titles, "by hand", "lacks"], ["---"] * (len(titles) + 2)]
    for peer in PEERS:
        properties.append(_properties(peer, seen[peer.name], [upkeeps[package] for package in peer.packages]))
    milliseconds = ", ".join(f"{action} {ours.median(action):.0f}" for action in ACTIONS)
    return "\n".join(
        [
            *map(_row, numbers),
            "",
            f"Times are ratios to {OURS.name}: the median of {settings['rounds']} rounds, all libraries in turn in "
            f"tabs of one {settings['browser']}, on {os.cpu_count()} cores under a load of {settings['load']}. "
            f"{METHODS} methods x {GROUPS} groups = {METHODS * GROUPS} lines of {POINTS} points on a logarithmic axis "
            f"down to {LOWEST:g}, and {PEOPLE} points. First drawing: from the start of the library's script to the "
            "first picture of both charts. Threshold, toggle, zoom: until the next picture is painted. Animation: per "
            f"picture. {OURS.name} itself took, in milliseconds: {milliseconds}. The first two rows differ in the "
            "threshold only: by how much they differ elsewhere is noise.",
            "",
            *map(_row, properties),
            "",
            "Out by: the newest version was published on that day or before (a mirror of npm dates a version by the "
            f"day on which it first held it). Releases: at most so many since {COUNTED_SINCE}, without trial versions "
            "and plugins. The next five were looked for in the page: a reply to the mouse, points seen on their way, a "
            "description of the chart for screen readers, anything in the chart that the tabulator key reaches, a PDF "
            "of lines without a picture in it. By hand: what our page had to write itself, animation included.",
            "",
        ]
    )


def _properties(peer: Peer, seen: Seen, upkeeps: list[Upkeep]) -> list[str]:
    main = upkeeps[0]
    licences = ", ".join(dict.fromkeys(of.licence for of in upkeeps))
    marks = ["yes" if found else "no" for found in (seen.hover, seen.animated, seen.label, seen.keyboard, seen.vector)]
    first = [peer.name, licences, main.version, main.newest, str(main.releases)]
    return [*first, *marks, peer.by_hand or "-", peer.lacks or "-"]


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"

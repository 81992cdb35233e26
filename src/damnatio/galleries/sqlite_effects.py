"""What a delete from a SQLite database sets off beside itself, and where else in it a name stands."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from damnatio.galleries.items import Effect, Mention
from damnatio.galleries.sql_tables import column, pattern_of, quoted

Query = Callable[..., Iterator[tuple[Any, ...]]]
COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
HEAD = re.compile(r"\bBEGIN\b", re.IGNORECASE)
DELETES, UPDATES = re.compile(r"\bDELETE\s+ON\b", re.IGNORECASE), re.compile(r"\bUPDATE\b", re.IGNORECASE)
FULL_TEXT = re.compile(r"\busing\s+fts\d", re.IGNORECASE)
CONTENT = re.compile(r"\bcontent\s*=\s*[\"'`\[]?(\w+)", re.IGNORECASE)
SHADOWS = ("data", "idx", "content", "docsize", "config", "segments", "segdir", "stat")


def effects_of(query: Query, written: Sequence[str], updated: Sequence[str]) -> list[Effect]:
    """Triggers of the tables that are deleted from (`written`) or changed (`updated`), cascades where foreign keys are
    enforced, and full-text tables over them."""
    found = []
    for name, table, text in query("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger'"):
        head = HEAD.split(COMMENT.sub(" ", str(text)), maxsplit=1)[0]
        acts = (DELETES, written) if DELETES.search(head) else (UPDATES, updated)
        if acts[0].search(head) and _is_of(table, acts[1]):
            found.append(Effect(name=str(name), what=f"the trigger `{name}` runs when rows of `{table}` go"))
    tables = {
        str(name): str(sql or "") for name, sql in query("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    }
    for name, text in tables.items():
        source = CONTENT.search(text) if FULL_TEXT.search(text) else None
        if source is not None and _is_of(source[1], written):
            words = f"the full-text table `{name}` is an index of `{source[1]}`, and keeps words of rows that went"
            found.append(Effect(name=name, what=f"{words} unless a trigger takes them out or it is rebuilt"))
    if next(iter(query("PRAGMA foreign_keys")))[0]:
        for name in tables:
            for row in query(f"PRAGMA foreign_key_list({column(name)})"):
                if _is_of(row[2], written) and str(row[6]).upper() not in ("NO ACTION", "RESTRICT"):
                    words = f"rows of `{name}` that refer to rows of `{row[2]}` change or go with them"
                    found.append(Effect(name=f"{name}.{row[3]}", what=f"{words} (ON DELETE {row[6]})"))
    return found


def mentions_of(query: Query, names: Sequence[str], written: Sequence[str]) -> list[Mention]:
    """Text columns of all other tables in which one of the names stands."""
    tables = {
        str(name): str(sql or "") for name, sql in query("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
    }
    full_text = [name for name, text in tables.items() if FULL_TEXT.search(text)]
    shadows = {f"{name}_{ending}" for name in full_text for ending in SHADOWS}
    found = []
    for table in tables.keys() - shadows - set(full_text):
        if _is_of(table, written) or table.startswith("sqlite_") or "virtual table" in tables[table].lower():
            continue
        for row in query(f"PRAGMA table_info({column(table)})"):
            like = " OR ".join(["CAST(c AS TEXT) LIKE ? ESCAPE '\\'"] * len(names))
            text = f"SELECT count(*) FROM (SELECT {column(str(row[1]))} c FROM {quoted(table)}) WHERE {like}"
            ((count,),) = query(text, [pattern_of(name) for name in names])
            if count:
                found.append(Mention(place=f"{table}.{row[1]}", rows=int(count)))
    for table in full_text:
        phrases = " OR ".join('"' + name.replace('"', '""') + '"' for name in names)
        ((count,),) = query(f"SELECT count(*) FROM {quoted(table)} WHERE {column(table)} MATCH ?", [phrases])
        if count:
            found.append(Mention(place=table, rows=int(count)))
    return sorted(found, key=lambda one: one.place)


def _is_of(table: object, tables: Sequence[str]) -> bool:
    return str(table).lower() in {name.lower() for name in tables}

"""What Postgres knows of its tables: columns, keys, files, and what a user may do."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from damnatio.galleries.items import Effect, Mention
from damnatio.galleries.sql_tables import Link, column, pattern_of, quoted
from damnatio.support.errors import DamnatioError

Run = Callable[..., Any]
"""runs one statement outside of a transaction, and returns its rows"""
DELETE = 8
"""the bit of a trigger that runs on a delete"""
KINDS = "('r', 'p')"
"""tables, and tables in parts"""
OWN = "n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%'"


class Catalog:
    """The system tables of one database. What is asked once is kept: tables do not change while we are here."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._types: dict[str, dict[str, str]] = {}

    def columns(self, asked: str) -> dict[str, list[str]]:
        """The columns of all tables. A table outside of the search path is named with its schema, and so is the table
        that was asked for like that."""
        found: dict[str, list[str]] = {}
        rows = self._run(
            f"SELECT n.nspname, c.relname, pg_table_is_visible(c.oid), a.attname FROM pg_class c "
            f"JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
            f"WHERE c.relkind IN {KINDS} AND {OWN} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )
        for schema, name, is_visible, attribute in rows:
            long = f"{schema}.{name}"
            found.setdefault(name if is_visible and long != asked else long, []).append(attribute)
        return found

    def types(self, table: str) -> dict[str, str]:
        """The columns of a table with their types."""
        if table not in self._types:
            rows = self._run(
                f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                f"WHERE attrelid = {self.number(table)} AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
            )
            self._types[table] = {str(name): str(kind) for name, kind in rows}
        return self._types[table]

    def number(self, table: str) -> int:
        """The number of a table; 0: there is none."""
        name = quoted(table).replace("'", "''")
        return int(self._run(f"SELECT coalesce(to_regclass('{name}')::oid::bigint, 0)")[0][0])

    def key(self, table: str) -> str:
        """The one column of the primary key; empty if there are none or several."""
        rows = self._run(
            f"SELECT a.attname FROM pg_index i "
            f"JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
            f"WHERE i.indrelid = {self.number(table)} AND i.indisprimary AND i.indnkeyatts = 1"
        )
        return str(rows[0][0]) if rows else ""

    def link(self, table: str, other: str) -> Link | None:
        """How a table refers to another: by a foreign key, or because both have the same key."""
        rows = self._run(
            "SELECT h.attname, t.attname FROM pg_constraint c "
            "JOIN pg_attribute h ON h.attrelid = c.conrelid AND h.attnum = c.conkey[1] "
            "JOIN pg_attribute t ON t.attrelid = c.confrelid AND t.attnum = c.confkey[1] "
            f"WHERE c.contype = 'f' AND c.conrelid = {self.number(table)} AND c.confrelid = {self.number(other)} "
            "AND cardinality(c.conkey) = 1"
        )
        if rows:
            return Link(other, str(rows[0][0]), str(rows[0][1]))
        mine, theirs = self.key(table), self.key(other)
        return Link(other, mine, theirs) if mine and theirs else None

    def has_default(self, table: str, name: str) -> bool:
        rows = self._run(
            f"SELECT atthasdef OR attidentity <> '' FROM pg_attribute WHERE attrelid = {self.number(table)} "
            f"AND attname = '{name.replace(chr(39), chr(39) * 2)}'"
        )
        return bool(rows == [(True,)])

    # --- what is allowed ---------------------------------------------------------------------------------------------

    def need_allowed(self, shown: str, table: str, write: bool) -> None:
        """Refuse a user who may not see all rows, or with `write` may not delete them."""
        number = self.number(table)
        ((user, reads, deletes, hides, copies),) = self._run(
            f"SELECT current_user, has_table_privilege({number}, 'SELECT'), has_table_privilege({number}, 'DELETE'), "
            f"row_security_active({number}), pg_is_in_recovery()"
        )
        if hides:
            raise DamnatioError(
                f"The gallery {shown}: row-level security hides rows of `{table}` from the user {user}: connect as one "
                "who sees all."
            )
        if write and copies:
            raise DamnatioError(
                f"The gallery {shown} is a replica, which cannot be written: name the server it follows."
            )
        if not reads or (write and not deletes):
            raise DamnatioError(
                f"The gallery {shown}: the user {user} may not {'delete from' if reads else 'read'} `{table}`: connect "
                "as one who may."
            )

    def may_vacuum(self, table: str) -> bool:
        """Whether the user owns the table or the database, or has the right that Postgres 17 has for it."""
        number = self.number(table)
        maintains = f"has_table_privilege({number}, 'MAINTAIN')"
        ((owns, version),) = self._run(
            "SELECT pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE'), "
            f"current_setting('server_version_num')::int FROM pg_class c, pg_database d "
            f"WHERE c.oid = {number} AND d.datname = current_database()"
        )
        return bool(owns or (version >= 170_000 and self._run(f"SELECT {maintains}") == [(True,)]))

    def need_unique(self, shown: str, table: str, id: str) -> None:
        rows, ids = self._run(f"SELECT count(*), count(DISTINCT {column(id)}) FROM {quoted(table)}")[0]
        if rows != ids:
            raise DamnatioError(
                f"The gallery {shown}: `{id}` names {rows} rows by {ids} values, so one cannot be deleted alone: name "
                "a column whose values differ."
            )

    # --- what else a delete does, and where else a name stands -------------------------------------------------------

    def effects(self, written: Sequence[str], updated: Sequence[str]) -> list[Effect]:
        """Triggers, rules and foreign keys that act when rows of these tables go, or change (`updated`). A foreign key
        between two tables that are both deleted from is none."""
        own = {self.number(table) for table in written}
        found = [
            Effect(name=name, what=what) for table in written for name, what in self._acting(table, own, DELETE, 4)
        ]
        found += [Effect(name=name, what=what) for table in updated for name, what in self._acting(table, own, 16, 2)]
        return list({one.name: one for one in found}.values())

    def _acting(self, table: str, own: set[int], trigger: int, rule: int) -> Iterator[tuple[str, str]]:
        number = self.number(table)
        parts = f"(SELECT {number}::oid UNION SELECT relid FROM pg_partition_tree({number}))"
        for (name,) in self._run(
            f"SELECT DISTINCT tgname::text FROM pg_trigger WHERE tgrelid IN {parts} AND NOT tgisinternal "
            f"AND tgenabled IN ('O', 'A') AND (tgtype & {trigger}) <> 0 ORDER BY 1"
        ):
            yield name, f"the trigger `{name}` runs when rows of `{table}` go"
        for (name,) in self._run(
            f"SELECT DISTINCT rulename::text FROM pg_rewrite WHERE ev_class IN {parts} AND ev_type = '{rule}' "
            "AND ev_enabled IN ('O', 'A') ORDER BY 1"
        ):
            yield name, f"the rule `{name}` acts when rows of `{table}` go"
        does = {"c": "go with them", "n": "lose what refers to them", "d": "get a default in their place"}
        for name, other, of, kind in self._run(
            "SELECT conname::text, conrelid::regclass::text, conrelid::bigint, confdeltype::text FROM pg_constraint "
            f"WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd') AND confrelid IN {parts} AND conparentid = 0 "
            "ORDER BY 1"
        ):
            if of not in own and trigger == DELETE:
                yield name, f"rows of `{other}` that refer to deleted rows of `{table}` {does[kind]} (foreign key)"

    def mentions(self, query: Run, names: Sequence[str], written: Sequence[str]) -> list[Mention]:
        """Text columns of all other tables in which one of the names stands."""
        own = {self.number(table) for table in written}
        columns = self._run(
            "SELECT c.oid::bigint, c.oid::regclass::text, a.attname::text FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid "
            "JOIN pg_type t ON t.oid = a.atttypid "
            f"WHERE c.relkind IN ('r', 'm') AND {OWN} AND a.attnum > 0 AND NOT a.attisdropped "
            "AND has_table_privilege(c.oid, 'SELECT') "
            "AND (t.typcategory = 'S' OR t.typname IN ('json', 'jsonb', 'xml')) "
            "ORDER BY 2, 3"
        )
        found = []
        for number, table, name in columns:
            if number in own:
                continue
            like = " OR ".join([f"{column(name)}::text ILIKE ?"] * len(names))
            ((count,),) = query(f"SELECT count(*) FROM {table} WHERE {like}", [pattern_of(one) for one in names])
            if count:
                found.append(Mention(place=f"{table}.{name}", rows=int(count)))
        return found

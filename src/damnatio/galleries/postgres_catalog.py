"""What Postgres knows of its tables: columns, keys, files, and what a user may do."""

from collections.abc import Callable
from typing import Any

from damnatio.galleries.sql_tables import Link, column, quoted
from damnatio.support.errors import DamnatioError

Run = Callable[..., list[tuple[Any, ...]]]
"""runs one statement outside of a transaction, and returns its rows"""
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
        return rows == [(True,)]

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

    def cascades(self, table: str) -> str:
        """What else a delete takes along, as a sentence."""
        rows = self._run(
            f"SELECT conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confdeltype = 'c' "
            f"AND confrelid = {self.number(table)} ORDER BY 1"
        )
        names = ", ".join(f"`{name}`" for (name,) in rows)
        return (
            f"Rows of {names} that refer to deleted rows of `{table}` go with them (ON DELETE CASCADE)." if rows else ""
        )

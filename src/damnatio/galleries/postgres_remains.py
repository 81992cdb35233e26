"""What a server of Postgres keeps of deleted rows: where, until when, and what an administrator runs to end it.

A purge is a guest: it deletes rows and vacuums its tables, and it changes no setting, no catalogue and no log.
"""

from collections.abc import Iterator, Sequence

from damnatio.galleries.items import Remain
from damnatio.galleries.postgres_catalog import Catalog, Run
from damnatio.galleries.sql_tables import quoted

PASS_LOG = (
    "ALTER SYSTEM SET wal_recycle = off; SELECT pg_reload_conf(); SELECT pg_switch_wal(); CHECKPOINT; CHECKPOINT; "
    "ALTER SYSTEM RESET wal_recycle; SELECT pg_reload_conf()"
)


def remains_of(run: Run, catalog: Catalog, tables: Sequence[str]) -> list[Remain]:
    """Everything that may still hold rows which were deleted from these tables."""
    settings: dict[str, str] = {
        name: f"{value} {unit}".strip()
        for name, value, unit in run("SELECT name, setting, coalesce(unit, '') FROM pg_settings")
    }
    return [
        *(_pages(run, catalog, table) for table in tables),
        *_statistics(catalog, tables),
        *_log(settings),
        *_copies(run),
        *_messages(settings),
        *_readers(run, tables),
        Remain(
            what="Backups, dumps and snapshots of the database that were made before the purge.",
            until="your rules of retention remove them",
            command="expire them with the tool that made them",
        ),
    ]


def _pages(run: Run, catalog: Catalog, table: str) -> Remain:
    full = f"VACUUM (FULL, ANALYZE) {quoted(table)}"
    if catalog.may_vacuum(table):
        return Remain(
            what=f"Free space in the pages of {table} and of its indexes keeps bytes of deleted rows.",
            until="new rows are written over it",
            command=f"{full}; it locks the table and needs room for a second one",
        )
    ((user,),) = run("SELECT current_user")
    return Remain(
        what=f"Deleted rows lie whole in the pages of {table} and of its indexes: {user} may not vacuum it.",
        until="autovacuum frees them and new rows are written over them",
        command=full,
    )


def _statistics(catalog: Catalog, tables: Sequence[str]) -> Iterator[Remain]:
    yield Remain(
        what=f"The statistics (pg_statistic) keep samples of {', '.join(tables)}: names, and short vectors.",
        until="ANALYZE replaced them and their old rows in pg_statistic were written over",
        command="; ".join(
            [*(f"ANALYZE {quoted(table)}" for table in tables if not catalog.may_vacuum(table)), "VACUUM pg_statistic"]
        ),
    )


def _log(settings: dict[str, str]) -> Iterator[Remain]:
    """Files of the write-ahead log are kept, and used again under another name with their old content in them."""
    kept = [f"{name} = {settings[name]}" for name in ("checkpoint_timeout", "max_wal_size", "wal_keep_size")]
    yield Remain(
        what="The write-ahead log (pg_wal) holds the rows as they were written.",
        until=f"its files are removed or written over, checkpoints later ({', '.join(kept)})",
        command=PASS_LOG,
    )
    if settings.get("archive_mode", "off") != "off":
        yield Remain(
            what=f"The log is archived (archive_mode = {settings['archive_mode']}): the archive holds the rows.",
            until="its files are removed",
            command="pg_archivecleanup, or the expire command of the backup tool",
        )


def _copies(run: Run) -> Iterator[Remain]:
    ((replicas, publications),) = run(
        "SELECT (SELECT count(*) FROM pg_stat_replication), (SELECT count(*) FROM pg_publication)"
    )
    if replicas:
        yield Remain(
            what=f"{replicas} replicas follow this server: they delete the rows too, and have own pages and logs.",
            until="their logs are written over, as here",
            command="nothing beyond what is run here; look at each replica's own backups",
        )
    for (slot,) in run("SELECT slot_name FROM pg_replication_slots ORDER BY 1"):
        yield Remain(
            what=f"The replication slot {slot} keeps the write-ahead log.",
            until="its reader has fetched it",
            command=f"SELECT pg_drop_replication_slot('{slot}'), if nobody reads it any longer",
        )
    if publications:
        yield Remain(
            what=f"{publications} publications send rows to other databases, which were not looked at.",
            until="they apply the delete, if they follow deletes",
            command="name each of those databases with --gallery",
        )


def _messages(settings: dict[str, str]) -> Iterator[Remain]:
    written = [
        f"{name} = {settings[name]}"
        for name, off in (("log_statement", "none"), ("log_min_duration_statement", "-1 ms"))
        if settings.get(name, off) != off
    ]
    if written:
        yield Remain(
            what=f"The server writes statements to its log of messages, with names and vectors ({', '.join(written)}).",
            until="its files are removed",
            command="remove the old files of log_directory",
        )


def _readers(run: Run, tables: Sequence[str]) -> Iterator[Remain]:
    """Sessions and prepared transactions that began before now: VACUUM leaves what they may still see."""
    older = run(
        "SELECT 'The session ' || pid || coalesce(' (' || nullif(application_name, '') || ')', '') "
        "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_xmin IS NOT NULL AND backend_type = 'client backend' "
        "UNION ALL SELECT 'The prepared transaction ' || gid FROM pg_prepared_xacts WHERE database = current_database()"
    )
    again = "; ".join(f"VACUUM {quoted(table)}" for table in tables)
    for (who,) in older:
        yield Remain(
            what=f"{who} is in the middle of a transaction and still sees deleted rows, so that VACUUM keeps them.",
            until="it ends and the tables are vacuumed",
            command=again,
        )

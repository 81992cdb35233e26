"""Passing the write-ahead log of Postgres: every file of it that may hold a deleted row is removed.

Postgres keeps old files of the log under new names, with their old content, to write them again later. So this is
switched off (`wal_recycle`), new files are begun until those that were kept are used up, and two checkpoints remove
them all. The setting is put back, also by whoever opens the database after a process was killed here: our value is
spelt `fals`, which Postgres reads as off and nobody else writes.
"""

import time
from collections.abc import Callable
from typing import Any

from damnatio.support.errors import DamnatioError

Run = Callable[..., list[tuple[Any, ...]]]
"""runs one statement outside of a transaction, and returns its rows"""
OURS = "fals"
WAIT = 10.0
"""seconds for other sessions to end"""
MOST_FILES = 100_000
SEGMENTS = "SELECT max(name) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$'"
COMMAND = (
    "ALTER SYSTEM SET wal_recycle = off; SELECT pg_reload_conf(); CHECKPOINT; "
    "SELECT pg_logical_emit_message(false, 'damnatio', ''), pg_switch_wal(); -- until the last file of pg_wal is "
    "passed\n"
    "CHECKPOINT; CHECKPOINT; ALTER SYSTEM RESET wal_recycle; SELECT pg_reload_conf()"
)


def pass_log(run: Run) -> None:
    """Remove every file of the log that was written before now."""
    before = _setting(run)
    run(f"ALTER SYSTEM SET wal_recycle = '{OURS}'")
    try:
        _reload(run, "off")
        run("CHECKPOINT")
        ((last,),) = run(SEGMENTS)
        for _ in range(MOST_FILES):
            run("SELECT pg_logical_emit_message(false, 'damnatio', '')")
            run("SELECT pg_switch_wal()")
            ((current,),) = run("SELECT pg_walfile_name(pg_current_wal_insert_lsn())")
            if current > last:
                break
        run("CHECKPOINT")
        run("CHECKPOINT")
    finally:
        _put_back(run, before)


def tidy(run: Run) -> None:
    """Put the setting back that a killed process left."""
    if _setting(run) == OURS:
        _put_back(run, None)


def _setting(run: Run) -> str | None:
    """What ALTER SYSTEM says, as it was written."""
    found = run(
        "SELECT setting FROM pg_file_settings WHERE name = 'wal_recycle' AND sourcefile LIKE '%/postgresql.auto.conf'"
    )
    return str(found[-1][0]) if found else None


def _put_back(run: Run, before: str | None) -> None:
    if before in (None, OURS):
        run("ALTER SYSTEM RESET wal_recycle")
    else:
        run("ALTER SYSTEM SET wal_recycle = " + ("on" if before in ("on", "true", "yes", "1") else "off"))
    run("SELECT pg_reload_conf()")


def _reload(run: Run, wanted: str) -> None:
    run("SELECT pg_reload_conf()")
    until = time.monotonic() + WAIT
    while run("SHOW wal_recycle") != [(wanted,)]:
        if time.monotonic() > until:
            raise DamnatioError("Postgres did not take the setting wal_recycle: run the purge again.")
        time.sleep(0.02)
    time.sleep(0.2)  # the process that makes checkpoints reads the settings by itself


def need_no_old_snapshot(run: Run, shown: str) -> None:
    """Wait until no other session can still see rows that are deleted: VACUUM FULL would keep them."""
    ((now,),) = run("SELECT pg_current_xact_id()::xid::text")
    older = (
        f"SELECT 'process ' || pid || coalesce(' (' || nullif(application_name, '') || ')', '') FROM pg_stat_activity "
        f"WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker' "
        f"AND age(backend_xmin) > age('{now}'::xid) "
        f"UNION ALL SELECT 'the prepared transaction ' || gid FROM pg_prepared_xacts "
        f"WHERE database = current_database() "
        f"UNION ALL SELECT 'the replication slot ' || slot_name FROM pg_replication_slots "
        f"WHERE age(xmin) > age('{now}'::xid)"
    )
    until = time.monotonic() + WAIT
    while found := run(older):
        if time.monotonic() > until:
            raise DamnatioError(
                f"The gallery {shown}: {found[0][0]} is in the middle of a transaction and still sees rows that are "
                "deleted, so that Postgres would keep them: end it, then run the purge again."
            )
        time.sleep(0.1)

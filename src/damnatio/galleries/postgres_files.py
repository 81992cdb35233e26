"""The files of a Postgres server, as far as they can be read from here, and what of it cannot be reached."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from damnatio.galleries.items import FileClass
from damnatio.galleries.postgres_log import Run
from damnatio.galleries.postgres_values import unpacked

TABLE, INDEX, BLOBS, STATISTICS, LOG, ORPHANS = "table", "index", "index blobs", "statistics", "log", "orphaned files"
LOG_FILE = re.compile(r"[0-9A-F]{24}")
DATA_FILE = re.compile(r"(\d+)(?:\.\d+)?")
WIDEST = 1024
"""bytes of a value that Postgres still copies into its statistics"""


class Files:
    """The data directory of a server. `unreached` says why it cannot be read; empty: it can."""

    def __init__(self, run: Run, given: Path | None) -> None:
        self._run = run
        self.folder, self.unreached = given, ""
        try:
            if self.folder is None:
                settings = run("SELECT setting FROM pg_settings WHERE name = 'data_directory'")
                self.folder = Path(settings[0][0]) if settings else None
            if self.folder is None:
                raise OSError("the server does not say where it is to a user who is no superuser")
            ((identifier,),) = run("SELECT system_identifier FROM pg_control_system()")
            with (self.folder / "global" / "pg_control").open("rb") as file:
                own = int.from_bytes(file.read(8), "little")
            if own != identifier % 2**64:
                raise OSError("it is of another server")
        except OSError as error:
            self.unreached = (
                f"The data directory of the server cannot be read from here ({error.strerror or error}): run this on "
                "its machine, or name the folder with &data=..."
            )

    def of(self, relations: Sequence[int]) -> list[Path]:
        """The files of tables and indexes, by their numbers."""
        if self.unreached or self.folder is None:
            return []
        found = list[Path]()
        for relation in relations:
            ((name,),) = self._run(f"SELECT pg_relation_filepath({relation})")
            if name:
                first = self.folder / name
                found += [first, *sorted(first.parent.glob(f"{first.name}.*"))] if first.exists() else []
        return found

    def log(self) -> list[Path]:
        if self.unreached or self.folder is None:
            return []
        return sorted(path for path in (self.folder / "pg_wal").iterdir() if LOG_FILE.fullmatch(path.name))

    def orphans(self) -> list[Path]:
        """Files that a server which was killed left behind: no table knows them."""
        if self.unreached or self.folder is None:
            return []
        ((database,),) = self._run("SELECT oid FROM pg_database WHERE datname = current_database()")
        numbers = dict[int, list[Path]]()
        for path in sorted((self.folder / "base" / str(database)).iterdir()):
            name = DATA_FILE.fullmatch(path.name)
            if name and path.is_file() and path.stat().st_size:
                numbers.setdefault(int(name[1]), []).append(path)
        if not numbers:
            return []
        listed = ", ".join(f"({number})" for number in numbers)
        unknown = self._run(f"SELECT n FROM (VALUES {listed}) v (n) WHERE pg_filenode_relation(0, n::oid) IS NULL")
        return [path for (number,) in unknown for path in numbers[number]]

    def classed(self, name: str, files: Sequence[Path], sizes: Sequence[int]) -> FileClass:
        """A class of files, with the compressed values in them that have these lengths."""

        def opened(path: Path) -> Iterator[bytes]:
            return unpacked(path, sizes, is_log=name == LOG)

        return FileClass(name, files, opened if sizes or name == LOG else None, self.unreached)


def unreached_by(run: Run) -> list[str]:
    """Copies that the server sends or keeps elsewhere, as sentences."""
    ((replicas, slots, publications),) = run(
        "SELECT (SELECT count(*) FROM pg_stat_replication), (SELECT count(*) FROM pg_replication_slots), "
        "(SELECT count(*) FROM pg_publication)"
    )
    settings: dict[str, str] = dict(
        run(
            "SELECT name, setting FROM pg_settings WHERE name IN ('archive_mode', 'wal_keep_size', 'wal_compression', "
            "'log_statement', 'log_min_duration_statement')"
        )
    )
    said = []
    if replicas:
        said.append(f"{replicas} replicas follow this server: they delete the rows too, but keep logs of their own.")
    if slots:
        said.append(f"{slots} replication slots keep the log until their readers have fetched it.")
    if publications:
        said.append(f"{publications} publications send rows to other databases, which were not looked at.")
    if settings.get("archive_mode", "off") != "off":
        said.append("The log is archived (archive_mode): the archive holds the rows until its files are removed.")
    if settings.get("wal_keep_size", "0") != "0":
        said.append(f"The server keeps {settings['wal_keep_size']} MB of old log for replicas (wal_keep_size).")
    if settings.get("wal_compression", "off") not in ("off", "false"):
        said.append("Pages in the log are compressed (wal_compression), and the scan does not look into those.")
    if settings.get("log_statement", "none") != "none" or settings.get("log_min_duration_statement", "-1") != "-1":
        said.append("The server writes statements to its log of messages, which may hold vectors.")
    return said

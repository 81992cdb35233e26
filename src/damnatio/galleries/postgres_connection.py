"""Connecting to Postgres, and what it says as sentences."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from damnatio.galleries.address import HIDDEN, Address
from damnatio.support.errors import DamnatioError

SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "lock_timeout": "10s",
    "statement_timeout": "0",
}
"""the text of a row, of which a hash is taken, is the same in every session"""
OLDEST = 130_000
DRIVER = frozenset(
    {
        *("host", "hostaddr", "port", "user", "password", "dbname", "passfile", "service", "options"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslpassword", "sslcrl", "channel_binding", "require_auth"),
        *("connect_timeout", "application_name", "client_encoding", "gssencmode", "krbsrvname", "target_session_attrs"),
        *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    }
)
"""options of an address that are libpq's"""


def connected(psycopg: Any, address: Address) -> Any:
    with sentences(psycopg, address.shown):
        connection = psycopg.connect(conninfo(address), autocommit=True, connect_timeout=10)
        version = connection.info.server_version
        if version < OLDEST:
            connection.close()
            raise DamnatioError(f"The gallery {address.shown} is on Postgres {version // 10000}: 13 is the oldest.")
        for name, value in SETTINGS.items():
            connection.execute(f"SET {name} = '{value}'")
    return connection


def conninfo(address: Address) -> str:
    """The address for the driver. A password that was hidden in a plan comes from PGPASSWORD or ~/.pgpass."""
    parts = urlsplit(address.server)
    owner, at, host = parts.netloc.rpartition("@")
    user, _, password = owner.partition(":")
    owner = user if password in ("", HIDDEN, quote(HIDDEN)) else owner
    query = [(key, value) for key, value in parse_qsl(parts.query) if unquote(value) != HIDDEN]
    return urlunsplit(("postgresql", owner + at + host, parts.path, urlencode(query, quote_via=quote), ""))


@contextmanager
def sentences(psycopg: Any, shown: str) -> Iterator[None]:
    """What Postgres says, as a sentence."""
    errors = psycopg.errors
    try:
        yield
    except errors.LockNotAvailable as error:
        raise DamnatioError(
            f"The gallery {shown} is locked by another session: end that (pg_stat_activity lists them), then try again."
        ) from error
    except errors.InsufficientPrivilege as error:
        raise DamnatioError(
            f"The gallery {shown}: {_line(error)}; connect as the owner of the tables or as a superuser."
        ) from error
    except errors.ForeignKeyViolation as error:
        raise DamnatioError(
            f"The gallery {shown}: other rows refer to these ({_line(error)}): nothing was deleted."
        ) from error
    except psycopg.OperationalError as error:
        raise DamnatioError(
            f"The gallery {shown} cannot be used ({_line(error)}): check server, database, user and password."
        ) from error
    except psycopg.Error as error:
        raise DamnatioError(f"The gallery {shown}: Postgres says '{_line(error)}'.") from error


def _line(error: Exception) -> str:
    """The last line of what is said: a driver that tried several hosts says several."""
    diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = [line.strip() for line in str(diagnosis or error).splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else type(error).__name__

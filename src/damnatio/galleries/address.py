"""Addresses of stores as their users write them.

    faiss:gallery.index?names=names.json
    postgresql://user@host/db?table=face&vector=embedding&name=subject&sslmode=require
    gallery.npz                                                                          (recognised by its content)

What follows the question mark are options of the store. A server's address may also hold options of its driver.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from damnatio.galleries import STORES
from damnatio.galleries.items import is_text
from damnatio.support.errors import DamnatioError, nearest

if TYPE_CHECKING:
    from damnatio.galleries.base import Store

SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)
"""two letters at least: one is a drive of Windows"""
HIDDEN = "***"
HEAD = 4096
"""bytes by which a file is recognised"""


@dataclass(frozen=True)
class Address:
    """Where a store is. `shown` is safe to print and to keep: it holds no password."""

    scheme: str
    path: Path | None
    """of a store that is a file or a folder"""
    server: str = field(default="", repr=False)
    """of a store that is a server: its address with its password and the options of its driver"""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        chosen = urlencode(sorted(self.options.items()), quote_via=quote, safe="/:,")
        if self.path is not None:
            return f"{self.scheme}:{self.path}" + (f"?{chosen}" if chosen else "")
        parts = urlsplit(self.server)
        host = parts.netloc.rpartition("@")[2]
        user, _, password = parts.netloc.rpartition("@")[0].partition(":")
        owner = f"{user}{':' + HIDDEN if password else ''}@" if user or password else ""
        given = [(k, HIDDEN if "pass" in k.lower() or "key" in k.lower() else v) for k, v in parse_qsl(parts.query)]
        query = "&".join(part for part in (urlencode(given, quote_via=quote, safe="/:,*"), chosen) if part)
        return urlunsplit((parts.scheme, owner + host, parts.path, query, ""))

    @property
    def place(self) -> str:
        """The address without the user: where the store is, whoever opens it."""
        if self.path is not None:
            return self.shown
        parts = urlsplit(self.server)
        return replace(self, server=urlunsplit((*parts[:1], parts.netloc.rpartition("@")[2], *parts[2:]))).shown

    def option(self, name: str, default: str = "") -> str:
        return self.options.get(name, default)

    def file_option(self, name: str) -> Path | None:
        """An option that names a file: relative to the folder of the store, as in `?names=names.json`."""
        value = self.options.get(name)
        if value is None or self.path is None:
            return None
        return (self.path if self.path.is_dir() else self.path.parent) / Path(value).expanduser()


def parse(text: str) -> Address:
    """The address that a user wrote, checked against the options of its store. Nothing is opened but the beginning of a
    bare path, which says what it is."""
    if not text.strip():
        raise DamnatioError("An address of a gallery is empty: name a file, a folder or a server.")
    given = SCHEME.fullmatch(text)
    if given is None or Path(text).exists():
        return _bare(text)
    scheme, rest = given[1].lower(), given[2]
    store = store_of(scheme, text)
    if rest.startswith("//") and store.is_server:
        return _server(store, text)
    location, _, query = rest.removeprefix("//").partition("?")
    if not location:
        raise DamnatioError(f"The gallery {text} names no file: write {scheme}:PATH.")
    return _checked(store, Path(location), query, text)


def store_of(scheme: str, text: str) -> "type[Store]":
    """The store that goes by this scheme."""
    known = {alias: name for name in STORES.names() for alias in (name, *STORES.get(name).aliases)}
    if scheme not in known:
        raise DamnatioError(f"The gallery {text}: there is no kind '{scheme}'.{nearest(scheme, known)}")
    return STORES.get(known[scheme])


def _bare(text: str) -> Address:
    path, query = Path(text), ""
    if not path.exists() and "?" in text:
        location, _, query = text.partition("?")
        if not location:
            raise DamnatioError(f"The gallery {text} names no file: write its path before the question mark.")
        path = Path(location)
    path = _expanded(path)
    if not path.exists():
        raise DamnatioError(
            f"There is no gallery {path}: name a file or a folder, or write the kind before it, as in faiss:{path}."
        )
    return _checked(recognised(path), path, query, text)


def _expanded(path: Path) -> Path:
    """A path without `~`, that a plan can hold."""
    if not is_text(str(path)):
        raise DamnatioError(f"The gallery {path} has a name that is no text (UTF-8): rename it.")
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise DamnatioError(f"The gallery {path}: {error}") from error


def recognised(path: Path) -> "type[Store]":
    """The store whose files look like this one."""
    try:
        head = b"" if path.is_dir() else _head(path)
    except OSError as error:
        raise DamnatioError(f"The gallery {path} cannot be read: {error.strerror}.") from error
    kinds = [STORES.get(name) for name in STORES.names()]
    best = max(kinds, key=lambda kind: kind.likeness(path, head))
    if not best.likeness(path, head):
        raise DamnatioError(
            f"The gallery {path} is of no known kind: write the kind before it, as in sqlite:{path}. Known: "
            f"{', '.join(STORES.names())}."
        )
    return best


def _head(path: Path) -> bytes:
    from damnatio.support.files import need_regular

    need_regular(path, "The gallery")
    with path.open("rb") as file:
        return file.read(HEAD)


def _server(store: "type[Store]", text: str) -> Address:
    try:
        parts = urlsplit(text)
        _ = parts.port
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise DamnatioError(f"The gallery {store.scheme}://... is no address ({error}).") from error
    own = {key: value for key, value in pairs if key in store.options}
    rest = [(key, value) for key, value in pairs if key not in store.options]
    place = parts.netloc.replace(":@", "@", 1)  # an empty password is none
    server = urlunsplit((parts.scheme, place, parts.path, urlencode(rest, quote_via=quote, safe="/:,"), ""))
    found = Address(store.scheme, None, server, own)
    unknown = next((key for key, _ in rest if not store.takes(key)), None)
    if unknown is not None:
        raise DamnatioError(f"The gallery {found.shown}: there is no option '{unknown}'.{_hint(unknown, store)}")
    _need(store, found)
    return found


def _checked(store: "type[Store]", path: Path, query: str, text: str) -> Address:
    options: dict[str, str] = {}
    for pair in query.split("&") if query else []:
        key, equals, value = pair.partition("=")
        if not equals or not value:
            raise DamnatioError(f"The gallery {text}: the option '{pair}' is not written as KEY=VALUE.")
        if key not in store.options:
            raise DamnatioError(f"The gallery {text}: there is no option '{key}'.{_hint(key, store)}")
        options[key] = parse_qsl(f"x={value}")[0][1]
    found = Address(store.scheme, _expanded(path).absolute(), "", options)
    _need(store, found)
    return found


def _need(store: "type[Store]", address: Address) -> None:
    missing = next((key for key in store.required if key not in address.options), None)
    if missing is not None:
        raise DamnatioError(
            f"The gallery {address.shown} lacks the option '{missing}': {store.options[missing]}. Add "
            f"{'&' if address.options else '?'}{missing}=..."
        )


def _hint(key: str, store: "type[Store]") -> str:
    return nearest(key, store.options) or f" A {store.scheme} gallery takes none."

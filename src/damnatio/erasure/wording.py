"""How the pages of a case call things: stores, verdicts, ways of finding. And the templates of these pages."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from damnatio.support.errors import printable

if TYPE_CHECKING:
    from jinja2 import Environment

STORES = {
    "chroma": "Chroma collection",
    "faiss": "faiss index",
    "folder": "folder of photographs",
    "lancedb": "LanceDB table",
    "milvus": "Milvus collection",
    "npy": "templates in an .npy file",
    "npz": "templates in an .npz file",
    "pickle": "templates in a pickle",
    "postgres": "Postgres database",
    "qdrant": "Qdrant collection",
    "redis": "Redis database",
    "sqlite": "SQLite database",
}
VERDICTS = {
    "GONE": "nothing left",
    "RESIDUE": "traces left",
    "BLIND": "cannot be told",
    "UNREACHED": "not readable from here",
}
HOW = {
    "name": "by name",
    "similarity": "by similarity",
    "equal": "equal to another",
    "together": "same name as another",
    "attached": "attached to another",
    "orphan": "nothing refers to it",
}
FLAGS = {
    "shared": "others use it too",
    "group": "shows several people",
    "unlike": "the name fits, the face does not",
    "spelling": "spelt differently",
    "link": "a link, or a file with a second name",
}


class Numbered(Protocol):
    """A store of a plan or of a record."""

    @property
    def number(self) -> int: ...
    @property
    def unreached(self) -> list[str]: ...


def unreached_by(stores: Iterable[Numbered]) -> dict[str, list[int]]:
    """What stores cannot reach, each sentence once, with the numbers of the stores."""
    found: dict[str, list[int]] = {}
    for store in stores:
        for words in store.unreached:
            found.setdefault(words, []).append(store.number)
    return found


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count else "none"


def shown(value: Any) -> Any:
    """What a page writes: texts from outside cannot steer it."""
    return printable(value, lines=True) if type(value) is str else value


def templates() -> "Environment":
    """The templates of pages, with these words as filters."""
    from jinja2 import Environment, PackageLoader

    found = Environment(loader=PackageLoader("damnatio", "erasure"), autoescape=True, finalize=shown)
    found.filters.update(
        mb=megabytes,
        how=HOW.get,
        flag=lambda flag: FLAGS.get(flag, flag),
        store=lambda kind: STORES.get(kind, kind),
        verdict=VERDICTS.get,
        number=lambda value: f"{value:,}",
    )
    return found

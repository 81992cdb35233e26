"""Databases of programs that are known, and of those that an address describes.

A known database is recognised by its tables and columns. Any other is named by its columns:

    ?table=face&vector=embedding&name=subject                       a column of the same table
    ?table=face&vector=embedding&name=people.name                   a column of a table that `face` refers to
"""

from collections.abc import Callable, Mapping, Sequence

from damnatio.galleries.address import Address
from damnatio.galleries.sql_tables import Blobs, Layout, Link, Table
from damnatio.support.errors import DamnatioError, nearest

Columns = Mapping[str, Sequence[str]]
"""the columns of each table"""
OPTIONS: Mapping[str, str] = {
    "table": "the table of vectors",
    "vector": "its column of vectors",
    "name": "its column of names, or TABLE.COLUMN of a table that it refers to",
    "id": "its column that names a row (the primary key)",
    "photo": "its column of encoded photographs",
    "dtype": "how numbers are written in bytes: float16, float32 or float64",
}
DTYPES = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}

DEEPFACE_COLUMNS = {"id", "img_name", "face", "embedding", "face_hash", "embedding_hash"}
DEEPFACE_COPIED = ("model_name", "detector_backend", "aligned", "l2_normalized")
DEEPFACE_BLOBS = Blobs(
    "embeddings_index",
    "id",
    "index_data",
    "embeddings",
    (
        ("model_name", "model_name"),
        ("detector_backend", "detector_backend"),
        ("align", "aligned"),
        ("l2_normalized", "l2_normalized"),
    ),
)
DEEPFACE_REMARKS = (
    "deepface names a row by the file of its photograph (img_name), which is kept outside of the database.",
)
INSIGHTFACE = Layout(
    "InsightFace",
    (
        Table(
            "face_samples",
            "id",
            vector="embedding",
            label="name",
            links=(Link("people", "person_id", "id"),),
            dtype="<f4",
            copied=("embedding_dim", "model_name", "provider"),
        ),
        Table(
            "media_faces",
            "id",
            kind="embedding",
            vector="embedding",
            label="name",
            links=(Link("people", "assigned_person_id", "id"),),
            searched=False,
            pictures=(Link("media_items", "media_id", "id"),),
            dtype="<f4",
        ),
        Table(
            "media_items",
            "id",
            kind="thumbnail",
            label="name",
            links=(Link("media_faces", "id", "media_id"), Link("people", "assigned_person_id", "id")),
            referred=True,
            picture="thumbnail",
            searched=False,
        ),
    ),
    remarks=(
        "InsightFace keeps crops and photographs as files (crop_path, source_image_path, path): name their folders as "
        "galleries of their own.",
        "The name stays in the table `people`, which holds no template: delete the person in InsightFace too.",
    ),
)
IMMICH_REMARKS = (
    "Immich keeps photographs and thumbnails as files: name its upload folder as a gallery of its own.",
    "The name stays in the table `person`, which holds no template: delete the person in Immich too.",
    "Immich finds faces anew in photographs that stay, whenever face detection runs over all of them.",
)
COMPREFACE_REMARKS = (
    "The name stays in the table `subject`, which holds no template: delete the subject in CompreFace too.",
    "CompreFace holds embeddings in memory: restart its API after the purge.",
)


def _immich(faces: str) -> Layout:
    links = (Link(faces, "faceId", "id"), Link("person", "personId", "id"))
    table = Table("face_search", "faceId", vector="embedding", label="name", links=links, goes_too=1)
    return Layout("Immich", (table,), remarks=IMMICH_REMARKS)


def _compreface() -> Layout:
    subject = Link("subject", "subject_id", "id")
    return Layout(
        "CompreFace",
        (
            Table(
                "embedding",
                "id",
                vector="embedding",
                label="subject_name",
                links=(subject,),
                pictures=(Link("img", "img_id", "id"),),
                copied=("calculator",),
                copied_person=("api_key",),
            ),
            Table(
                "img",
                "id",
                kind="photograph",
                label="subject_name",
                links=(Link("embedding", "id", "img_id"), subject),
                referred=True,
                picture="content",
                searched=False,
            ),
        ),
        remarks=COMPREFACE_REMARKS,
    )


KNOWN = (INSIGHTFACE, _immich("asset_face"), _immich("asset_faces"), _compreface())


def recognised(columns: Columns) -> Layout | None:
    """The known layout whose tables and columns are all there."""
    found = next((layout for layout in KNOWN if all(_has(columns, table) for table in layout.tables)), None)
    return found or _deepface(columns)


def _deepface(columns: Columns) -> Layout | None:
    """deepface has one table, or one for each model where the database knows vectors."""
    names = [name for name, own in sorted(columns.items()) if set(own) >= DEEPFACE_COLUMNS]
    tables = [
        Table(name, "id", vector="embedding", label="img_name", dtype="<f8", copied=DEEPFACE_COPIED) for name in names
    ]
    blobs = DEEPFACE_BLOBS if {DEEPFACE_BLOBS.table, DEEPFACE_BLOBS.source} <= set(columns) else None
    return Layout("deepface", tuple(tables), blobs, DEEPFACE_REMARKS) if tables else None


def _has(columns: Columns, table: Table) -> bool:
    wanted = [(table.name, name) for name in (table.id, table.vector, table.picture) if name]
    before = table.name
    for link in table.links:
        wanted += [(before, link.here), (link.table, link.there)]
        before = link.table
    wanted += [(before, table.label)]
    return all(name in columns.get(place, ()) for place, name in wanted)


def described(address: Address, columns: Columns, link: Callable[[str, str], Link | None], key: str) -> Layout:
    """The layout that an address describes. `link` says how one table refers to another, `key` is the primary key of
    the table (empty: it has none)."""
    shown = address.shown
    name, vector = address.option("table"), address.option("vector", "embedding")
    if not name:
        raise DamnatioError(f"The gallery {shown} lacks the option 'table': {OPTIONS['table']}. Add &table=...")
    if name not in columns:
        raise DamnatioError(f"The gallery {shown} has no table `{name}`.{nearest(name, columns)}")
    label, links = address.option("name"), tuple[Link, ...]()
    other, dot, there = label.rpartition(".")
    if dot and label not in columns[name]:
        need_column(shown, columns, other, there)
        found = link(name, other)
        if found is None:
            raise DamnatioError(
                f"The gallery {shown}: `{name}` does not refer to `{other}`: name a column of names in `{name}` itself."
            )
        label, links = there, (found,)
    id, picture, dtype = address.option("id", key), address.option("photo"), address.option("dtype")
    for wanted in (vector, *([] if links or not label else [label]), *filter(None, (id, picture))):
        need_column(shown, columns, name, wanted)
    if dtype and dtype not in DTYPES:
        raise DamnatioError(f"The gallery {shown}: there is no dtype '{dtype}'.{nearest(dtype, DTYPES)}")
    table = Table(name, id, "template", vector, label, links, picture=picture, dtype=DTYPES.get(dtype, ""))
    return Layout("", (table,))


def need_column(shown: str, columns: Columns, table: str, name: str) -> None:
    if table not in columns:
        raise DamnatioError(f"The gallery {shown} has no table `{table}`.{nearest(table, columns)}")
    if name not in columns[table]:
        hint = nearest(name, columns[table])
        raise DamnatioError(f"The gallery {shown}: the table `{table}` has no column `{name}`.{hint}")


def unknown(shown: str, columns: Columns) -> DamnatioError:
    return DamnatioError(
        f"The gallery {shown} has no tables of deepface, InsightFace, Immich or CompreFace: name them with "
        f"?table=...&vector=...&name=... It has {', '.join(sorted(columns)) or 'no table'}."
    )

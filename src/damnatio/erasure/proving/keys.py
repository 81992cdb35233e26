"""Keys: an Ed25519 pair that signs plans and records, and an X25519 pair for the one holder of fingerprints.

    ~/.config/damnatio/key.pem           the private key: PKCS#8, readable by its owner only
    ~/.config/damnatio/key.pub.pem       the public key: hand it, or its fingerprint, to whoever will check records
    ~/.config/damnatio/key.chain.jsonl   the records that were signed with it (chain.py)

DAMNATIO_KEY or `--key` names another place.
"""

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

VARIABLE = "DAMNATIO_KEY"


def usual_place() -> Path:
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "damnatio" / "key.pem"


def public_of(private: Path) -> Path:
    return private.with_name(f"{private.stem}.pub.pem")


def make_pair(private: Path, *, holder: bool = False) -> Path:
    """Write a new pair. A key that is there is never overwritten. Returns the file of the public key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    if not private.name or private.is_dir():
        raise DamnatioError(f"--out {private} is a folder: name the file of the private key in it.")
    public = public_of(private)
    for path in (private, public):
        if path.exists():
            raise DamnatioError(f"{path} is there already, and a key is never overwritten: name another with --out.")
    key: Any = X25519PrivateKey.generate() if holder else Ed25519PrivateKey.generate()
    private.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        os.fsync(file.fileno())
    public.write_bytes(public_pem(key.public_key()))
    return public


def signing_key(path: Path | None) -> "Ed25519PrivateKey":
    """The private key that signs."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    found = _private(path or usual_place(), "damnatio keys")
    if not isinstance(found, Ed25519PrivateKey):
        raise DamnatioError(f"{path or usual_place()} is no Ed25519 key: `damnatio keys` makes one.")
    return found


def holder_key(path: Path) -> "X25519PrivateKey":
    """The private key of the holder of fingerprints."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    found = _private(path, "damnatio keys --holder")
    if not isinstance(found, X25519PrivateKey):
        raise DamnatioError(f"{path} is no X25519 key: `damnatio keys --holder` makes one.")
    return found


def public_holder_key(path: Path) -> "X25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    found = _public(path)
    if not isinstance(found, X25519PublicKey):
        raise DamnatioError(f"{path} is no public X25519 key: `damnatio keys --holder` makes a pair.")
    return found


def public_signing_key(content: bytes, where: str) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        found = load_pem_public_key(content)
    except ValueError as error:
        raise DamnatioError(f"{where} holds no public key in PEM ({error}).") from error
    if not isinstance(found, Ed25519PublicKey):
        raise DamnatioError(f"{where} holds a public key that is not Ed25519.")
    return found


def read_public(path: Path) -> "Ed25519PublicKey":
    return public_signing_key(_bytes(path), str(path))


def public_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return found


def fingerprint(key: Any) -> str:
    """The SHA-256 of a public key (DER), as `openssl pkey -pubin -outform DER | sha256sum` gives it."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def fingerprint_of_file(path: Path) -> str:
    return fingerprint(_public(path))


def _private(path: Path, remedy: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    need_regular(path, "The key")
    if not path.exists():
        raise DamnatioError(f"There is no key {path}: `{remedy}` makes one, and --key names another.")
    if path.stat().st_mode & 0o077:
        raise DamnatioError(f"Others than its owner can read the key {path}: chmod 600 it, or make a new one.")
    try:
        return load_pem_private_key(_bytes(path), password=None)
    except DamnatioError:
        raise
    except (ValueError, TypeError) as error:
        raise DamnatioError(f"{path} holds no private key in PEM without a password ({error}).") from error


def _public(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        return load_pem_public_key(_bytes(path))
    except DamnatioError:
        raise
    except ValueError as error:
        raise DamnatioError(f"{path} holds no public key in PEM ({error}).") from error


def _bytes(path: Path) -> bytes:
    need_regular(path, "The key")
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamnatioError(f"The key {path} cannot be read: {error.strerror}.") from error

"""A sealed box: what is written for one holder, and can be read with the holder's private key alone.

    box = ephemeral public key (32 bytes) | nonce (12 bytes) | ChaCha20-Poly1305 of the content

The key of the cipher is HKDF-SHA256 of the X25519 exchange between an ephemeral key, which is thrown away, and the
holder's; both public keys are part of it.
"""

import os
from typing import TYPE_CHECKING

from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

INFO = b"damnatio fingerprints v1"
POINT, NONCE = 32, 12


def seal(content: bytes, holder: "X25519PublicKey") -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    ephemeral = X25519PrivateKey.generate()
    point, nonce = ephemeral.public_key().public_bytes_raw(), os.urandom(NONCE)
    key = _key(ephemeral.exchange(holder), point, holder.public_bytes_raw())
    return point + nonce + ChaCha20Poly1305(key).encrypt(nonce, content, None)


def unseal(box: bytes, holder: "X25519PrivateKey", where: str) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    point, nonce, content = box[:POINT], box[POINT : POINT + NONCE], box[POINT + NONCE :]
    try:
        shared = holder.exchange(X25519PublicKey.from_public_bytes(point))
        return ChaCha20Poly1305(_key(shared, point, holder.public_key().public_bytes_raw())).decrypt(
            nonce, content, None
        )
    except (InvalidTag, ValueError) as error:
        raise DamnatioError(f"{where} cannot be opened with this key: it is for another holder, or damaged.") from error


def _key(shared: bytes, ephemeral: bytes, holder: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=ephemeral + holder, info=INFO).derive(shared)

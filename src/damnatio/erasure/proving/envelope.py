"""The envelope of a record: DSSE (Dead Simple Signing Envelope, version 1) with one Ed25519 signature.

    {"payloadType": "application/vnd.in-toto+json", "payload": base64, "signatures": [{"keyid": ..., "sig": base64}]}

What is signed is PAE(type, payload) = "DSSEv1" SP length(type) SP type SP length(payload) SP payload, so that no two
pairs of type and payload are signed alike. Any DSSE tool can check it.
"""

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from damnatio.erasure.proving.keys import fingerprint
from damnatio.support.errors import DamnatioError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

STATEMENT = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class Envelope:
    kind: str
    payload: bytes
    keyid: str
    signature: bytes

    @property
    def text(self) -> str:
        content = {
            "payloadType": self.kind,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [{"keyid": self.keyid, "sig": base64.b64encode(self.signature).decode()}],
        }
        return json.dumps(content, indent=1) + "\n"

    def is_signed_by(self, key: "Ed25519PublicKey") -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(self.signature, pae(self.kind, self.payload))
        except InvalidSignature:
            return False
        return True


def signed(payload: bytes, key: "Ed25519PrivateKey", kind: str = STATEMENT) -> Envelope:
    return Envelope(kind, payload, fingerprint(key.public_key()), key.sign(pae(kind, payload)))


def pae(kind: str, payload: bytes) -> bytes:
    spelt = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(spelt), spelt, len(payload), payload)


def read_envelope(text: str, where: str) -> Envelope:
    """The envelope in a text. What is no whole envelope is refused; the signature is not looked at."""
    broken = f"{where} is no whole record: it was cut short, or is something else"
    try:
        content: Any = json.loads(text)
        (signature,) = content["signatures"]
        return Envelope(
            kind=str(content["payloadType"]),
            payload=base64.b64decode(content["payload"], validate=True),
            keyid=str(signature["keyid"]),
            signature=base64.b64decode(signature["sig"], validate=True),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamnatioError(f"{broken} ({type(error).__name__}).") from error


def canonical(content: Any) -> bytes:
    """JSON with sorted keys and no spaces: the same content gives the same bytes."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

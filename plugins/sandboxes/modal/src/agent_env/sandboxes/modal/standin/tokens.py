"""Tokens as the SDK expects them: JWTs of which it reads the expiry."""

from __future__ import annotations

import base64
import json
import secrets
import time

_LIFE_S = 1200


def jwt(life_s: float = _LIFE_S) -> str:
    """A token that nobody signed."""
    parts = ({"alg": "none"}, {"exp": int(time.time() + life_s), "jti": secrets.token_hex(8)})
    head, body = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return f"{head}.{body}.standin"

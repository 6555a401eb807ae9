"""Passwords and tokens: kept as hashes, compared in constant time.

A password is `scrypt$N$r$p$salt$hash` (RFC 7914; salt and hash in Base64). A
token is random, so one round of SHA-256 is enough for it: its hash, in
hexadecimal, is all that is kept.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets

_SCRYPT = "scrypt"
# 32 MiB and some 0.1 s of CPU: OWASP Password Storage Cheat Sheet, scrypt.
_COST, _BLOCK, _PARALLEL = 1 << 15, 8, 3
_MEMORY_BYTES_MAX = 1 << 28
_SALT_BYTES = 16
_TOKEN_BYTES = 32
_TOKEN_PREFIX = "pst_"  # noqa: S105 - by which people and scanners know a token


def hash_password(password: str) -> str:
    """Return what to keep of a password."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = _scrypt(password, salt, (_COST, _BLOCK, _PARALLEL))
    return "$".join([_SCRYPT, str(_COST), str(_BLOCK), str(_PARALLEL), _text(salt), _text(digest)])


def is_password_hash(kept: str) -> bool:
    """Tell whether `kept` is what `hash_password` returns, at a cost that we are willing to pay."""
    try:
        numbers, _, digest = _parts(kept)
    except (ValueError, binascii.Error):
        return False
    cost, block, parallel = numbers
    is_power = cost > 1 and cost & (cost - 1) == 0
    return is_power and 0 < 128 * cost * block * parallel <= _MEMORY_BYTES_MAX and len(digest) >= _SALT_BYTES


def is_password(password: str, kept: str) -> bool:
    """Tell whether `kept` was made of `password`. Takes some 0.1 s of CPU, outside Python's lock."""
    numbers, salt, digest = _parts(kept)
    return hmac.compare_digest(_scrypt(password, salt, numbers), digest)


def new_token() -> str:
    """Return a token that nobody can guess."""
    return _TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def hash_token(token: str) -> str:
    """Return what to keep of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def _parts(kept: str) -> tuple[tuple[int, int, int], bytes, bytes]:
    kind, cost, block, parallel, salt, digest = kept.split("$")
    if kind != _SCRYPT:
        raise ValueError(kind)
    numbers = (int(cost), int(block), int(parallel))
    return numbers, base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True)


def _scrypt(password: str, salt: bytes, numbers: tuple[int, int, int]) -> bytes:
    cost, block, parallel = numbers
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block, p=parallel, maxmem=_MEMORY_BYTES_MAX, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""JWTs for tests: HS256 by hand, so that a test can also say what no library would sign."""

import base64
import hashlib
import hmac
import json
import time


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_part(header, claims):
    """What a signature is made over."""
    return ".".join(base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))


def sign(header, claims, secret, digest=hashlib.sha256):
    """A token with exactly this header and these claims, signed HS256 whatever the header says."""
    secret = secret.encode() if isinstance(secret, str) else secret
    signed = signed_part(header, claims)
    return f"{signed}.{base64url(hmac.new(secret, signed.encode(), digest).digest())}"


def mint(secret, org, user, role="user", ttl=3600, kid=None, **claims):
    header = {"alg": "HS256", "typ": "JWT"} | ({"kid": kid} if kid else {})
    return sign(header, {"org": org, "sub": user, "role": role, "exp": int(time.time()) + ttl} | claims, secret)

"""JWTs for tests: HS256 by hand, so that a test can also say what no library would sign."""

import base64
import hashlib
import hmac
import json
import time


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(header, claims, secret):
    """A token with exactly this header and these claims, signed HS256 whatever the header says."""
    signed = ".".join(base64url(json.dumps(part, separators=(",", ":")).encode()) for part in (header, claims))
    digest = hmac.new(secret.encode(), signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64url(digest)}"


def mint(secret, org, user, role="user", ttl=3600, kid=None, **claims):
    header = {"alg": "HS256", "typ": "JWT"} | ({"kid": kid} if kid else {})
    return sign(header, {"org": org, "sub": user, "role": role, "exp": int(time.time()) + ttl} | claims, secret)

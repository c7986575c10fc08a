"""Who asks: tokens of every algorithm, and everything that only looks like one."""

import base64
import hashlib
import json
import time

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from support import tokens
from support.client import Client
from support.contract import check_problem
from support.waiting import wait_until

SHARED_SECRET = "the secret of kid shared, of 32 bytes and more"
ROTATED = "new:the newer secret of two that are valid,old:the older secret of two that are valid"


def now(seconds=0):
    return int(time.time()) + seconds


def claims(org, **more):
    return {"org": org, "sub": "user-1", "role": "user", "exp": now(3600)} | more


def without(fields, name):
    return {key: value for key, value in fields.items() if key != name}


def ask(node, token):
    return Client(node, "x", token=token).get("/api/events")


# --- what is no token ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [
    "", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer a.b.c", "Bearer ..", "Bearer {token}x", "Bearer {token}.x",
    "{token}", "Token {token}", "Bearer {token} {token}", "Bearer {head}.{payload}.", "Bearer {head}.{payload}",
    "Bearer =.=.=", "Bearer {token}==",
])
def test_what_is_no_token_is_refused(node, org, value):
    token = tokens.mint(node.secret, org, "user-1")
    head, payload, _ = token.split(".")
    headers = {"Authorization": value.format(token=token, head=head, payload=payload)}
    check_problem(Client(node, org, token="").get("/api/events", headers=headers), "unauthenticated", "/api/events")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_has_no_case(node, org, scheme):
    token = tokens.mint(node.secret, org, "user-1")
    Client(node, org, token="").get("/api/events", headers={"Authorization": f"{scheme} {token}"}).expect(200)


def test_a_changed_byte_anywhere_breaks_it(node, org):
    token = tokens.mint(node.secret, org, "user-1")
    ask(node, token).expect(200)
    for place in range(0, len(token) - 1, 7):  # the last character has unused bits: it is no change to all decoders
        if token[place] != ".":
            changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1:]
            ask(node, changed).expect(401, "unauthenticated")


def test_the_last_character_is_strict_too(node, org):
    """Base64url of 32 bytes ends with a character of which two bits count for nothing; they must be zero."""
    token = tokens.mint(node.secret, org, "user-1")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet[alphabet.index(token[-1]) ^ 1]
    ask(node, token[:-1] + other).expect(401, "unauthenticated")


# --- claims --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [
    {"role": "root"}, {"role": ""}, {"role": 7}, {"role": None}, {"role": ["admin"]}, {"role": "Admin"},
    {"org": ""}, {"org": "a b"}, {"org": 7}, {"org": "x" * 65}, {"sub": ""}, {"sub": "a:b"}, {"sub": 7}, {"sub": None},
    {"exp": "soon"}, {"exp": None}, {"exp": []}, {"nbf": "now"}, {"nbf": 4_000_000_000},
], ids=json.dumps)
def test_a_claim_that_is_wrong(node, org, change):
    token = tokens.sign({"alg": "HS256", "typ": "JWT"}, claims(org) | change, node.secret)
    check_problem(ask(node, token), "unauthenticated")


@pytest.mark.parametrize("missing", ["org", "sub", "exp"])
def test_a_claim_that_is_missing(node, org, missing):
    token = tokens.sign({"alg": "HS256"}, without(claims(org), missing), node.secret)
    check_problem(ask(node, token), "unauthenticated")


def test_without_a_role_it_is_a_user(node, org):
    token = tokens.sign({"alg": "HS256"}, without(claims(org), "role"), node.secret)
    caller = Client(node, org, token=token)
    caller.get("/api/events").expect(200)
    caller.put("/api/events/e", {"name": "e", "kind": "event", "status": "on_sale"}).expect(403, "forbidden")


@pytest.mark.parametrize("role", ["user", "agent", "admin", "service"])
def test_roles_that_are_known(node, org, role):
    ask(node, tokens.mint(node.secret, org, "user-1", role)).expect(200)


def test_an_expired_token_says_so(node, org):
    answer = ask(node, tokens.mint(node.secret, org, "user-1", ttl=-120))
    check_problem(answer, "token_expired", "/api/events")
    assert "invalid_token" in answer.headers["WWW-Authenticate"]


def test_an_expired_token_with_a_wrong_signature_says_nothing(node, org):
    check_problem(ask(node, tokens.mint("another secret", org, "user-1", ttl=-120)), "unauthenticated")


def test_a_token_ends_also_while_it_is_remembered(node, org):
    token = tokens.mint(node.secret, org, "user-1", ttl=4)
    ask(node, token).expect(200)
    wait_until(lambda: ask(node, token).code == "token_expired", timeout=20)


def test_a_token_that_began_is_taken(node, org):
    ask(node, tokens.mint(node.secret, org, "user-1", nbf=now(-10), iat=now(), jti="x", aud=["a"])).expect(200)


@pytest.mark.parametrize("payload", [b"[]", b'"x"', b"", b"{", b'{"org":"a","org":"b","sub":"u","exp":9999999999}',
                                     b'{"org":"a\\u0000b","sub":"u","exp":9999999999}'])
def test_a_payload_that_is_no_object_of_claims(node, payload):
    signed = f'{tokens.base64url(b"""{"alg":"HS256"}""")}.{tokens.base64url(payload)}'
    mac = tokens.hmac.new(node.secret.encode(), signed.encode(), hashlib.sha256).digest()
    ask(node, f"{signed}.{tokens.base64url(mac)}").expect(401, "unauthenticated")


# --- algorithms: fixed by the key, never by the token ------------------------------------------------------------


def test_an_unsigned_token_is_refused(node, org):
    for alg in ("none", "None", "NONE", "nOnE", "", None):
        head = {"alg": alg} if alg is not None else {}
        check_problem(ask(node, tokens.signed_part(head, claims(org)) + "."), "unauthenticated")
        check_problem(ask(node, tokens.sign(head, claims(org), node.secret)), "unauthenticated")


@pytest.mark.parametrize("alg, digest", [("HS384", hashlib.sha384), ("HS512", hashlib.sha512)])
def test_a_longer_digest_with_a_key_for_hs256_is_refused(node, org, alg, digest):
    check_problem(ask(node, tokens.sign({"alg": alg}, claims(org), node.secret, digest)), "unauthenticated")


@pytest.mark.parametrize("header", [
    {"alg": "HS256", "crit": ["exp"]}, {"alg": "HS256", "crit": ["b64"], "b64": False},
    {"alg": "RS256"}, {"alg": "ES256"}, {"alg": "EdDSA"}, {"alg": "hs256"}, {"alg": 256},
], ids=json.dumps)
def test_headers_that_are_refused(node, org, header):
    check_problem(ask(node, tokens.sign(header, claims(org), node.secret)), "unauthenticated")


def test_a_key_inside_the_token_is_not_believed(node, org):
    """jwk, jku and x5u let an attacker bring the key; they are as if they were not there."""
    own = b"the attacker's own secret, long enough for all"
    jwk = {"kty": "oct", "k": tokens.base64url(own)}
    for more in ({"jwk": jwk}, {"jku": "http://127.0.0.1:1/"}, {"x5u": "http://127.0.0.1:1/"}):
        ask(node, tokens.sign({"alg": "HS256"} | more, claims(org), own)).expect(401, "unauthenticated")


# --- rotation ------------------------------------------------------------------------------------------------


def test_each_of_two_secrets_is_good_under_its_name(start_node, org):
    node = start_node(jwt_secret=ROTATED)
    secrets = dict(pair.split(":") for pair in ROTATED.split(","))
    for kid, secret in secrets.items():
        ask(node, tokens.mint(secret, org, "user-1", kid=kid)).expect(200)
    ask(node, tokens.mint(secrets["old"], org, "user-1", kid="new")).expect(401, "unauthenticated")
    ask(node, tokens.mint(secrets["new"], org, "user-1", kid="older")).expect(401, "unauthenticated")


# --- keys of a file ------------------------------------------------------------------------------------------


def integer(number, size=None):
    return tokens.base64url(number.to_bytes(size or (number.bit_length() + 7) // 8, "big"))


class Keys:
    """One key of each kind, and the JWK set of their public halves."""

    def __init__(self):
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()

    def jwk_set(self):
        n = self.rsa.public_key().public_numbers()
        p = self.ec.public_key().public_numbers()
        ed = self.ed.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return {"keys": [
            {"kty": "RSA", "kid": "rsa", "alg": "RS256", "use": "sig", "n": integer(n.n), "e": integer(n.e)},
            {"kty": "EC", "kid": "ec", "alg": "ES256", "crv": "P-256", "x": integer(p.x, 32), "y": integer(p.y, 32)},
            {"kty": "OKP", "kid": "ed", "alg": "EdDSA", "crv": "Ed25519", "x": tokens.base64url(ed)},
            {"kty": "oct", "kid": "shared", "alg": "HS256", "k": tokens.base64url(SHARED_SECRET.encode())},
        ]}

    def signature(self, alg, data):
        if alg == "RS256":
            return self.rsa.sign(data, padding.PKCS1v15(), hashes.SHA256())
        if alg == "ES256":
            r, s = utils.decode_dss_signature(self.ec.sign(data, ec.ECDSA(hashes.SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return self.ed.sign(data)

    def token(self, alg, kid, fields, signature=None):
        signed = tokens.signed_part({"alg": alg, "kid": kid} if kid else {"alg": alg}, fields)
        return f"{signed}.{tokens.base64url(signature or self.signature(alg, signed.encode()))}"

    def public_pem(self, kid):
        key = {"rsa": self.rsa, "ec": self.ec, "ed": self.ed}[kid].public_key()
        return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


KIND = {"rsa": "RS256", "ec": "ES256", "ed": "EdDSA"}


@pytest.fixture(scope="module")
def keys():
    return Keys()


@pytest.fixture(scope="module")
def keyed_node(keys, log_folder, database_url, empty_redis):
    from support.node import Node
    path = log_folder / "keys.json"
    path.write_text(json.dumps(keys.jwk_set()))
    node = Node(log_folder, database_url, empty_redis, jwt_keys_file=path).start()
    yield node
    node.stop()


@pytest.mark.parametrize("kid", KIND)
def test_public_keys_verify(keyed_node, keys, org, kid):
    ask(keyed_node, keys.token(KIND[kid], kid, claims(org))).expect(200)


def test_secrets_of_the_file_and_of_the_setting_both_count(keyed_node, org):
    ask(keyed_node, tokens.mint(SHARED_SECRET, org, "user-1", kid="shared")).expect(200)
    ask(keyed_node, tokens.mint(keyed_node.secret, org, "user-1")).expect(200)


@pytest.mark.parametrize("kid", KIND)
def test_a_public_key_is_no_secret(keyed_node, keys, org, kid):
    """HS256 keyed with what everybody may know: the classic confusion of algorithms."""
    for known in (keys.public_pem(kid), keys.public_pem(kid).strip(), public_bytes(keys, kid)):
        for header in ({"alg": "HS256", "kid": kid}, {"alg": "HS256"}, {"alg": KIND[kid], "kid": kid}):
            ask(keyed_node, tokens.sign(header, claims(org), known)).expect(401, "unauthenticated")


def public_bytes(keys, kid):
    [jwk] = [key for key in keys.jwk_set()["keys"] if key["kid"] == kid]
    return base64.urlsafe_b64decode((jwk.get("n") or jwk["x"]) + "==")


@pytest.mark.parametrize("kid", KIND)
@pytest.mark.parametrize("alg", ["RS256", "ES256", "EdDSA", "RS512", "PS256", "ES384", "HS256", "none"])
def test_the_algorithm_is_the_keys(keyed_node, keys, org, kid, alg):
    if alg == KIND[kid]:
        return
    signed = tokens.signed_part({"alg": alg, "kid": kid}, claims(org))
    token = f"{signed}.{tokens.base64url(keys.signature(KIND[kid], signed.encode()))}"
    ask(keyed_node, token).expect(401, "unauthenticated")


def test_signatures_that_are_nothing(keyed_node, keys, org):
    """An ES256 signature of zeros passed several libraries once; DER instead of r and s is none either."""
    fields = claims(org)
    signed = tokens.signed_part({"alg": "ES256", "kid": "ec"}, fields).encode()
    der = keys.ec.sign(signed, ec.ECDSA(hashes.SHA256()))
    for signature in (bytes(64), b"\xff" * 64, bytes(63), der):
        ask(keyed_node, keys.token("ES256", "ec", fields, signature)).expect(401, "unauthenticated")
    ask(keyed_node, keys.token("EdDSA", "ed", fields, bytes(64))).expect(401, "unauthenticated")
    ask(keyed_node, keys.token("RS256", "rsa", fields, bytes(256))).expect(401, "unauthenticated")


def test_a_token_of_a_key_that_is_not_in_the_file(keyed_node, org):
    stranger = Keys()
    for kid, alg in KIND.items():
        ask(keyed_node, stranger.token(alg, kid, claims(org))).expect(401, "unauthenticated")


def test_an_expired_token_of_a_public_key_says_so(keyed_node, keys, org):
    for kid, alg in KIND.items():
        check_problem(ask(keyed_node, keys.token(alg, kid, claims(org, exp=now(-100)))), "token_expired")


# --- the organization is the token's -------------------------------------------------------------------------


def test_the_organization_comes_from_the_token_alone(client, node, event):
    stranger = Client(node, "another-org", client.user, "admin")
    stranger.get(f"/api/events/{event}?org={client.org}").expect(404, "event_not_found")
    stranger.get(f"/api/events/{event}", headers={"X-Org": client.org}).expect(404, "event_not_found")
    body = {"event_id": event, "seat_ids": ["A-1"], "cart_token": "c", "org": client.org, "org_id": client.org}
    stranger.post("/api/holds", body).expect(404, "event_not_found")


def test_two_organizations_may_use_the_same_names(node, org):
    admins = [Client(node, f"{org}-{n}", "admin", "admin") for n in (1, 2)]
    for admin in admins:
        admin.make_event(2, event="show")
    first = admins[0].as_user("u").held("show", "A-1")
    assert admins[1].as_user("u").seat_status("show", "A-1") == "available"
    second = admins[1].as_user("u").held("show", "A-1")
    assert first["hold_id"] != second["hold_id"]
    admins[0].as_user("u").confirm(first["hold_id"]).expect(200)
    assert admins[1].as_user("u").get_hold(second["hold_id"]).json["status"] == "active"

"""One key and certificate admits to a session, and leaves nothing on a disk."""

from __future__ import annotations

import os
import ssl

import pytest

from pgdb.overlay.credentials import make_credentials, tls_context


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """Do a handshake in memory; return the version, or raise the error of the end that refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    # A TLS 1.3 client learns the server's verdict only after the handshake.
    ends[1].write(b"x")
    assert ends[0].read(1) == b"x"
    return ends[0].version() or ""


def test_both_ends_with_the_sessions_credentials_shake_hands() -> None:
    credentials = make_credentials()
    version = handshake(
        tls_context(credentials, server=True), tls_context(credentials, server=False)
    )
    assert version == "TLSv1.3"


@pytest.mark.parametrize("foreign", ["server", "client"])
def test_an_end_with_credentials_of_its_own_making_is_refused(foreign: str) -> None:
    ours, theirs = make_credentials(), make_credentials()
    assert ours != theirs
    server = tls_context(theirs if foreign == "server" else ours, server=True)
    client = tls_context(theirs if foreign == "client" else ours, server=False)
    with pytest.raises(ssl.SSLError):
        handshake(server, client)


def test_a_client_without_a_certificate_is_refused() -> None:
    credentials = make_credentials()
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        handshake(tls_context(credentials, server=True), bare)


def test_a_client_that_knows_only_the_certificate_is_refused() -> None:
    # The certificate travels in a handshake, and may leak; without its key it admits nobody.
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    credentials = make_credentials()
    certificate = x509.load_pem_x509_certificate(
        credentials[credentials.index(b"-----BEGIN CERT") :]
    )
    other = Ed25519PrivateKey.generate()
    pem = other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ssl.SSLError, match="KEY_VALUES_MISMATCH"):
        tls_context(pem + certificate.public_bytes(Encoding.PEM), server=False)


def test_an_older_protocol_is_refused() -> None:
    credentials = make_credentials()
    old = tls_context(credentials, server=False)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(tls_context(credentials, server=True), old)


def test_no_descriptor_is_left_open() -> None:
    credentials = make_credentials()
    before = set(os.listdir("/proc/self/fd"))
    tls_context(credentials, server=True)
    with pytest.raises(ssl.SSLError):
        tls_context(credentials.replace(b"PRIVATE", b"PUBLIC"), server=True)
    assert set(os.listdir("/proc/self/fd")) == before

"""Credentials of a session's links: one key and certificate, made for the session.

Every link is TLS 1.3. Both ends must show the session's certificate and prove that they hold its
key; no authority and no name is trusted. The key reaches the aggregators through their launcher
(see
:mod:`pgdb.backend.node.wireup`), never on a command line.
"""

from __future__ import annotations

import datetime
import os
import ssl

NAME = "pgdb-session"


def make_credentials() -> bytes:
    """Return new session credentials: a private key and its certificate, in PEM."""
    # The import is here because only the front end makes credentials, and it takes longer than
    # their use.
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of hosts differ and can be set while a session lasts. The key lives only in the
        # session's processes, so a lifetime adds nothing.
        .not_valid_before(datetime.datetime(1970, 1, 2))
        .not_valid_after(datetime.datetime(9999, 12, 31))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, None)
    )
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ) + certificate.public_bytes(serialization.Encoding.PEM)


def tls_context(credentials: bytes, *, server: bool) -> ssl.SSLContext:
    """Return the TLS context for one end of the links of a session."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        # Every link proves the key anew; no ticket of an earlier link replaces the proof.
        context.num_tickets = 0
    certificate = credentials[credentials.index(b"-----BEGIN CERTIFICATE-----") :]
    context.load_verify_locations(cadata=certificate.decode("ascii"))
    # The ssl module reads keys from files only; an anonymous file leaves nothing on a disk.
    file = os.memfd_create("pgdb-credentials", os.MFD_CLOEXEC)
    try:
        os.write(file, credentials)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context

"""Certificates for a queue manager served over TCP: a new certificate authority, and a certificate from it for some hosts.

If your company has certificates, name their files instead of using this module. To make certificates, this module needs the
package `cryptography` (``pip install 'mqflow[tls]'``). To use certificates, it needs only the standard library.
"""

import ipaddress
import os
import re
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ("CertificateError", "CertificateFiles", "client_context", "make_certificates", "server_context")

_AUTHORITY_DAYS: Final = 3_650
_SERVER_DAYS: Final = 397
_COMMON_NAME_CHARS: Final = 64
_LABEL: Final = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")


class CertificateError(Exception):
    """Certificates cannot be made or used. The text names the reason and the remedy."""


class CertificateFiles(Struct, frozen=True):
    """The certificate files of a queue manager."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority that clients trust."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The certificate of the server."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The private key of the server."""
        return self.folder / "server.key"


def make_certificates(folder: Path, hosts: Sequence[str], *, name: str, now: datetime) -> CertificateFiles:
    """Make and return the files: an authority, and a certificate of this authority for these hosts, valid for 397 days.

    The key of the authority is not kept. So the next certificate has a new authority, which clients must receive again.
    Raises `CertificateError` if `cryptography` is not installed, or if there is no host.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 - as above
    except ImportError as error:
        raise CertificateError("Making certificates needs the package cryptography: pip install 'mqflow[tls]'.") from error
    if not hosts:
        raise CertificateError("A certificate needs at least one host: the name or address that clients connect to.")
    files = CertificateFiles(folder)
    names = [_general_name(host) for host in hosts]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, name, now)
    certificate = (
        _builder(_common_name(f"{name} at {hosts[0]}"), authority.subject, key, now, _SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    _write(files.authority, authority.public_bytes(pem), 0o644)
    _write(files.certificate, certificate.public_bytes(pem), 0o644)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _write(files.key, key.private_bytes(pem, form, plain), 0o600)
    return files


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the TLS context of a server. Raises `CertificateError` for files that it cannot use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(
            f"{certificate} and {key} are not a certificate and its key: {error}. `mqflow qmgr tls` makes both."
        ) from error
    return context


def client_context(authority: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts this authority. Without one, the client trusts those of the system.

    The client always checks host names.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"{authority} holds no certificate to trust: {error}.") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _authority(key: "EllipticCurvePrivateKey", name: str, now: datetime) -> "x509.Certificate":
    from cryptography import x509  # noqa: PLC0415 - optional
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - optional

    subject = _common_name(f"mqflow authority of {name}")
    return (
        _builder(subject, subject, key, now, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                key_cert_sign=True,
                crl_sign=True,
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "EllipticCurvePrivateKey", now: datetime, days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415 - optional

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _common_name(text: str) -> "x509.Name":
    from cryptography import x509  # noqa: PLC0415 - optional
    from cryptography.x509.oid import NameOID  # noqa: PLC0415 - optional

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_COMMON_NAME_CHARS])])


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509  # noqa: PLC0415 - optional

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST_NAME.fullmatch(host):
            raise CertificateError(
                f"{host!r} is neither an address nor the name of a host: letters, digits and hyphens between dots (other "
                "scripts as xn--)."
            ) from None
        return x509.DNSName(host)


def _write(path: Path, data: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)

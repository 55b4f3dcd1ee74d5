"""Certificates for a queue manager served over TCP: for the server, and for each user who connects without a password.

If your company has certificates, name their files instead of using this module. Making certificates needs the package
`cryptography` (``pip install 'mqflow[tls]'``). Using certificates needs only the standard library.
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
    from cryptography.x509.oid import ObjectIdentifier

__all__ = (
    "EXPIRES_SOON_DAYS",
    "CertificateError",
    "CertificateFiles",
    "client_context",
    "days_left",
    "make_certificates",
    "make_client_certificate",
    "server_context",
)

EXPIRES_SOON_DAYS: Final = 30
"""A certificate that expires within this number of days needs a new certificate now."""

_AUTHORITY_DAYS: Final = 3_650
_CERTIFICATE_DAYS: Final = 397
_USER_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_NEEDS_CRYPTOGRAPHY: Final = "Making certificates needs the package cryptography: pip install 'mqflow[tls]'."
_COMMON_NAME_CHARS: Final = 64
_LABEL: Final = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")


class CertificateError(Exception):
    """Certificates cannot be made or used. The text gives the reason and the remedy."""


class CertificateFiles(Struct, frozen=True):
    """The certificate files of a queue manager."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate of the authority that clients trust."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """The certificate of the server."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The private key of the server."""
        return self.folder / "server.key"

    @property
    def client_authority(self) -> Path:
        """The certificate of the authority for client certificates, which the server trusts."""
        return self.folder / "clients-ca.pem"

    @property
    def client_authority_key(self) -> Path:
        """The private key that signs client certificates."""
        return self.folder / "clients-ca.key"

    def client(self, user: str) -> Path:
        """Return the path of this user's certificate. The key is beside it."""
        return self.folder / "clients" / f"{user}.pem"

    def all_certificates(self) -> list[Path]:
        """Return the paths of the existing certificates."""
        own = [self.authority, self.certificate, self.client_authority]
        return [path for path in (*own, *sorted((self.folder / "clients").glob("*.pem"))) if path.exists()]


def make_certificates(folder: Path, hosts: Sequence[str], *, name: str, now: datetime) -> CertificateFiles:
    """Make and return the files: an authority, and its certificate for these hosts, valid for 397 days.

    The key of the authority is not kept. So the next certificate has a new authority, which every client needs again. Raises
    `CertificateError` if `cryptography` is not installed, or if `hosts` is empty.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - optional
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 - as above
    except ImportError as error:
        raise CertificateError(_NEEDS_CRYPTOGRAPHY) from error
    if not hosts:
        raise CertificateError("A certificate needs at least one host: the name or address that clients connect to.")
    files = CertificateFiles(folder)
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority_key, key = _new_key(), _new_key()
    authority = _authority(authority_key, name, now)
    subject = _common_name(f"{name} at {hosts[0]}")
    certificate = _signed(subject, key, authority, authority_key, now, ExtendedKeyUsageOID.SERVER_AUTH, names)
    _write_certificate(files.authority, authority)
    _write_certificate(files.certificate, certificate)
    _write_key(files.key, key)
    return files


def make_client_certificate(folder: Path, user: str, *, name: str, now: datetime) -> Path:
    """Make a certificate with which this user connects without a password, and return its path. The key is beside it.

    The first call makes the authority for client certificates. Raises `CertificateError` if `cryptography` is not installed, or
    if the user's name cannot be a file name. Also raises it if the key of the authority is missing or wrong.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - optional
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - as above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above
        from cryptography.x509.oid import ExtendedKeyUsageOID  # noqa: PLC0415 - as above
    except ImportError as error:
        raise CertificateError(_NEEDS_CRYPTOGRAPHY) from error
    if not _USER_NAME.fullmatch(user):
        raise CertificateError(f"{user!r} cannot be the name of a user with a certificate: use letters, digits, dots, - and _.")
    files = CertificateFiles(folder)
    (folder / "clients").mkdir(mode=0o700, parents=True, exist_ok=True)
    if not files.client_authority.exists():
        made = _new_key()
        _write_key(files.client_authority_key, made)
        _write_certificate(files.client_authority, _authority(made, f"the clients of {name}", now))  # written after its key
    elif not files.client_authority_key.exists():
        raise _not_made_here(files)
    authority_key = serialization.load_pem_private_key(files.client_authority_key.read_bytes(), password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{files.client_authority_key} is not a key that this command made.")
    authority = x509.load_pem_x509_certificate(files.client_authority.read_bytes())
    if authority.public_key() != authority_key.public_key():
        raise _not_made_here(files)
    key = _new_key()
    certificate = _signed(_common_name(user), key, authority, authority_key, now, ExtendedKeyUsageOID.CLIENT_AUTH)
    _write_certificate(files.client(user), certificate)
    _write_key(files.client(user).with_suffix(".key"), key)
    return files.client(user)


def days_left(certificate: Path, now: datetime) -> int | None:
    """Return the full days until the certificate expires; negative if it has expired, None without `cryptography`.

    Raises `CertificateError` if the file is not a certificate.
    """
    try:
        from cryptography import x509  # noqa: PLC0415 - optional
    except ImportError:
        return None
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise CertificateError(f"{certificate} is not a certificate: {error}.") from error
    return (found.not_valid_after_utc - now).days


def server_context(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server. Raises `CertificateError` for unusable files.

    With `client_authority`, a client can show a certificate of that authority. A wrong certificate ends the handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(
            f"{certificate} and {key} are not a certificate and its key: {error}. `mqflow qmgr tls` makes both."
        ) from error
    if client_authority is not None:
        try:
            context.load_verify_locations(client_authority)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"{client_authority} holds no certificate to trust: {error}.") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_context(authority: Path | None = None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client. It trusts this authority, or the system's authorities if `authority` is None.

    The client always checks host names. It shows `certificate` to the server if `certificate` is given. Raises
    `CertificateError` for unusable files.
    """
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(f"{authority} holds no certificate to trust: {error}.") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"{certificate} and {key} are not a certificate and its key: {error}.") from error
    return context


def _not_made_here(files: CertificateFiles) -> CertificateError:
    return CertificateError(
        f"{files.client_authority} is not an authority that this command made, because {files.client_authority_key} is not its "
        "key. Let that authority sign the certificate of the user. Or move the file away: then this command makes an "
        "authority of its own, and the queue manager refuses the certificates of the other authority."
    )


def _new_key() -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - optional

    return ec.generate_private_key(ec.SECP256R1())


def _signed(
    subject: "x509.Name",
    key: "EllipticCurvePrivateKey",
    authority: "x509.Certificate",
    authority_key: "EllipticCurvePrivateKey",
    now: datetime,
    usage: "ObjectIdentifier",
    names: "x509.SubjectAlternativeName | None" = None,
) -> "x509.Certificate":
    """Return a certificate of the authority for this use: for a server with these names, or for a client."""
    from cryptography import x509  # noqa: PLC0415 - optional
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - as above

    builder = (
        _builder(subject, authority.subject, key, now, _CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _write_certificate(path: Path, certificate: "x509.Certificate") -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - optional

    _write(path, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _write_key(path: Path, key: "EllipticCurvePrivateKey") -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - optional

    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    _write(path, key.private_bytes(serialization.Encoding.PEM, form, plain), 0o600)


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
                f"{host!r} is neither an address nor the name of a host. Use letters, digits, hyphens and dots. For other "
                "scripts, use the form that begins with xn--."
            ) from None
        return x509.DNSName(host)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Replace the file. A kill leaves either the whole old file or the whole new file."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    new.replace(path)

"""Sentences that say how long certificates are valid. This file reads certificates and makes no connection."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from mqflow.embedded.wire.server.certificates import EXPIRES_SOON_DAYS, CertificateError, CertificateFiles, days_left

__all__ = ("expiry_lines",)


def expiry_lines(certificates: Iterable[Path], now: float, *, only_soon: bool = False) -> Iterator[str]:
    """Yield a sentence for each certificate. With `only_soon`, only for certificates that expire soon or have expired."""
    for path in certificates:
        try:
            days = days_left(path, datetime.fromtimestamp(now, UTC))
        except CertificateError as error:
            yield str(error)
            continue
        if days is None:
            yield "The package cryptography is missing, so nobody says when the certificates expire: pip install 'mqflow[tls]'."
            return
        if days < EXPIRES_SOON_DAYS:
            ends = f"expires in {days} days" if days >= 0 else "has expired"
            yield f"warning: {path} {ends}. {_remedy(path)}"
        elif not only_soon:
            yield f"{path} is valid for {days} more days."


def _remedy(path: Path) -> str:
    """Return the remedy. This file cannot know who made a certificate, and `mqflow qmgr tls` can overwrite it."""
    files = CertificateFiles(path.parent)
    if path in {files.authority, files.certificate}:
        return (
            "If mqflow made it, mqflow qmgr tls NAME HOST --replace makes a new one, and a new ca.pem for the applications. "
            "If your company made it, replace it yourself, because that command would overwrite it."
        )
    if path == files.client_authority:
        return (
            "If mqflow made it, move it away. mqflow qmgr tls NAME --client USER then makes a new one, and every user needs "
            "a new certificate. If your company made it, replace it yourself."
        )
    return (
        "If mqflow made it, mqflow qmgr tls NAME --client USER makes a new one. If your company made it, replace it yourself."
    )

"""Sentences that say how long certificates are valid. This file reads certificates and makes no connection."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from mqflow.embedded.wire.server.certificates import EXPIRES_SOON_DAYS, CertificateError, days_left

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
            yield f"warning: {path} {ends}. mqflow qmgr tls makes a new one."
        elif not only_soon:
            yield f"{path} is valid for {days} more days."

"""The certificates that are made: their names, their times and their uses, and the files that hold them."""

import ssl
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mqflow.embedded.wire.server.certificates import (
    CertificateError,
    CertificateFiles,
    client_context,
    days_left,
    make_certificates,
    make_client_certificate,
    server_context,
)

NOW = datetime(2031, 5, 6, 7, 8, 9, tzinfo=UTC)
OWN_PARTS = {x509.SubjectKeyIdentifier, x509.AuthorityKeyIdentifier}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    folder = tmp_path_factory.mktemp("tls")
    made = make_certificates(folder, ["127.0.0.1", "::1", "*.example.com"], name="QM1", now=NOW)
    make_client_certificate(folder, "bob", name="QM1", now=NOW)
    make_client_certificate(folder, "alice", name="QM1", now=NOW)
    return made


def read(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def common_name(name: x509.Name) -> str:
    [found] = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found.value)


def described(path: Path) -> tuple[str, str, datetime, datetime]:
    """Return the subject, the issuer, and the first and last time of the certificate."""
    found = read(path)
    return common_name(found.subject), common_name(found.issuer), found.not_valid_before_utc, found.not_valid_after_utc


def extensions(path: Path) -> dict[x509.ExtensionType, bool]:
    """Return the extensions with whether each is critical, without the identifiers of keys."""
    return {each.value: each.critical for each in read(path).extensions if type(each.value) not in OWN_PARTS}


def test_certificates_name_their_authority_and_are_valid_from_an_hour_ago(files: CertificateFiles) -> None:
    since, ten_years, thirteen_months = NOW - timedelta(hours=1), NOW + timedelta(days=3_650), NOW + timedelta(days=397)
    own, of_clients = "mqflow authority of QM1", "mqflow authority of the clients of QM1"

    assert (own, own, since, ten_years) == described(files.authority)
    assert (of_clients, of_clients, since, ten_years) == described(files.client_authority)
    assert ("QM1 at 127.0.0.1", own, since, thirteen_months) == described(files.certificate)
    assert ("alice", of_clients, since, thirteen_months) == described(files.client("alice"))


def test_an_authority_signs_certificates_and_nothing_else(files: CertificateFiles) -> None:
    flags = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    only_signs = x509.KeyUsage(
        key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False, **dict.fromkeys(flags, False)
    )
    expected = {x509.BasicConstraints(ca=True, path_length=0): True, only_signs: True}

    assert [expected, expected] == [extensions(files.authority), extensions(files.client_authority)]


def test_a_certificate_is_for_one_use_and_is_no_authority(files: CertificateFiles) -> None:
    no_authority = {x509.BasicConstraints(ca=False, path_length=None): True}
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ip_address("127.0.0.1")), x509.IPAddress(ip_address("::1")), x509.DNSName("*.example.com")]
    )
    of_server, of_client = (
        x509.ExtendedKeyUsage([usage]) for usage in (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    )

    assert no_authority | {of_server: False, names: False} == extensions(files.certificate)
    assert no_authority | {of_client: False} == extensions(files.client("alice"))


def test_a_certificate_names_its_own_key_and_the_key_of_its_authority(files: CertificateFiles) -> None:
    for path, signer in ((files.certificate, files.authority), (files.client("bob"), files.client_authority)):
        made, authority = read(path), read(signer)
        made.verify_directly_issued_by(authority)
        keys = [x509.SubjectKeyIdentifier.from_public_key(each.public_key()).digest for each in (made, authority)]
        own = made.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        of_authority = made.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier)
        of_signer = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
        assert keys == [own.value.digest, of_authority.value.key_identifier]
        assert keys[1] == of_signer.value.digest
        assert not any(each.critical for each in (own, of_authority, of_signer))


def test_the_files_of_a_queue_manager_have_fixed_names_and_modes(files: CertificateFiles) -> None:
    found = {
        str(path.relative_to(files.folder)): path.stat().st_mode & 0o777 for path in files.folder.rglob("*") if path.is_file()
    }

    public = ["ca.pem", "server.pem", "clients-ca.pem", "clients/alice.pem", "clients/bob.pem"]
    private = ["server.key", "clients-ca.key", "clients/alice.key", "clients/bob.key"]
    assert dict.fromkeys(public, 0o644) | dict.fromkeys(private, 0o600) == found
    assert {0o700} == {(files.folder / name).parent.stat().st_mode & 0o777 for name in private}
    assert [files.folder / name for name in public] == files.all_certificates()


def test_the_files_of_a_kill_are_replaced_and_a_second_call_renews_the_certificate(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, ["localhost"], name="QM1", now=NOW)
    before = [read(path).serial_number for path in (first.authority, first.certificate)]
    (tmp_path / "server.key.new").write_text("half")
    make_certificates(tmp_path, ["localhost"], name="QM1", now=NOW)

    after = [read(path).serial_number for path in (first.authority, first.certificate)]
    assert 4 == len({*before, *after})
    assert ["ca.pem", "server.key", "server.pem"] == sorted(path.name for path in tmp_path.iterdir())


def test_a_long_name_is_cut_to_the_64_characters_of_a_common_name(tmp_path: Path) -> None:
    host = ".".join(["a" * 63, "b" * 63, "example"])
    made = make_certificates(tmp_path, [host], name="QM1", now=NOW)

    assert f"QM1 at {host}"[:64] == common_name(read(made.certificate).subject)


@pytest.mark.parametrize("host", ["", "a b", "-a", "a-", "a..b", "a.*", "a" * 64, "é", "https://a"])
def test_a_host_that_is_no_name_gets_no_certificate(tmp_path: Path, host: str) -> None:
    with pytest.raises(CertificateError) as refused:
        make_certificates(tmp_path / "made", [host], name="QM1", now=NOW)

    said = "is neither an address nor the name of a host. Use letters, digits, hyphens and dots. For other scripts, "
    assert f"{host!r} {said}use the form that begins with xn--." == str(refused.value)
    assert [] == list(tmp_path.iterdir())


def test_a_certificate_without_a_host_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CertificateError) as refused:
        make_certificates(tmp_path, [], name="QM1", now=NOW)

    assert "A certificate needs at least one host: the name or address that clients connect to." == str(refused.value)


def test_whole_days_are_left_until_a_certificate_expires(files: CertificateFiles, tmp_path: Path) -> None:
    second, days = timedelta(seconds=1), timedelta(days=397)
    times = [NOW, NOW + second, NOW + days - second, NOW + days, NOW + days + second]

    assert [397, 396, 0, 0, -1] == [days_left(files.certificate, time) for time in times]
    with pytest.raises(CertificateError, match=r"nothing\.pem is not a certificate: .*No such file"):
        days_left(tmp_path / "nothing.pem", NOW)


def test_a_context_of_tls_takes_tls_1_2_and_later_and_asks_clients_only_with_an_authority(files: CertificateFiles) -> None:
    alice = files.client("alice")
    server = server_context(files.certificate, files.key)
    asking = server_context(files.certificate, files.key, files.client_authority)
    client = client_context(files.authority, alice, alice.with_suffix(".key"))

    assert {ssl.TLSVersion.TLSv1_2} == {each.minimum_version for each in (server, asking, client)}
    assert [ssl.CERT_NONE, ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED] == [each.verify_mode for each in (server, asking, client)]
    assert ([], 1, 1) == (server.get_ca_certs(), len(asking.get_ca_certs()), len(client.get_ca_certs()))
    assert client.check_hostname


def test_files_that_tls_cannot_use_are_named(files: CertificateFiles, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.pem"
    makes: list[tuple[Callable[[], object], str]] = [
        (
            lambda: server_context(files.certificate, nothing),
            f"{files.certificate} and {nothing} are not a certificate and its key",
        ),
        (lambda: server_context(files.certificate, files.key, nothing), f"{nothing} holds no certificate to trust"),
        (lambda: client_context(nothing), f"{nothing} holds no certificate to trust"),
        (lambda: client_context(None, nothing, files.key), f"{nothing} and {files.key} are not a certificate and its key"),
    ]
    for make, said in makes:
        with pytest.raises(CertificateError) as refused:
            make()
        assert str(refused.value).startswith(said)


def test_only_the_making_of_certificates_needs_cryptography(
    files: CertificateFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    makes: list[Callable[[], object]] = [
        lambda: make_certificates(tmp_path, ["localhost"], name="QM1", now=NOW),
        lambda: make_client_certificate(tmp_path, "alice", name="QM1", now=NOW),
    ]
    for make in makes:
        with pytest.raises(CertificateError, match=r"needs the package cryptography: pip install 'mqflow\[tls\]'"):
            make()
    assert days_left(files.certificate, NOW) is None
    assert server_context(files.certificate, files.key)

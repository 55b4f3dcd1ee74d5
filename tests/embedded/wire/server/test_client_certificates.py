"""Client certificates: a user connects without a password, and a wrong certificate is refused with the reason."""

import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mqflow.cli.queue_managers.expiry import expiry_lines
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.certificates import (
    CertificateError,
    CertificateFiles,
    client_context,
    days_left,
    make_certificates,
    make_client_certificate,
    server_context,
)
from mqflow.embedded.wire.server.listener import Server, serve_tcp
from mqflow.embedded.wire.server.users_file import UsersFile
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.authorities import QUEUE_MANAGER_PROFILE, Authority, AuthorityKind
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions

QUEUE = "ORDERS.IN"
SECRET = "correct horse"  # noqa: S105 - a test's
NOW = datetime.now(UTC)
LONG_AGO = NOW - timedelta(days=1_000)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return make_certificates(tmp_path_factory.mktemp("tls") / "made", ["127.0.0.1"], name="QM1", now=NOW)


@pytest.fixture(scope="module")
def alice(files: CertificateFiles) -> Path:
    return make_client_certificate(files.folder, "alice", name="QM1", now=NOW)


@pytest.fixture
def users(tmp_path: Path) -> UsersFile:
    return UsersFile(tmp_path / "users.json", salt=lambda size: bytes(range(size)), cost=2)


@pytest.fixture
def server(files: CertificateFiles, alice: Path, users: UsersFile) -> Iterator[Server]:
    assert alice.exists()  # it comes with the authority that the server trusts
    context = server_context(files.certificate, files.key, files.client_authority)
    with EmbeddedQueueManager("QM1") as owner:
        owner.administration.define(QueueAttributes(name=QUEUE))
        grant = owner.administration.authorities.set
        grant(AuthorityKind.QMGR, QUEUE_MANAGER_PROFILE, "alice", group=False, add={Authority.CONNECT}, remove=())
        grant(AuthorityKind.QUEUE, QUEUE, "alice", group=False, add={Authority.GET, Authority.PUT}, remove=())
        with serve_tcp(owner, TcpAddress("127.0.0.1", 0), users, tls=context) as server:
            yield server


def _client(files: CertificateFiles, certificate: Path | None) -> ssl.SSLContext:
    if certificate is None:
        return client_context(files.authority)
    return client_context(files.authority, certificate, certificate.with_suffix(".key"))


def _refused(server: Server, files: CertificateFiles, certificate: Path | None, user: str = "") -> MQIError:
    with pytest.raises(MQIError) as refused:
        ServedQueueManager(server.address, tls=_client(files, certificate), user=user).connect()
    return refused.value


@pytest.mark.parametrize("user", ["", "alice"])
def test_a_user_with_a_certificate_works_without_a_password(
    server: Server, files: CertificateFiles, alice: Path, user: str
) -> None:
    connection = ServedQueueManager(server.address, tls=_client(files, alice), user=user).connect()
    handle = connection.open(QUEUE, OpenOption.INPUT_SHARED | OpenOption.OUTPUT)
    connection.put(handle, MessageDescriptor(), b"an order", PutOption.NO_SYNCPOINT)
    got = connection.get(handle, GetOptions(options=GetOption.NO_SYNCPOINT))
    connection.disconnect()

    assert got is not None
    assert "alice" == got.descriptor.user_identifier


@pytest.mark.parametrize(("user", "said"), [("bob", "User bob lacks CONNECT"), ("mqm", "but not over TCP")])
def test_a_certificate_gives_only_the_authorities_that_its_user_has_over_tcp(
    server: Server, files: CertificateFiles, user: str, said: str
) -> None:
    refused = _refused(server, files, make_client_certificate(files.folder, user, name="QM1", now=NOW))

    assert (Reason.NOT_AUTHORIZED, True) == (refused.reason, said in str(refused))


def test_a_certificate_is_for_its_own_user_only(server: Server, files: CertificateFiles, alice: Path) -> None:
    refused = _refused(server, files, alice, user="bob")

    assert Reason.NOT_AUTHORIZED == refused.reason
    assert "The certificate is for alice, not for bob" in str(refused)


def test_a_user_with_a_password_needs_no_certificate(
    server: Server, files: CertificateFiles, users: UsersFile, alice: Path
) -> None:
    users.set("alice", SECRET)
    for certificate in (None, alice):
        tls = _client(files, certificate)
        ServedQueueManager(server.address, tls=tls, user="alice", password=SECRET).connect().disconnect()

    assert Reason.NOT_AUTHORIZED == _refused(server, files, None, user="alice").reason


def test_without_a_certificate_and_without_a_password_nobody_gets_in(server: Server, files: CertificateFiles) -> None:
    assert Reason.NOT_AUTHORIZED == _refused(server, files, None).reason


def test_an_expired_certificate_is_refused_with_the_reason(
    server: Server, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    old = make_client_certificate(files.folder, "old", name="QM1", now=LONG_AGO)
    refused = _refused(server, files, old)
    server.close()

    said = "The certificate of a peer at 127.0.0.1 was refused: certificate has expired. This is number 1 since the start."
    assert [said] == caplog.messages

    assert Reason.SSL_INITIALIZATION_ERROR == refused.reason
    assert "The queue manager refused the certificate of this client" in str(refused)
    assert "expired" in str(refused)


def test_a_certificate_of_another_authority_is_refused_with_the_reason(
    server: Server, files: CertificateFiles, tmp_path: Path
) -> None:
    foreign = make_client_certificate(tmp_path / "tls", "alice", name="QM1", now=NOW)
    refused = _refused(server, files, foreign)

    assert Reason.SSL_INITIALIZATION_ERROR == refused.reason
    assert "The queue manager refused the certificate of this client" in str(refused)


def test_the_certificate_of_a_server_is_not_one_of_a_client(server: Server, files: CertificateFiles) -> None:
    assert Reason.SSL_INITIALIZATION_ERROR == _refused(server, files, files.certificate).reason


@pytest.mark.parametrize("user", ["../alice", "", "a b", "a/b", ".hidden"])
def test_a_name_that_is_no_file_name_gets_no_certificate(tmp_path: Path, user: str) -> None:
    with pytest.raises(CertificateError, match="cannot be the name of a user with a certificate"):
        make_client_certificate(tmp_path, user, name="QM1", now=NOW)

    assert [] == list(tmp_path.iterdir())


def test_the_authority_of_the_company_is_not_replaced(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path)
    files.client_authority.write_text("the authority of the company")

    with pytest.raises(CertificateError, match=r"clients-ca\.pem is not an authority that this command made"):
        make_client_certificate(tmp_path, "alice", name="QM1", now=NOW)
    assert "the authority of the company" == files.client_authority.read_text()
    assert not files.client_authority_key.exists()
    assert not files.client("alice").exists()


def test_the_key_of_an_earlier_authority_signs_nothing_for_the_authority_of_the_company(
    files: CertificateFiles, alice: Path, tmp_path: Path
) -> None:
    make_client_certificate(tmp_path, "alice", name="QM1", now=NOW)
    assert alice.exists()
    CertificateFiles(tmp_path).client_authority.write_bytes(files.client_authority.read_bytes())

    with pytest.raises(CertificateError, match=r"clients-ca\.pem is not an authority that this command made"):
        make_client_certificate(tmp_path, "bob", name="QM1", now=NOW)
    assert not CertificateFiles(tmp_path).client("bob").exists()


def test_an_authority_that_a_kill_left_half_made_is_made_again(tmp_path: Path) -> None:
    """The key comes first and the certificate last, so a kill leaves the key alone."""
    files = CertificateFiles(tmp_path)
    make_client_certificate(tmp_path, "alice", name="QM1", now=NOW)
    files.client_authority.unlink()
    bob = make_client_certificate(tmp_path, "bob", name="QM1", now=NOW)

    authority, made = (x509.load_pem_x509_certificate(path.read_bytes()) for path in (files.client_authority, bob))
    made.verify_directly_issued_by(authority)


@pytest.mark.parametrize("common_names", [("Users", "alice"), ("alice", "Users")])
def test_a_certificate_with_two_common_names_is_for_no_user(
    server: Server,
    files: CertificateFiles,
    users: UsersFile,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    common_names: tuple[str, ...],
) -> None:
    """A directory writes DC=corp,CN=Users,CN=alice: the first common name would make each person the same user."""
    certificate = _with_common_names(files, tmp_path, common_names)
    users.set("alice", SECRET)
    for user in ("", "alice"):
        refused = _refused(server, files, certificate, user=user)
        assert Reason.NOT_AUTHORIZED == refused.reason
        assert f"has 2 common names ({', '.join(map(repr, common_names))}), so it is for no user" in str(refused)
    tls = _client(files, certificate)
    ServedQueueManager(server.address, tls=tls, user="alice", password=SECRET).connect().disconnect()

    assert f"has 2 common names ({', '.join(map(repr, common_names))}), so it is for no user" in caplog.text


def _with_common_names(files: CertificateFiles, folder: Path, names: Sequence[str]) -> Path:
    authority = x509.load_pem_x509_certificate(files.client_authority.read_bytes())
    signer = serialization.load_pem_private_key(files.client_authority_key.read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    (folder / "person.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "person.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return folder / "person.pem"


@pytest.mark.parametrize(
    ("after_days", "ends"),
    [
        (0, "is valid for 397 more days."),
        (367, "is valid for 30 more days."),
        (368, "expires in 29 days"),
        (398, "has expired"),
    ],
)
def test_a_sentence_says_how_long_a_certificate_is_valid(tmp_path: Path, after_days: int, ends: str) -> None:
    certificate = make_client_certificate(tmp_path, "alice", name="QM1", now=NOW)
    later = (NOW + timedelta(days=after_days)).replace(microsecond=0) - timedelta(seconds=1)
    [line] = [
        line
        for line in expiry_lines(CertificateFiles(tmp_path).all_certificates(), later.timestamp())
        if str(certificate) in line
    ]

    assert ends in line
    assert ("warning" in line) == (after_days > 367)


def test_a_reader_can_ask_for_the_certificates_that_expire_soon(tmp_path: Path) -> None:
    make_client_certificate(tmp_path, "alice", name="QM1", now=NOW)
    later = (NOW + timedelta(days=390)).timestamp()

    assert 1 == len(list(expiry_lines(CertificateFiles(tmp_path).all_certificates(), later, only_soon=True)))
    assert 397 == days_left(CertificateFiles(tmp_path).client("alice"), NOW.replace(microsecond=0))

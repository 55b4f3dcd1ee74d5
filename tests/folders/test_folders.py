"""Every folder keeps the promises of the protocol: on a disk, and in an object store with a real server."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mqflow.folders import ChangedError, Folder, FolderError, folder_at
from mqflow.folders.object_folder import ObjectFolder
from tests.object_store import new_bucket


@pytest.fixture(params=["disk", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "disk":
        made = folder_at(tmp_path / "folder")
    else:
        request.getfixturevalue("server")
        made = folder_at(f"{new_bucket()}/some/prefix")
    made.make()
    return made


def names(folder: Folder) -> list[str]:
    return [entry.name for entry in folder.files()]


def test_a_written_file_is_listed_with_its_size_and_read_whole(folder: Folder) -> None:
    folder.write("b", b"12345")
    folder.write("a", b"")
    assert [(entry.name, entry.size_bytes) for entry in folder.files()] == [("a", 0), ("b", 5)]
    assert folder.read("b") == b"12345"
    assert folder.exists("b")


def test_a_folder_that_does_not_exist_is_empty(folder: Folder) -> None:
    other = folder.folder("other")
    assert (other.files(), other.folders(), other.exists("a")) == ([], [], False)


def test_files_of_a_folder_inside_are_not_files_of_the_folder(folder: Folder) -> None:
    inside = folder.folder("inside")
    inside.make()
    inside.write("a", b"1")
    assert (names(folder), folder.folders(), names(inside)) == ([], ["inside"], ["a"])


def test_a_power_cut_loses_no_new_folder_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[int] = set()
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.add(os.fstat(descriptor).st_ino))

    folder_at(tmp_path / "a" / "b" / "c").make()

    assert {path.stat().st_ino for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "b")} == synced


def test_a_file_that_does_not_exist_is_named_by_the_error(folder: Folder) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        folder.read("missing")


def test_a_file_is_created_once_and_the_same_contents_again_are_no_error(folder: Folder) -> None:
    folder.create("a", b"first")
    folder.create("a", b"first")
    with pytest.raises(FileExistsError, match="a"):
        folder.create("a", b"second")
    assert folder.read("a") == b"first"
    assert names(folder) == ["a"]


def test_of_many_creators_of_one_file_one_succeeds(folder: Folder) -> None:
    def create(number: int) -> bool:
        try:
            folder.create("a", f"of {number}".encode())
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(create, range(8)))
    assert created.count(True) == 1
    assert folder.read("a") == f"of {created.index(True)}".encode()


def test_a_file_is_replaced_only_if_it_still_has_the_version_that_was_read(folder: Folder) -> None:
    folder.create("a", b"one")
    data, version = folder.read_version("a")
    assert data == b"one"
    folder.replace("a", b"two", version)
    with pytest.raises(ChangedError, match="changed by another process"):
        folder.replace("a", b"three", version)
    assert folder.read("a") == b"two"
    folder.replace("a", b"four")
    assert (folder.read("a"), names(folder)) == (b"four", ["a"])


def test_of_many_writers_that_read_one_version_one_succeeds(folder: Folder) -> None:
    folder.create("a", b"first")
    _, version = folder.read_version("a")

    def replace(number: int) -> bool:
        try:
            folder.replace("a", f"of {number}".encode(), version)
        except ChangedError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        replaced = list(pool.map(replace, range(8)))
    assert replaced.count(True) == 1
    assert folder.read("a") == f"of {replaced.index(True)}".encode()


def test_a_published_file_has_its_final_name_only_and_a_second_publication_changes_nothing(folder: Folder) -> None:
    folder.write("a.pend", b"rows")
    folder.publish("a.pend", "a.done")
    folder.publish("a.pend", "a.done")
    assert (names(folder), folder.read("a.done")) == (["a.done"], b"rows")


def test_a_publication_that_a_kill_interrupted_is_finished(folder: Folder) -> None:
    folder.write("a.done", b"rows")
    folder.write("a.pend", b"rows")  # in a store, both can exist; on a disk, a rename leaves one
    folder.publish("a.pend", "a.done")
    assert (names(folder), folder.read("a.done")) == (["a.done"], b"rows")


def test_a_publication_of_a_file_that_was_never_written_is_an_error(folder: Folder) -> None:
    with pytest.raises(FileNotFoundError):
        folder.publish("a.pend", "a.done")


def test_a_store_publishes_nothing_over_other_contents(server: dict[str, str]) -> None:
    folder = folder_at(f"{new_bucket()}/x")
    folder.write("a.done", b"others")
    folder.write("a.pend", b"rows")
    with pytest.raises(FileExistsError, match=r"a\.done"):
        folder.publish("a.pend", "a.done")
    assert (folder.read("a.done"), folder.read("a.pend")) == (b"others", b"rows")


def test_a_file_is_removed_once_and_a_second_removal_is_no_error(folder: Folder) -> None:
    folder.write("a", b"1")
    folder.remove("a")
    folder.remove("a")
    assert names(folder) == []


def test_a_folder_can_be_pickled(folder: Folder) -> None:
    folder.write("a", b"1")
    copy: Folder = pickle.loads(pickle.dumps(folder))  # noqa: S301 - of this test
    assert copy.read("a") == b"1"


def test_only_a_disk_has_a_path_and_a_limit(folder: Folder) -> None:
    assert (folder.path is None) == (folder.room_bytes() is None) == folder.uri.startswith("s3://")


@pytest.mark.parametrize(
    ("uri", "found"),
    [
        ("/data/journal", "/data/journal"),
        ("file:///data/journal", "/data/journal"),
        ("file:/data/journal", "/data/journal"),
        ("file://localhost/data/a%20b", "/data/a b"),
        ("s3://bucket/journal/", "s3://bucket/journal"),
        ("s3a://bucket/journal", "s3://bucket/journal"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a#b?c%20d", "s3://bucket/a#b?c%20d"),
        ("file:///data/a#b", "/data/a#b"),
    ],
)
def test_a_uri_names_a_folder(uri: str, found: str) -> None:
    assert folder_at(uri).uri == found


def test_a_path_without_a_scheme_is_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_at("journal").uri == str(tmp_path / "journal")
    assert folder_at("a:b").uri == str(tmp_path / "a:b")


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("hdfs://namenode/journal", "scheme hdfs: are not supported"),
        ("viewfs:///journal", "scheme viewfs: are not supported"),
        ("gs://bucket/journal", "scheme gs: are not supported"),
        ("https://host/journal", "scheme https: are not supported"),
        ("file://host/journal", "names the machine host"),
        ("s3:///journal", "names no bucket"),
    ],
)
def test_another_uri_is_refused_with_the_kinds_that_work(uri: str, text: str) -> None:
    with pytest.raises(FolderError, match=text):
        folder_at(uri)


def test_an_answer_of_the_store_is_one_line_with_the_operation_and_the_uri(server: dict[str, str]) -> None:
    with pytest.raises(FolderError, match=r"^The object store refused to write s3://no-such-bucket/x/a: NoSuchBucket") as found:
        ObjectFolder("s3://no-such-bucket/x").write("a", b"1")
    assert "\n" not in str(found.value)

"""The notes about messages that failed: bounded, and each kind of note keeps the others."""

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.runtime.message_notes import MemoryNotes, Note, message_key
from mqflow.verbs import Got

A = b"A" * 16


def test_the_10_000_messages_that_were_noted_last_are_remembered() -> None:
    notes = MemoryNotes()
    keys = [b"%d" % number for number in range(10_000)]
    notes.forgive(keys)
    all_known = notes.read(keys[0])
    notes.forgive([keys[0], A])

    assert (Note(1), Note(2), Note(), Note(1)) == (all_known, *map(notes.read, (keys[0], keys[1], keys[2])))


def test_the_key_of_a_message_is_its_token_or_else_its_two_identifiers() -> None:
    descriptor = MessageDescriptor(message_id=b"M" * 24, correlation_id=b"C" * 24)

    def got(token: bytes) -> Got:
        return Got(descriptor=descriptor, body=b"", data_bytes=0, message_token=token)

    assert (A, b"M" * 24 + b"C" * 24) == (message_key(got(A)), message_key(got(bytes(16))))

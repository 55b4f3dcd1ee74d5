"""The refusal of a user names the missing authority, the object, and the command that grants the authority."""

import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.state.access import Authorities
from mqflow.embedded.state.users import Users
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.options import OpenOption
from tests.doubles import queue_manager_with

AS_ANOTHER = OpenOption.ALTERNATE_USER_AUTHORITY


queue_manager = queue_manager_with("DEFINE QLOCAL(Q)", "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)")


def refusal(queue_manager: EmbeddedQueueManager, options: OpenOption, *, user: str = "app") -> str:
    with pytest.raises(NotAuthorizedError) as raised:
        queue_manager.connect(user=user).open("Q", options)
    return raised.value.detail


def test_everything_that_is_missing_is_named_at_once_with_the_commands_that_give_it(
    queue_manager: EmbeddedQueueManager,
) -> None:
    assert (
        "User app lacks PUT and SETALL on queue Q: "
        "SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,SETALL). "
        "User app lacks SETALL on the queue manager: SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(SETALL)"
    ) == refusal(queue_manager, OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)


@pytest.mark.parametrize("user", ["app", "o'brien"])
def test_the_command_that_the_refusal_names_helps(queue_manager: EmbeddedQueueManager, user: str) -> None:
    run("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('o''brien') AUTHADD(CONNECT)", queue_manager.administration)
    for options in (OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT, OpenOption.BROWSE | OpenOption.INQUIRE):
        for sentence in refusal(queue_manager, options, user=user).split(". "):
            run(sentence.partition(": ")[2], queue_manager.administration)
        queue_manager.connect(user=user).open("Q", options)


def test_a_connection_that_is_refused_says_so(queue_manager: EmbeddedQueueManager) -> None:
    assert (
        "User other lacks CONNECT on the queue manager: SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('other') AUTHADD(CONNECT)"
    ) == refusal(queue_manager, OpenOption.OUTPUT, user="other")


def test_a_blank_alternate_user_has_no_authority(queue_manager: EmbeddedQueueManager) -> None:
    """AlternateUserId: blank, "the open can succeed only if no user authorization is needed"."""
    run("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(ALTUSR)", queue_manager.administration)

    assert "The call names no alternate user, and a call without a user has no PUT on queue Q" == refusal(
        queue_manager, OpenOption.OUTPUT | AS_ANOTHER
    )


def test_a_queue_manager_opened_as_a_user_connects_as_that_user() -> None:
    with EmbeddedQueueManager("QM1", user="app") as queue_manager:
        run("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('other') AUTHADD(CONNECT)", queue_manager.administration)

        with pytest.raises(NotAuthorizedError):
            queue_manager.connect()
        queue_manager.connect(user="other")
        with pytest.raises(NotAuthorizedError):
            assert queue_manager.administration


def test_answers_about_queues_with_ever_new_names_are_not_remembered_for_ever() -> None:
    """Each requester has a dynamic queue of its own for replies, and the replier opens each queue by its name."""
    asked = 0

    def groups(_: str) -> frozenset[str]:
        nonlocal asked
        asked += 1
        return frozenset()

    record = AuthorityRecord(
        kind=AuthorityKind.QUEUE, profile="AMQ.**", entity="app", group=False, authorities=frozenset({Authority.PUT})
    )
    authorities = Authorities({"1": record}, Users("mqm", groups))

    held = {frozenset(authorities.held("app", AuthorityKind.QUEUE, f"AMQ.{number:X}")) for number in range(30_000)}

    assert held == {frozenset({Authority.PUT})}
    assert asked == 1
    assert sum(len(value) for value in vars(authorities).values() if isinstance(value, dict)) < 15_000


def test_a_user_that_administers_no_more_loses_every_authority_at_once() -> None:
    administrators = {"alice"}
    authorities = Authorities({}, Users("mqm", lambda _: frozenset()))
    authorities.require(lambda user: user in administrators)
    before = authorities.held("alice", AuthorityKind.QUEUE, "Q")

    administrators.clear()

    assert (True, frozenset()) == (Authority.GET in before, authorities.held("alice", AuthorityKind.QUEUE, "Q"))

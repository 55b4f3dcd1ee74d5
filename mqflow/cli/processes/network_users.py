"""Sentences for the operator about the rights of users with a password, which connect over TCP."""

from collections.abc import Iterator

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.users_file import UsersFile, UsersFileError
from mqflow.mqi.authorities import QUEUE_MANAGER_PROFILE, Authority, AuthorityKind

__all__ = ("rights_over_tcp",)


def rights_over_tcp(queue_manager: EmbeddedQueueManager, users: UsersFile) -> Iterator[str]:
    """Yield a sentence about the rights of each user with a password. If the file of the users cannot be read, say why."""
    try:
        yield from _rights(queue_manager, users)
    except UsersFileError as error:
        yield str(error)


def _rights(queue_manager: EmbeddedQueueManager, users: UsersFile) -> Iterator[str]:
    authorities = queue_manager.administration.authorities
    for user in users.names():
        if users.administers(user):
            yield f"{user} administers {queue_manager.name} over TCP."
        elif queue_manager.administers(user):
            yield f"{user} administers {queue_manager.name} on this machine only: over TCP it is refused (2035)."
        elif Authority.CONNECT in authorities.held(AuthorityKind.QMGR, QUEUE_MANAGER_PROFILE, user, group=False):
            yield f"{user} can connect over TCP; DISPLAY AUTHREC shows its authorities."
        else:
            yield f"{user} has no CONNECT, so over TCP it is refused (2035). Grant authorities with SET AUTHREC (mqflow mqsc)."

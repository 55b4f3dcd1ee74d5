"""Who may publish and subscribe: an authority on a topic object holds for its topic and for every topic below.

Called under the machine's lock. Source: IBM, "Access control for topics": the tree is walked up until an authority is found.
"""

from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.authorities import Authority, Kind, Need

__all__ = ("check_topic_authority",)


def check_topic_authority(state: QueueManagerState, user: str, topic_string: str, authority: Authority) -> None:
    """Refuse with 2035 where no topic object from the topic up to SYSTEM.BASE.TOPIC gives the user the authority."""
    if not state.authorities.checked:
        return
    names = state.topics.names_above(topic_string)
    if not any(authority in state.authorities.held(user, Kind.TOPIC, name) for name in names):
        state.authorities.check(user, (Need(Kind.TOPIC, names[0], authority),))

"""Who may publish and subscribe: an authority on a topic object holds for its topic and for every topic below.

Called under the machine's lock. Source: IBM, "Access control for topics": the tree is walked up until an authority is found.
"""

from mqflow.embedded.state.queue_manager_state import Machine
from mqflow.mqi.authorities import Authority, Kind, Need

__all__ = ("check_topic_authority",)


def check_topic_authority(machine: Machine, user: str, topic_string: str, authority: Authority) -> None:
    """Refuse with 2035 where no topic object from the topic up to SYSTEM.BASE.TOPIC gives the user the authority."""
    if not machine.authorities.checked:
        return
    names = machine.topics.names_above(topic_string)
    if not any(authority in machine.authorities.held(user, Kind.TOPIC, name) for name in names):
        machine.authorities.check(user, (Need(Kind.TOPIC, names[0], authority),))

"""MQSC for the embedded queue manager: the script that defines a team's queues on a real one defines them here.

`parse` understands a script without touching anything; `run` carries it out on an `Administration`; `to_mqsc` writes a queue
down again. What MQSC has and the embedded queue manager has not is said by name, and is no error.
"""

from mqflow.embedded.mqsc.commands import Command, SyntaxProblem
from mqflow.embedded.mqsc.display import to_mqsc
from mqflow.embedded.mqsc.interpreter import EXIT_FAILED, Response, Results, Verdict, execute, run
from mqflow.embedded.mqsc.parser import parse

__all__ = ("EXIT_FAILED", "Command", "Response", "Results", "SyntaxProblem", "Verdict", "execute", "parse", "run", "to_mqsc")

"""MQSC for the embedded queue manager: a script that defines queues on IBM MQ defines the same queues here.

`parse` reads a script and changes nothing. `run` carries a script out on an `Administration`. `to_mqsc` writes a queue as the
command that defines it. If a script uses a part of MQSC that the embedded queue manager lacks, the response names that part,
but the script does not fail.

No module here imports `mqflow.embedded.state`, `mqflow.embedded.connection`, `mqflow.embedded.wire` or `mqflow.verbs`.
"""

from mqflow.embedded.mqsc.commands import Command, SyntaxProblem
from mqflow.embedded.mqsc.display import to_mqsc
from mqflow.embedded.mqsc.interpreter import EXIT_FAILED, Response, Results, Verdict, execute, run
from mqflow.embedded.mqsc.parser import parse

__all__ = ("EXIT_FAILED", "Command", "Response", "Results", "SyntaxProblem", "Verdict", "execute", "parse", "run", "to_mqsc")

"""The command server: it carries out the PCF commands that arrive on SYSTEM.ADMIN.COMMAND.QUEUE, and answers them.

`server` gets the commands and puts the responses. `commands` has the function of each command. `request` checks the parameters
of a command. `values` and `selection` convert between PCF parameters and the tables of attributes. Each command becomes an
action of MQSC.

No module here imports `mqflow.embedded.storage`, `mqflow.embedded.wire` or `threading`.
"""

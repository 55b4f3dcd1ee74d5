"""The command server: carries out the PCF commands that arrive on SYSTEM.ADMIN.COMMAND.QUEUE, and replies to them.

`server` gets the commands, and `replies` puts the responses. `commands` has the function of each command. `request` checks the
parameters of a command. `values` and `selection` convert between PCF parameters and the tables of attributes. Most commands
become an action of MQSC.

No module here imports `mqflow.embedded.storage`, `mqflow.embedded.wire` or `threading`.
"""

"""The command server: PCF commands that arrive on SYSTEM.ADMIN.COMMAND.QUEUE are carried out, and answered.

`server` takes messages off the queue and puts responses; `commands` says which command does what; `request` checks what a
command may say; `values` and `selecting` go between PCF parameters and the tables of attributes. What is done is what MQSC
does.
"""

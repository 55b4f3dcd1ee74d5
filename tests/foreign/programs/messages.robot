*** Settings ***
Documentation    robotframework-ibmmq: every keyword it has.
Library          IBMMQLibrary
Suite Setup      Connect MQ    QM1    localhost    1414    DEV.APP.SVRCONN    app    passw0rd
Suite Teardown   Disconnect All MQ Connections

*** Test Cases ***
Messages Are Browsed And Then Got
    Put MQ Message    DEV.QUEUE.1    first
    Put MQ Message    DEV.QUEUE.1    Grüße
    ${browsed}    Browse MQ Messages    DEV.QUEUE.1    max_messages=3    timeout=10ms
    ${got}    Get MQ Messages    DEV.QUEUE.1    message_amount=2
    Should Be Equal    ${browsed}    ${{['first', 'Grüße']}}
    Should Be Equal    ${got}    ${browsed}

Clearing Leaves Nothing
    Put MQ Message    DEV.QUEUE.2    old
    Clear MQ Queue    DEV.QUEUE.2
    Run Keyword And Expect Error    Expected 1 message*    Get MQ Messages    DEV.QUEUE.2

An Unknown Queue Is Refused
    # What the library says of 2085: it closes a queue that it could not open, and raises what comes of that.
    Run Keyword And Expect Error    *not open*    Put MQ Message    NO.SUCH.QUEUE    lost
    Run Keyword And Expect Error    *2085*    Browse MQ Messages    NO.SUCH.QUEUE

A Second Connection Has A Name Of Its Own
    Connect MQ    QM1    localhost    1414    DEV.APP.SVRCONN    app    passw0rd    alias=other
    Put MQ Message    DEV.QUEUE.1    shared    alias=other
    ${got}    Get MQ Messages    DEV.QUEUE.1
    Should Be Equal    ${got}    ${{['shared']}}
    Disconnect MQ    other

"""The calls of Datadog's check ibm_mq, by pymqi, in its order and its form: each figure is that of the queue or channel."""

import os
import sys

import pymqi
from pymqi import CMQC, CMQCFC

QUEUE = b"DEV.MONITORED"
QUEUE_FIGURES = {
    CMQC.MQIA_Q_SERVICE_INTERVAL: 1234,
    CMQC.MQIA_INHIBIT_PUT: 0,
    CMQC.MQIA_INHIBIT_GET: 0,
    CMQC.MQIA_Q_DEPTH_LOW_LIMIT: 11,
    CMQC.MQIA_Q_DEPTH_HIGH_LIMIT: 77,
    CMQC.MQIA_HARDEN_GET_BACKOUT: CMQC.MQQA_BACKOUT_HARDENED,
    CMQC.MQIA_Q_SERVICE_INTERVAL_EVENT: CMQCFC.MQQSIE_NONE,
    CMQC.MQIA_TRIGGER_CONTROL: 0,
    CMQC.MQIA_TRIGGER_DEPTH: 9,
    CMQC.MQIA_TRIGGER_MSG_PRIORITY: 2,
    CMQC.MQIA_TRIGGER_TYPE: CMQC.MQTT_DEPTH,
    CMQC.MQIA_USAGE: CMQC.MQUS_NORMAL,
    CMQC.MQIA_SCOPE: 1,  # MQSCO_Q_MGR
    CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL,
    CMQC.MQIA_MAX_Q_DEPTH: 50,
    CMQC.MQIA_MAX_MSG_LENGTH: 54_321,
    CMQC.MQIA_BACKOUT_THRESHOLD: 4,
    CMQC.MQIA_Q_DEPTH_HIGH_EVENT: 0,
    CMQC.MQIA_Q_DEPTH_LOW_EVENT: 0,
    CMQC.MQIA_Q_DEPTH_MAX_EVENT: 1,
    CMQC.MQIA_CURRENT_Q_DEPTH: 4,
    CMQC.MQIA_OPEN_INPUT_COUNT: 1,
    CMQC.MQIA_OPEN_OUTPUT_COUNT: 1,
    CMQC.MQIA_DEF_PERSISTENCE: 1,
    CMQC.MQIA_DEF_PRIORITY: 3,
    CMQC.MQIA_DEF_INPUT_OPEN_OPTION: CMQC.MQOO_INPUT_SHARED,
    CMQC.MQIA_MSG_DELIVERY_SEQUENCE: CMQC.MQMDS_FIFO,
    CMQC.MQIA_RETENTION_INTERVAL: 99,
}
CHANNEL_FIGURES = {
    b"DEV.SENDER": {CMQCFC.MQIACH_BATCH_SIZE: 7, CMQCFC.MQIACH_BATCH_INTERVAL: 8, CMQCFC.MQIACH_LONG_RETRY: 9,
        CMQCFC.MQIACH_LONG_TIMER: 10, CMQCFC.MQIACH_MAX_MSG_LENGTH: 11_000, CMQCFC.MQIACH_SHORT_RETRY: 12,
        CMQCFC.MQIACH_DISC_INTERVAL: 13, CMQCFC.MQIACH_HB_INTERVAL: 14, CMQCFC.MQIACH_KEEP_ALIVE_INTERVAL: 15,
        CMQCFC.MQIACH_SHORT_TIMER: 18, CMQCFC.MQIACH_NPM_SPEED: 1},
    b"DEV.RECEIVER": {CMQCFC.MQIACH_MR_COUNT: 16, CMQCFC.MQIACH_MR_INTERVAL: 17},
    b"DEV.APP.SVRCONN": {CMQCFC.MQIACH_SHARING_CONVERSATIONS: 5},
}  # fmt: skip
wrong = []


def compare(name, figure, expected):
    if figure != expected:
        wrong.append(f"{name} is {figure!r}, and not {expected!r}")


def asked(command, arguments):
    pcf = pymqi.PCFExecute(manager, response_wait_interval=5_000, convert=False)
    try:
        return getattr(pcf, command)(arguments)
    finally:
        pcf.disconnect()


definition = pymqi.CD()
definition.ChannelName, definition.ConnectionName = b"DEV.ADMIN.SVRCONN", b"localhost(1414)"
definition.ChannelType, definition.TransportType = CMQC.MQCHT_CLNTCONN, CMQC.MQXPT_TCP
definition.Version = CMQC.MQCD_VERSION_6
manager = pymqi.QueueManager(None)
manager.connect_with_options("QM1", user="admin", password="passw0rd", cd=definition)

# The life of the queue before the check: six messages, one of them backed out, one uncommitted, and two got.
program = pymqi.QueueManager(None)
program.connect_with_options("QM1", cd=definition, opts=CMQC.MQCNO_HANDLE_SHARE_BLOCK)
asked("MQCMD_RESET_Q_STATS", {CMQC.MQCA_Q_NAME: QUEUE})
queue = pymqi.Queue(program, QUEUE, CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_SHARED)
in_unit = pymqi.PMO(Options=CMQC.MQPMO_SYNCPOINT)
for body in (b"one", b"two", b"three", b"four", b"five"):
    queue.put(body)
queue.put(b"never", pymqi.MD(), in_unit)
program.backout()
queue.get()
queue.get()
queue.put(b"open", pymqi.MD(), in_unit)

(version,) = asked("MQCMD_INQUIRE_Q_MGR", {CMQCFC.MQIACF_Q_MGR_ATTRS: [CMQC.MQCA_VERSION]})
compare("the version", len([int(version[CMQC.MQCA_VERSION][place : place + 2]) for place in range(0, 8, 2)]), 4)


def names_of(pattern, kind):
    found = asked("MQCMD_INQUIRE_Q", {CMQC.MQCA_Q_NAME: pattern, CMQC.MQIA_Q_TYPE: kind})
    return [each[CMQC.MQCA_Q_NAME].strip() for each in found]


compare("the queue among all", QUEUE in names_of(b"*", CMQC.MQQT_LOCAL), True)
compare("the queues of a pattern", names_of(b"DEV.MON*", CMQC.MQQT_LOCAL), [QUEUE])
compare("the model queue", b"SYSTEM.DEFAULT.MODEL.QUEUE" in names_of(b"*", CMQC.MQQT_MODEL), True)
compare("MQIA_DIST_LISTS", manager.inquire(CMQC.MQIA_DIST_LISTS), 0)
compare("MQIA_MAX_MSG_LENGTH", manager.inquire(CMQC.MQIA_MAX_MSG_LENGTH), 4_194_304)

(figures,) = asked("MQCMD_INQUIRE_Q", {CMQC.MQCA_Q_NAME: QUEUE, CMQC.MQIA_Q_TYPE: CMQC.MQQT_ALL})
own = pymqi.Queue(manager, QUEUE, CMQC.MQOO_INQUIRE)
for selector, expected in QUEUE_FIGURES.items():
    compare(f"attribute {selector} by Inquire Queue", figures.get(selector), expected)
    compare(f"attribute {selector} by MQINQ", own.inquire(selector), expected)
compare("the depth in percent", figures[CMQC.MQIA_CURRENT_Q_DEPTH] / figures[CMQC.MQIA_MAX_Q_DEPTH] * 100, 8.0)
own.close()

(status,) = asked(
    "MQCMD_INQUIRE_Q_STATUS",
    {CMQC.MQCA_Q_NAME: QUEUE, CMQC.MQIA_Q_TYPE: CMQC.MQQT_ALL, CMQCFC.MQIACF_Q_STATUS_ATTRS: CMQCFC.MQIACF_ALL},
)
compare("the uncommitted messages", status[CMQCFC.MQIACF_UNCOMMITTED_MSGS], 1)
compare("an age of the oldest message", status[CMQCFC.MQIACF_OLDEST_MSG_AGE] >= -1, True)

(counts,) = asked("MQCMD_RESET_Q_STATS", {CMQC.MQCA_Q_NAME: QUEUE})
compare("the messages put", counts[CMQC.MQIA_MSG_ENQ_COUNT], 7)
compare("the messages got", counts[CMQC.MQIA_MSG_DEQ_COUNT], 2)
compare("the highest depth", counts[CMQC.MQIA_HIGH_Q_DEPTH], 6)
compare("a time since the reset", counts[CMQC.MQIA_TIME_SINCE_RESET] >= 0, True)

channels = {
    each[CMQCFC.MQCACH_CHANNEL_NAME].strip(): each
    for each in asked("MQCMD_INQUIRE_CHANNEL", {CMQCFC.MQCACH_CHANNEL_NAME: b"*"})
}
for name, expected in CHANNEL_FIGURES.items():
    for selector, value in expected.items():
        compare(f"attribute {selector} of the channel {name.decode()}", channels[name].get(selector), value)

# A served queue manager has a program on a channel: it has called MQCONN, MQOPEN and MQPUT.
traffic = (
    CMQCFC.MQIACH_BYTES_SENT, CMQCFC.MQIACH_BYTES_RCVD, CMQCFC.MQIACH_BUFFERS_SENT, CMQCFC.MQIACH_BUFFERS_RCVD,
)  # fmt: skip
try:
    found = asked("MQCMD_INQUIRE_CHANNEL_STATUS", {CMQCFC.MQCACH_CHANNEL_NAME: b"*"})
    running = [(each[CMQCFC.MQIACH_CHANNEL_STATUS], each[CMQCFC.MQIACH_MSGS]) for each in found]
    compare("traffic on each channel", [each for each in found if min(each.get(one, 0) for one in traffic) <= 0], [])
except pymqi.MQMIError as error:
    running = [(error.comp, error.reason)]
served = os.environ["MQFLOW_STANDIN_URL"].startswith("embedded+unix:")
expected = (CMQCFC.MQCHS_RUNNING, 3) if served else (CMQC.MQCC_FAILED, CMQCFC.MQRCCF_CHL_STATUS_NOT_FOUND)
compare("the status of the channels", running, [expected])

statistics = pymqi.Queue(manager, "SYSTEM.ADMIN.STATISTICS.QUEUE")
try:
    statistics.get()
    wrong.append("there are statistics messages")
except pymqi.MQMIError as error:
    compare("the statistics messages", error.reason, CMQC.MQRC_NO_MSG_AVAILABLE)
statistics.close()

program.commit()
(figures,) = asked("MQCMD_INQUIRE_Q", {CMQC.MQCA_Q_NAME: QUEUE, CMQC.MQIA_Q_TYPE: CMQC.MQQT_ALL})
compare("the depth at the end", figures[CMQC.MQIA_CURRENT_Q_DEPTH], 4)
for _ in range(4):
    queue.get()
queue.close()
program.disconnect()
manager.disconnect()
sys.exit("; ".join(wrong) or None)

"""A monitor on pymqi: the PCF commands and inquiries of Datadog's check ibm_mq, and the status of everything else."""

import pymqi
from pymqi import CMQC, CMQCFC

manager = pymqi.connect("QM1", "DEV.ADMIN.SVRCONN", "localhost(1414)")
topic = pymqi.Subscription(manager)
wanted = pymqi.SD(Options=CMQC.MQSO_CREATE + CMQC.MQSO_MANAGED)
wanted.set_vs("ObjectString", b"dev/prices")
topic.sub(sub_desc=wanted)
queue = pymqi.Queue(manager, b"DEV.QUEUE.1", CMQC.MQOO_OUTPUT | CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_INQUIRE)
for body in (b"one", b"two", b"three"):
    queue.put(body)
queue.get()
pcf = pymqi.PCFExecute(manager)

found = pcf.MQCMD_INQUIRE_Q(
    {CMQC.MQCA_Q_NAME: b"DEV.*", CMQC.MQIA_Q_TYPE: CMQC.MQQT_LOCAL, CMQCFC.MQIACF_Q_ATTRS: [CMQC.MQCA_Q_NAME]}
)
assert {b"DEV.QUEUE.1", b"DEV.QUEUE.2"} <= {each[CMQC.MQCA_Q_NAME].strip() for each in found}

(status,) = pcf.MQCMD_INQUIRE_Q_STATUS({CMQC.MQCA_Q_NAME: b"DEV.QUEUE.1", CMQCFC.MQIACF_Q_STATUS_ATTRS: [CMQCFC.MQIACF_ALL]})
assert (2, 1, 1) == tuple(
    status[each] for each in (CMQC.MQIA_CURRENT_Q_DEPTH, CMQC.MQIA_OPEN_INPUT_COUNT, CMQC.MQIA_OPEN_OUTPUT_COUNT)
)
(counts,) = pcf.MQCMD_RESET_Q_STATS({CMQC.MQCA_Q_NAME: b"DEV.QUEUE.1"})
assert (3, 1, 3) == (counts[CMQC.MQIA_MSG_ENQ_COUNT], counts[CMQC.MQIA_MSG_DEQ_COUNT], counts[CMQC.MQIA_HIGH_Q_DEPTH])

for selector in (
    CMQC.MQIA_CURRENT_Q_DEPTH,
    CMQC.MQIA_MAX_Q_DEPTH,
    CMQC.MQIA_OPEN_INPUT_COUNT,
    CMQC.MQIA_RETENTION_INTERVAL,
    CMQC.MQIA_Q_SERVICE_INTERVAL,
    CMQC.MQIA_TRIGGER_DEPTH,
    CMQC.MQIA_HARDEN_GET_BACKOUT,
    CMQC.MQIA_Q_DEPTH_HIGH_EVENT,
):
    assert isinstance(queue.inquire(selector), int)
assert 2 == queue.inquire(CMQC.MQIA_CURRENT_Q_DEPTH)
for selector in (
    CMQC.MQIA_DIST_LISTS,
    CMQC.MQIA_MAX_MSG_LENGTH,
    CMQC.MQIA_CODED_CHAR_SET_ID,
    CMQC.MQIA_COMMAND_LEVEL,
    CMQC.MQIA_PERFORMANCE_EVENT,
    CMQC.MQIA_EXPIRY_INTERVAL,
):
    try:
        assert isinstance(manager.inquire(selector), int)
    except pymqi.MQMIError as error:  # the expiry interval is for z/OS only
        assert (selector, error.reason) == (CMQC.MQIA_EXPIRY_INTERVAL, CMQC.MQRC_SELECTOR_ERROR)  # noqa: PT017

(whole,) = pcf.MQCMD_INQUIRE_Q_MGR_STATUS({CMQCFC.MQIACF_Q_MGR_STATUS_ATTRS: [CMQCFC.MQIACF_ALL]})
assert whole[CMQCFC.MQIACF_CONNECTION_COUNT] == len(
    pcf.MQCMD_INQUIRE_CONNECTION({CMQCFC.MQBACF_GENERIC_CONNECTION_ID: pymqi.ByteString(b"")})
)
names = pcf.MQCMD_INQUIRE_CHANNEL({CMQCFC.MQCACH_CHANNEL_NAME: b"SYSTEM.DEF.SVR*"})
assert [b"SYSTEM.DEF.SVRCONN"] == [each[CMQCFC.MQCACH_CHANNEL_NAME].strip() for each in names]
try:
    running = pcf.MQCMD_INQUIRE_CHANNEL_STATUS(
        {
            CMQCFC.MQCACH_CHANNEL_NAME: b"*",
            CMQCFC.MQIACH_CHANNEL_INSTANCE_TYPE: CMQC.MQOT_CURRENT_CHANNEL,
            CMQCFC.MQIACH_CHANNEL_INSTANCE_ATTRS: [CMQCFC.MQIACH_CHANNEL_STATUS, CMQCFC.MQCACH_CHANNEL_NAME],
        }
    )
except pymqi.MQMIError as error:
    assert error.reason == CMQCFC.MQRCCF_CHL_STATUS_NOT_FOUND  # noqa: PT017
(about,) = pcf.MQCMD_INQUIRE_TOPIC_STATUS({CMQC.MQCA_TOPIC_STRING: b"dev/prices"})
assert 1 == about[CMQC.MQIA_SUB_COUNT]
assert pcf.MQCMD_INQUIRE_SUB_STATUS({CMQCFC.MQCACF_SUB_NAME: b"*"})
assert pcf.MQCMD_INQUIRE_PUBSUB_STATUS()
assert pcf.MQCMD_INQUIRE_LISTENER({CMQCFC.MQCACH_LISTENER_NAME: b"*"})
topic.close(close_sub_queue=True)
queue.close()
manager.disconnect()

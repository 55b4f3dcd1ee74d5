// IBM's classes for Java (not JMS): they call MQSUB, MQSUBRQ and MQSTAT.
import com.ibm.mq.MQAsyncStatus;
import com.ibm.mq.MQException;
import com.ibm.mq.MQGetMessageOptions;
import com.ibm.mq.MQMessage;
import com.ibm.mq.MQPutMessageOptions;
import com.ibm.mq.MQQueue;
import com.ibm.mq.MQQueueManager;
import com.ibm.mq.MQSubscription;
import com.ibm.mq.MQTopic;
import com.ibm.mq.constants.CMQC;
import java.util.Hashtable;

final class Base {
    static boolean run(String scenario, String port, String user, String password) throws Exception {
        switch (scenario) {
            case "base-topic": case "base-status": case "base-given-queue": break;
            default: return false;
        }
        Hashtable<String, Object> properties = new Hashtable<>();
        properties.put(CMQC.HOST_NAME_PROPERTY, "127.0.0.1");
        properties.put(CMQC.PORT_PROPERTY, Integer.parseInt(port));
        properties.put(CMQC.CHANNEL_PROPERTY, "DEV.APP.SVRCONN");
        properties.put(CMQC.USER_ID_PROPERTY, user);
        properties.put(CMQC.PASSWORD_PROPERTY, password);
        MQQueueManager manager = new MQQueueManager("QM1", properties);
        try {
            switch (scenario) {
                case "base-topic": topic(manager); break;
                case "base-given-queue": givenQueue(manager); break;
                default: status(manager); break;
            }
        } catch (MQException error) {
            Scenarios.say("refused " + error.getReason());
        } finally {
            manager.disconnect();
        }
        return true;
    }

    private static String got(MQTopic topic, int waitMs) throws Exception {
        MQMessage message = new MQMessage();
        MQGetMessageOptions options = new MQGetMessageOptions();
        options.options = CMQC.MQGMO_WAIT | CMQC.MQGMO_NO_SYNCPOINT;
        options.waitInterval = waitMs;
        try {
            topic.get(message, options);
        } catch (MQException error) {
            return "none " + error.getReason();
        }
        return message.readStringOfByteLength(message.getDataLength());
    }

    private static void topic(MQQueueManager manager) throws Exception {
        MQTopic out = manager.accessTopic("prices/fish", null, CMQC.MQTOPIC_OPEN_AS_PUBLICATION, CMQC.MQOO_OUTPUT);
        MQPutMessageOptions retain = new MQPutMessageOptions();
        retain.options = CMQC.MQPMO_RETAIN;
        MQMessage message = new MQMessage();
        message.format = CMQC.MQFMT_STRING;
        message.writeString("5");
        out.put(message, retain);
        int options = CMQC.MQSO_CREATE | CMQC.MQSO_MANAGED | CMQC.MQSO_DURABLE | CMQC.MQSO_PUBLICATIONS_ON_REQUEST;
        MQTopic in = manager.accessTopic("prices/fish", null, options, null, "evening");
        Scenarios.say(got(in, 0));
        MQSubscription subscription = in.getSubscriptionReference();
        Scenarios.say("requested " + subscription.requestPublicationUpdate(CMQC.MQSRO_FAIL_IF_QUIESCING));
        Scenarios.say(got(in, (int) Scenarios.WAIT_MS));
        in.close();
        MQTopic resumed = manager.accessTopic("", null, CMQC.MQSO_RESUME | CMQC.MQSO_DURABLE, null, "evening");
        Scenarios.say("resumed " + got(resumed, 0));
        subscription = resumed.getSubscriptionReference();
        subscription.setCloseOptions(CMQC.MQCO_REMOVE_SUB);
        subscription.close();
        resumed.close();
        try {
            manager.accessTopic("", null, CMQC.MQSO_RESUME | CMQC.MQSO_DURABLE, null, "evening");
        } catch (MQException error) {
            Scenarios.say("gone " + error.getReason());
        }
        out.close();
    }

    private static void givenQueue(MQQueueManager manager) throws Exception {
        MQQueue queue = manager.accessQueue("Q1", CMQC.MQOO_INPUT_SHARED | CMQC.MQOO_OUTPUT);
        MQTopic in = manager.accessTopic(queue, "prices/fish", null, CMQC.MQSO_CREATE, null, null);
        MQMessage message = new MQMessage();
        message.writeString("6");
        MQTopic out = manager.accessTopic("prices/fish", null, CMQC.MQTOPIC_OPEN_AS_PUBLICATION, CMQC.MQOO_OUTPUT);
        out.put(message);
        out.close();
        MQMessage found = new MQMessage();
        queue.get(found);
        Scenarios.say(found.readStringOfByteLength(found.getDataLength()));
        in.close(); // closes the queue too
    }

    private static void status(MQQueueManager manager) throws Exception {
        MQQueue queue = manager.accessQueue("CLOSED", CMQC.MQOO_OUTPUT);
        MQPutMessageOptions async = new MQPutMessageOptions();
        async.options = CMQC.MQPMO_ASYNC_RESPONSE;
        MQQueue open = manager.accessQueue("Q1", CMQC.MQOO_OUTPUT);
        for (int i = 0; i < 300; i++) {
            MQMessage fine = new MQMessage();
            fine.writeString("fine");
            open.put(fine, async);
        }
        open.close();
        MQMessage message = new MQMessage();
        message.writeString("refused");
        try {
            queue.put(message, async);
            Scenarios.say("put");
        } catch (MQException error) {
            Scenarios.say("put " + error.getReason());
        }
        MQAsyncStatus status = manager.getAsyncStatus();
        Scenarios.say(
                "status " + status.completionCode + " " + status.reasonCode + " " + status.putSuccessCount + " " + status.putFailureCount
                        + " " + status.objectName.trim());
        queue.close();
    }
}

// Delivery delay by IBM's JMS classes.
import com.ibm.msg.client.jms.JmsConstants;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;

final class Delays {
    private static final long MINUTE_MS = 60_000;

    static boolean run(Connection connection, String scenario) throws Exception {
        switch (scenario) {
            case "delay": delay(connection); return true;
            case "delay-refused": refused(connection); return true;
            case "delay-soon": soon(connection, "queue:///Q1"); return true;
            case "delay-topic": soon(connection, "topic://delayed/all"); return true;
            default: return false;
        }
    }

    private static void delay(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
        producer.setDeliveryDelay(MINUTE_MS);
        Message message = session.createTextMessage("later");
        message.setJMSCorrelationID("order 7");
        producer.setTimeToLive(10 * MINUTE_MS);
        long before = System.currentTimeMillis();
        producer.send(message);
        long after = System.currentTimeMillis();
        Scenarios.say(message.getJMSMessageID());
        Scenarios.say(delayMs(message, MINUTE_MS, before, after));
        session.close();
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        producer = transacted.createProducer(transacted.createQueue("queue:///Q1"));
        producer.setDeliveryDelay(MINUTE_MS);
        producer.send(transacted.createTextMessage("undone"));
        transacted.rollback();
        transacted.close();
    }

    // The delay is short: the consumer waits until the queue manager moves the message.
    private static void soon(Connection connection, String name) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Destination target = name.startsWith("topic") ? session.createTopic(name) : session.createQueue(name);
        MessageConsumer consumer = session.createConsumer(target);
        MessageProducer producer = session.createProducer(target);
        producer.setDeliveryDelay(50);
        long before = System.currentTimeMillis();
        producer.send(session.createTextMessage("later"));
        long after = System.currentTimeMillis();
        TextMessage message = (TextMessage) consumer.receive(Scenarios.WAIT_MS);
        Scenarios.say(message == null ? "none" : message.getText());
        Scenarios.say("delay " + delayMs(message, 50, before, after));
        Scenarios.say("early " + (System.currentTimeMillis() < message.getJMSDeliveryTime()));
        session.close();
    }

    // The classes read the clock for the delivery time during the send. The timestamp has a reading of its own.
    private static long delayMs(Message message, long expectedMs, long before, long after) throws JMSException {
        long sent = message.getJMSDeliveryTime() - expectedMs;
        return before <= sent && sent <= after ? expectedMs : message.getJMSDeliveryTime() - before;
    }

    private interface Step {
        void run(MessageProducer producer) throws JMSException;
    }

    private static void attempt(Session session, String name, Destination target, Step step) throws JMSException {
        MessageProducer producer = session.createProducer(target);
        try {
            step.run(producer);
            Scenarios.say(name + " sent");
        } catch (JMSException error) {
            Scenarios.say(name + " " + Scenarios.reason(error));
        }
        producer.close();
    }

    private static void refused(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Destination queue = session.createQueue("queue:///Q1");
        attempt(session, "ttl below delay", queue, producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            producer.setTimeToLive(MINUTE_MS - 1);
            producer.send(session.createTextMessage("x"));
        });
        attempt(session, "delay above ttl", queue, producer -> {
            producer.setTimeToLive(MINUTE_MS - 1);
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x"));
        });
        attempt(session, "ttl equals delay", queue, producer -> {
            producer.setTimeToLive(MINUTE_MS);
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x"));
        });
        attempt(session, "negative", queue, producer -> producer.setDeliveryDelay(-1));
        attempt(session, "group", queue, producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            Message message = session.createTextMessage("x");
            message.setStringProperty("JMSXGroupID", "group");
            message.setIntProperty("JMSXGroupSeq", 1);
            producer.send(message);
        });
        attempt(session, "retained", session.createTopic("topic://prices/fish"), producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            Message message = session.createTextMessage("x");
            message.setIntProperty(JmsConstants.JMS_IBM_RETAIN, JmsConstants.RETAIN_PUBLICATION);
            producer.send(message);
        });
        attempt(session, "inhibited", session.createQueue("queue:///CLOSED"), producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x"));
        });
        attempt(session, "full", session.createQueue("queue:///FULL"), producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x"));
        });
        attempt(session, "too long", session.createQueue("queue:///SMALL"), producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x".repeat(5000)));
        });
        attempt(session, "topic that is not ALLAVAIL", session.createTopic("topic://durable/only"), producer -> {
            producer.setDeliveryDelay(MINUTE_MS);
            producer.send(session.createTextMessage("x"));
        });
        session.close();
    }
}

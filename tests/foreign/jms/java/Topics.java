// Topics by IBM's JMS classes: non-durable, durable and shared subscriptions, retained publications, wildcards, selectors.
import com.ibm.msg.client.jms.JmsConstants;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TemporaryTopic;
import javax.jms.TextMessage;
import javax.jms.Topic;

final class Topics {
    static boolean run(Connection connection, String scenario) throws Exception {
        switch (scenario) {
            case "topic": topic(connection); return true;
            case "durable": durable(connection); return true;
            case "shared": shared(connection, false); return true;
            case "shared-durable": shared(connection, true); return true;
            case "retained": retained(connection); return true;
            case "wildcard": wildcard(connection); return true;
            case "topic-listener": listener(connection); return true;
            case "temporary-topic": temporary(connection); return true;
            case "topic-poison": poison(connection); return true;
            case "no-local": noLocal(connection); return true;
            case "unknown-subscription": unknown(connection); return true;
            default: return false;
        }
    }

    private static Session session(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    private static void publish(Session session, String topic, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(session.createTopic("topic://" + topic));
        for (String text : texts) {
            Message message = session.createTextMessage(text);
            message.setIntProperty("price", Integer.parseInt(text));
            producer.send(message);
        }
        producer.close();
    }

    private static String received(MessageConsumer consumer, long waitMs) throws JMSException {
        Message message = consumer.receive(waitMs);
        return message == null ? "none" : ((TextMessage) message).getText() + " of " + message.getJMSDestination();
    }

    private static void topic(Connection connection) throws Exception {
        Session session = session(connection);
        MessageConsumer consumer = session.createConsumer(session.createTopic("topic://prices/fish"));
        MessageConsumer dear = session.createConsumer(session.createTopic("topic://prices/fish"), "price > 5");
        publish(session, "prices/fish", "5", "6");
        Scenarios.say(received(consumer, Scenarios.WAIT_MS));
        Scenarios.say(received(consumer, Scenarios.WAIT_MS));
        Scenarios.say(received(dear, Scenarios.WAIT_MS));
        Scenarios.say(received(dear, Scenarios.NONE_MS));
        session.close();
    }

    private static void durable(Connection connection) throws Exception {
        Session session = session(connection);
        Topic topic = session.createTopic("topic://prices/fish");
        session.createDurableConsumer(topic, "evening").close();
        publish(session, "prices/fish", "7");
        MessageConsumer resumed = session.createDurableConsumer(topic, "evening");
        Scenarios.say(received(resumed, Scenarios.WAIT_MS));
        try {
            session.createDurableConsumer(topic, "evening");
        } catch (JMSException error) {
            Scenarios.say("in use " + Scenarios.reason(error));
        }
        try {
            session.unsubscribe("evening");
        } catch (JMSException error) {
            Scenarios.say("unsubscribe " + Scenarios.reason(error));
        }
        resumed.close();
        session.unsubscribe("evening");
        publish(session, "prices/fish", "8");
        MessageConsumer again = session.createDurableConsumer(topic, "evening");
        Scenarios.say(received(again, Scenarios.NONE_MS));
        again.close();
        session.unsubscribe("evening");
        session.close();
    }

    // Two consumers of one subscription: each publication goes to one of them.
    private static void shared(Connection connection, boolean durable) throws Exception {
        Session one = session(connection);
        Session two = session(connection);
        Topic topic = one.createTopic("topic://prices/fish");
        MessageConsumer first = durable ? one.createSharedDurableConsumer(topic, "both") : one.createSharedConsumer(topic, "both");
        MessageConsumer second = durable ? two.createSharedDurableConsumer(topic, "both") : two.createSharedConsumer(topic, "both");
        publish(one, "prices/fish", "1", "2");
        Scenarios.say(received(first, Scenarios.WAIT_MS));
        Scenarios.say(received(second, Scenarios.WAIT_MS));
        Scenarios.say(received(first, Scenarios.NONE_MS));
        Scenarios.say(received(second, Scenarios.NONE_MS));
        first.close();
        publish(one, "prices/fish", "3");
        Scenarios.say(received(second, Scenarios.WAIT_MS));
        second.close();
        if (durable) {
            one.unsubscribe("both");
        }
        one.close();
        two.close();
    }

    private static void retained(Connection connection) throws Exception {
        Session session = session(connection);
        Topic topic = session.createTopic("topic://prices/fish");
        Message message = session.createTextMessage("9");
        message.setIntProperty(JmsConstants.JMS_IBM_RETAIN, JmsConstants.RETAIN_PUBLICATION);
        session.createProducer(topic).send(message);
        Scenarios.say(received(session.createConsumer(topic), Scenarios.WAIT_MS));
        session.close();
    }

    private static void wildcard(Connection connection) throws Exception {
        Session session = session(connection);
        MessageConsumer all = session.createConsumer(session.createTopic("topic://prices/#"));
        publish(session, "prices/fish", "1");
        publish(session, "prices/oil/north", "2");
        Scenarios.say(received(all, Scenarios.WAIT_MS));
        Scenarios.say(received(all, Scenarios.WAIT_MS));
        session.close();
    }

    private static void listener(Connection connection) throws Exception {
        Session session = session(connection);
        MessageConsumer consumer = session.createConsumer(session.createTopic("topic://prices/fish"));
        CountDownLatch heard = new CountDownLatch(2);
        consumer.setMessageListener(message -> {
            try {
                Scenarios.say("heard " + ((TextMessage) message).getText());
            } catch (JMSException error) {
                Scenarios.say("failed " + Scenarios.reason(error));
            }
            heard.countDown();
        });
        Session other = session(connection);
        publish(other, "prices/fish", "1", "2");
        Scenarios.say("all " + heard.await(10, TimeUnit.SECONDS));
        consumer.close();
        session.close();
        other.close();
    }

    private static void temporary(Connection connection) throws Exception {
        Session session = session(connection);
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer consumer = session.createConsumer(topic);
        session.createProducer(topic).send(session.createTextMessage("reply"));
        Message message = consumer.receive(Scenarios.WAIT_MS);
        Scenarios.say(message == null ? "none" : ((TextMessage) message).getText());
        consumer.close();
        topic.delete();
        session.close();
    }

    // The managed queue of a durable subscription has the threshold of its model queue.
    private static void poison(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Topic topic = session.createTopic("topic://prices/fish");
        MessageConsumer consumer = session.createDurableConsumer(topic, "poison");
        publish(session, "prices/fish", "0");
        session.commit();
        Message message = consumer.receive(Scenarios.WAIT_MS);
        for (int times = 0; message != null && times < 5; times++) {
            Scenarios.say("delivery " + message.getIntProperty("JMSXDeliveryCount"));
            session.rollback();
            message = consumer.receive(Scenarios.NONE_MS);
        }
        session.commit();
        consumer.close();
        session.unsubscribe("poison");
        session.close();
    }

    private static void noLocal(Connection connection) throws Exception {
        Session session = session(connection);
        MessageConsumer others = session.createConsumer(session.createTopic("topic://prices/fish"), null, true);
        publish(session, "prices/fish", "1");
        Scenarios.say(received(others, Scenarios.NONE_MS));
        session.close();
    }

    private static void unknown(Connection connection) throws Exception {
        Session session = session(connection);
        try {
            session.unsubscribe("nobody");
        } catch (JMSException error) {
            Scenarios.say("unsubscribe " + Scenarios.reason(error));
        }
        session.close();
    }
}

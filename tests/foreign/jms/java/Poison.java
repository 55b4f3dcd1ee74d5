// Programs that cannot handle a message, by IBM's JMS classes: poison-sync:QUEUE:DELIVERIES, and so on. Each says the
// JMSXDeliveryCount of every delivery. It waits for the deliveries that the test expects, or for two, and for no more for a while.
import java.util.concurrent.Semaphore;
import javax.jms.Connection;
import javax.jms.ConnectionConsumer;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageListener;
import javax.jms.Queue;
import javax.jms.ServerSession;
import javax.jms.ServerSessionPool;
import javax.jms.Session;

final class Poison {
    private static final int DELIVERIES_MAX = 6;
    private static final long QUIET_MS = 250;

    static boolean run(Connection connection, String scenario) throws Exception {
        if (!scenario.startsWith("poison-")) {
            return false;
        }
        String[] parts = scenario.split(":");
        int expected = parts.length > 2 ? Integer.parseInt(parts[2]) : 2;
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("queue:///" + parts[1]);
        switch (parts[0]) {
            case "poison-sync": synchronous(session, queue, true, expected); break;
            case "poison-rollback": synchronous(session, queue, false, expected); break;
            case "poison-after-put": afterPut(session, queue); break;
            case "poison-auto": withoutTransaction(connection, session, queue); break;
            case "poison-listener": listener(session, queue, new Failing(session, 0, expected)); break;
            case "poison-look": listener(session, queue, new Failing(session, 3, expected)); break;
            case "poison-asf": connectionConsumer(connection, session, queue, expected); break;
            default: throw new IllegalArgumentException(scenario);
        }
        session.close();
        return true;
    }

    // A move is part of the transaction: the end is a commit or a rollback, also after a failed move.
    private static void synchronous(Session session, Queue queue, boolean commits, int expected) throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        try {
            Message message = consumer.receive(Scenarios.WAIT_MS);
            for (int times = 1; message != null && times <= DELIVERIES_MAX; times++) {
                Scenarios.say("delivery " + message.getIntProperty("JMSXDeliveryCount"));
                session.rollback();
                message = consumer.receive(times < expected ? Scenarios.WAIT_MS : QUIET_MS);
            }
        } catch (JMSException error) {
            Scenarios.say("receive " + Scenarios.reason(error).split("[:\\n]")[0]);
        }
        if (commits) {
            session.commit();
        } else {
            session.rollback();
        }
    }

    // The last transaction puts a message before it receives.
    private static void afterPut(Session session, Queue queue) throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        for (int times = 1; times <= 2; times++) {
            Scenarios.say("delivery " + consumer.receive(Scenarios.WAIT_MS).getIntProperty("JMSXDeliveryCount"));
            session.rollback();
        }
        session.createProducer(session.createQueue("queue:///REPLY")).send(session.createTextMessage("undone"));
        if (consumer.receive(QUIET_MS) != null) {
            Scenarios.say("delivered again");
        }
        session.rollback();
    }

    // The message was backed out too often by a transacted session before.
    private static void withoutTransaction(Connection connection, Session session, Queue queue) throws JMSException {
        MessageConsumer consumer = session.createConsumer(queue);
        for (int times = 1; times <= 2; times++) {
            Scenarios.say("delivery " + consumer.receive(Scenarios.WAIT_MS).getIntProperty("JMSXDeliveryCount"));
            session.rollback();
        }
        consumer.close();
        Session plain = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        try {
            Scenarios.say("receive " + plain.createConsumer(queue).receive(QUIET_MS));
        } catch (JMSException error) {
            Scenarios.say("receive " + Scenarios.reason(error).split("[:\\n]")[0]);
        }
        plain.close();
    }

    private static final class Failing implements MessageListener {
        final Semaphore heard = new Semaphore(0);
        private final Session session;
        private final int lookAt;
        private final int expected;
        private int deliveries;

        // At the delivery with the number lookAt, the test looks at the queues.
        Failing(Session session, int lookAt, int expected) {
            this.session = session;
            this.lookAt = lookAt;
            this.expected = expected;
        }

        @Override
        public void onMessage(Message message) {
            try {
                Scenarios.say("delivery " + message.getIntProperty("JMSXDeliveryCount"));
                if (++deliveries == lookAt) {
                    Scenarios.stop();
                }
                if (deliveries <= DELIVERIES_MAX) {
                    session.rollback();
                } else {
                    session.commit();
                }
            } catch (JMSException error) {
                Scenarios.say("failed " + Scenarios.reason(error));
            }
            heard.release();
        }

        void awaitQuiet() throws InterruptedException {
            Scenarios.awaitQuiet(heard, expected, QUIET_MS);
        }
    }

    private static void listener(Session session, Queue queue, Failing failing) throws Exception {
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.setMessageListener(failing);
        failing.awaitQuiet();
        consumer.close();
    }

    // An application server's way (ASF): one thread finds messages, another gets them.
    private static void connectionConsumer(Connection connection, Session session, Queue queue, int expected) throws Exception {
        Failing failing = new Failing(session, 0, expected);
        session.setMessageListener(failing);
        Semaphore free = new Semaphore(1);
        ServerSession server = new ServerSession() {
            @Override
            public Session getSession() {
                return session;
            }

            @Override
            public void start() {
                new Thread(() -> {
                    session.run();
                    free.release();
                }).start();
            }
        };
        ServerSessionPool pool = () -> {
            free.acquireUninterruptibly();
            return server;
        };
        ConnectionConsumer consumer = connection.createConnectionConsumer(queue, null, pool, 1);
        failing.awaitQuiet();
        consumer.close();
    }
}

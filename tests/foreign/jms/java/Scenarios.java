// Scenarios of IBM's JMS classes. Each line of the output is one fact, and the last line of a scenario is "end".
import com.ibm.msg.client.jms.JmsConnectionFactory;
import com.ibm.msg.client.jms.JmsFactoryFactory;
import com.ibm.msg.client.wmq.WMQConstants;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.ExceptionListener;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageListener;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;

public final class Scenarios {
    static final long WAIT_MS = 5000;
    static final long NONE_MS = 300;
    static final int TYPES = 5;
    private static final PrintStream OUT = out();
    private static BufferedReader in;

    private static PrintStream out() {
        return new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    }

    static JmsConnectionFactory factory(String port) throws JMSException {
        JmsConnectionFactory factory = JmsFactoryFactory.getInstance(WMQConstants.WMQ_PROVIDER).createConnectionFactory();
        factory.setStringProperty(WMQConstants.WMQ_HOST_NAME, "127.0.0.1");
        factory.setIntProperty(WMQConstants.WMQ_PORT, Integer.parseInt(port));
        factory.setStringProperty(WMQConstants.WMQ_CHANNEL, "DEV.APP.SVRCONN");
        factory.setIntProperty(WMQConstants.WMQ_CONNECTION_MODE, WMQConstants.WMQ_CM_CLIENT);
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, "QM1");
        factory.setStringProperty(WMQConstants.WMQ_APPLICATIONNAME, "Scenarios");
        factory.setStringProperty(WMQConstants.CLIENT_ID, "shop");
        return factory;
    }

    static void say(Object fact) {
        OUT.println(fact);
    }

    // The test does something now, for example it looks at the queues.
    static void stop() {
        say("stop");
        try {
            in.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    // Waits long for each expected delivery, and then a short time for a delivery that the test does not expect.
    static void awaitQuiet(Semaphore delivered, int expected, long quietMs) throws InterruptedException {
        for (int count = 0; delivered.tryAcquire(count < expected ? WAIT_MS : quietMs, TimeUnit.MILLISECONDS); count++) {
        }
    }

    interface Scenario {
        void run() throws Exception;
    }

    public static void perform(BufferedReader input, String[] given) {
        perform(input, () -> begin(given[0], given[1], given[2], given[3]));
    }

    static void perform(BufferedReader input, Scenario scenario) {
        in = input;
        try {
            scenario.run();
        } catch (JMSException error) {
            say("refused " + reason(error));
        } catch (Throwable error) {
            say("failed " + error);
            error.printStackTrace();
        }
        say("end");
    }

    private static void begin(String port, String user, String password, String scenario) throws Exception {
        if (Base.run(scenario, port, user, password)
                || Reasons.run(scenario, port, user, password)
                || Statements.run(scenario, port, user, password)
                || Reconnection.run(scenario, port, user, password)) {
            return;
        }
        try (Connection connection = factory(port).createConnection(user, password)) {
            connection.setExceptionListener((ExceptionListener) error -> say("exception " + reason(error)));
            connection.start();
            if (!Topics.run(connection, scenario)
                    && !Delays.run(connection, scenario)
                    && !Poison.run(connection, scenario)
                    && !Rates.run(connection, scenario)
                    && !Fields.run(connection, scenario)
                    && !Statements.run(connection, scenario)) {
                run(connection, scenario);
            }
        }
    }

    static String reason(Throwable error) {
        Throwable cause = error;
        while (cause != null) {
            if (cause instanceof com.ibm.mq.MQException) {
                return "" + ((com.ibm.mq.MQException) cause).getReason();
            }
            cause = cause.getCause();
        }
        return error + " " + error.getCause();
    }

    private static void run(Connection connection, String scenario) throws Exception {
        switch (scenario) {
            case "types": types(connection); break;
            case "send": send(connection); break;
            case "receive": receive(connection, "Q1"); break;
            case "receive-out": receive(connection, "OUT"); break;
            case "rollback": rollback(connection); break;
            case "poison": poison(connection, "POISON"); break;
            case "dead": poison(connection, "DEAD"); break;
            case "bad": bad(connection); break;
            case "listener": listener(connection); break;
            case "selector": selector(connection); break;
            case "long": longMessage(connection); break;
            case "browse": browse(connection); break;
            case "temporary": temporary(connection); break;
            case "inhibited": inhibited(connection); break;
            case "async": async(connection); break;
            case "read-ahead": readAhead(connection); break;
            case "short-waits": shortWaits(connection); break;
            case "paused-listener": pausedListener(connection); break;
            default: throw new IllegalArgumentException(scenario);
        }
    }

    private static Message withProperties(Message message) throws JMSException {
        message.setStringProperty("name", "b\u00fccher");
        message.setIntProperty("count", 7);
        message.setBooleanProperty("urgent", true);
        message.setDoubleProperty("rate", 1.5);
        message.setLongProperty("number", 12345678901L);
        return message;
    }

    private static void sendAll(Session session, MessageProducer producer) throws JMSException {
        producer.send(withProperties(session.createTextMessage("gr\u00fc\u00dfe")));
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, (byte) 0xff});
        producer.send(withProperties(bytes));
        MapMessage map = session.createMapMessage();
        map.setString("city", "Z\u00fcrich");
        map.setInt("zip", 8001);
        producer.send(withProperties(map));
        ObjectMessage object = session.createObjectMessage(new int[] {1, 2, 3});
        producer.send(withProperties(object));
        StreamMessage stream = session.createStreamMessage();
        stream.writeString("one");
        stream.writeLong(2);
        producer.send(withProperties(stream));
    }

    static String shown(Message message) throws JMSException {
        if (message == null) {
            return "none";
        }
        String body;
        if (message instanceof TextMessage) {
            body = "text " + ((TextMessage) message).getText();
        } else if (message instanceof BytesMessage) {
            byte[] data = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(data);
            body = "bytes " + Arrays.toString(data);
        } else if (message instanceof MapMessage) {
            body = "map " + ((MapMessage) message).getString("city") + " " + ((MapMessage) message).getInt("zip");
        } else if (message instanceof ObjectMessage) {
            body = "object " + Arrays.toString((int[]) ((ObjectMessage) message).getObject());
        } else {
            body = "stream " + ((StreamMessage) message).readString() + " " + ((StreamMessage) message).readLong();
        }
        StringBuilder line = new StringBuilder(body);
        for (String name : new String[] {"name", "count", "urgent", "rate", "number"}) {
            if (message.propertyExists(name)) {
                line.append(' ').append(name).append('=').append(message.getObjectProperty(name));
            }
        }
        return line.append(" deliveries=").append(message.getIntProperty("JMSXDeliveryCount")).toString();
    }

    private static void types(Connection connection) throws Exception {
        send(connection);
        receive(connection, "Q1");
    }

    private static void send(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        sendAll(session, session.createProducer(session.createQueue("queue:///Q1")));
        session.close();
    }

    private static void receive(Connection connection, String queue) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///" + queue));
        Message message = consumer.receive(WAIT_MS);
        while (message != null) {
            say(shown(message));
            message = consumer.receive(NONE_MS);
        }
        say("empty " + shown(consumer.receiveNoWait()));
        session.close();
    }

    private static void rollback(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("queue:///Q1");
        session.createProducer(queue).send(session.createTextMessage("kept"));
        session.commit();
        session.createProducer(queue).send(session.createTextMessage("undone"));
        session.rollback();
        MessageConsumer consumer = session.createConsumer(queue);
        say(shown(consumer.receive(WAIT_MS)));
        session.rollback();
        say(shown(consumer.receive(WAIT_MS)));
        session.commit();
        say(shown(consumer.receive(NONE_MS)));
        session.close();
    }

    private static void bad(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("queue:///POISON"));
        producer.send(withProperties(session.createTextMessage("bad")));
        session.close();
    }

    // The queues POISON and DEAD have a backout threshold; POISON has a backout queue. IBM's classes move the message.
    private static void poison(Connection connection, String queue) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///" + queue));
        Message message = consumer.receive(WAIT_MS);
        while (message != null) {
            say(shown(message));
            session.rollback();
            message = consumer.receive(1000);
        }
        session.commit();
        say("moved");
        session.close();
    }

    private static void listener(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///Q1"));
        CountDownLatch heard = new CountDownLatch(3);
        consumer.setMessageListener(committing(session, heard::countDown));
        Session other = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = other.createProducer(other.createQueue("queue:///Q1"));
        for (int number = 1; number <= 3; number++) {
            producer.send(other.createTextMessage("message " + number));
        }
        say("all " + heard.await(10, TimeUnit.SECONDS));
        consumer.setMessageListener(null);
        session.close();
        other.close();
    }

    private static MessageListener committing(Session session, Runnable heard) {
        return message -> {
            try {
                say("heard " + shown(message));
                session.commit();
            } catch (JMSException error) {
                say("failed " + reason(error));
            }
            heard.run();
        };
    }

    // At the first stop, the test inhibits gets and puts a message; at the second stop, it allows gets.
    private static void pausedListener(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///Q1"));
        Semaphore heard = new Semaphore(0);
        consumer.setMessageListener(committing(session, heard::release));
        stop();
        stop();
        say("all " + heard.tryAcquire(2, 10, TimeUnit.SECONDS));
        session.close();
    }

    private static void selector(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("queue:///Q1");
        MessageProducer producer = session.createProducer(queue);
        for (int number = 1; number <= 3; number++) {
            Message message = session.createTextMessage("number " + number);
            message.setIntProperty("count", number);
            producer.send(message);
        }
        MessageConsumer consumer = session.createConsumer(queue, "count > 1 AND count < 3");
        say(shown(consumer.receive(WAIT_MS)));
        say(shown(consumer.receive(NONE_MS)));
        consumer.close();
        consumer = session.createConsumer(queue);
        say(shown(consumer.receive(WAIT_MS)));
        say(shown(consumer.receive(WAIT_MS)));
        session.close();
    }

    private static void longMessage(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("queue:///Q1");
        MessageProducer producer = session.createProducer(queue);
        MessageConsumer consumer = session.createConsumer(queue);
        for (int length : new int[] {0, 4000, 10000, 40000, 3000000}) {
            producer.send(session.createTextMessage("x".repeat(length)));
            TextMessage message = (TextMessage) consumer.receive(WAIT_MS);
            say(message == null ? "none" : "length " + (message.getText() == null ? 0 : message.getText().length()));
        }
        session.close();
    }

    private static void browse(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("queue:///Q1");
        MessageProducer producer = session.createProducer(queue);
        producer.send(session.createTextMessage("one"));
        producer.send(session.createTextMessage("two"));
        QueueBrowser browser = session.createBrowser(queue);
        for (Object message : Collections.list(browser.getEnumeration())) {
            say("browsed " + shown((Message) message));
        }
        browser.close();
        MessageConsumer consumer = session.createConsumer(queue);
        say(shown(consumer.receive(WAIT_MS)));
        say(shown(consumer.receive(WAIT_MS)));
        session.close();
    }

    private static void temporary(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createTemporaryQueue();
        session.createProducer(queue).send(session.createTextMessage("reply"));
        say(shown(session.createConsumer(queue).receive(WAIT_MS)));
        session.close();
    }

    private static void inhibited(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        try {
            say(shown(session.createConsumer(session.createQueue("queue:///CLOSED")).receive(2000)));
        } catch (JMSException error) {
            say("receive " + reason(error));
        }
        try {
            session.createProducer(session.createQueue("queue:///CLOSED")).send(session.createTextMessage("no"));
        } catch (JMSException error) {
            say("send " + reason(error));
        }
        try {
            session.createConsumer(session.createQueue("queue:///NOT.THERE"));
        } catch (JMSException error) {
            say("open " + reason(error));
        }
        session.close();
    }

    // Many waits end just when their message arrives.
    private static void shortWaits(Connection connection) throws Exception {
        final int count = 300;
        Thread sending = new Thread(() -> {
            try {
                Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
                MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
                producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
                for (int number = 0; number < count; number++) {
                    producer.send(session.createTextMessage("" + number));
                    Thread.sleep(number % 4);
                }
            } catch (Exception error) {
                say("failed " + error);
            }
        });
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///Q1"));
        sending.start();
        int received = 0;
        for (int wait = 1; sending.isAlive(); wait = wait % 5 + 1) {
            received += consumer.receive(wait) == null ? 0 : 1;
            session.commit();
        }
        while (received < count && consumer.receive(10_000) != null) {
            session.commit();
            received++;
        }
        say(received + " of " + count);
    }

    // The client may ask for more messages than the program has received.
    private static void readAhead(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int number = 1; number <= 60; number++) {
            producer.send(session.createTextMessage("" + number));
        }
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///Q1?readAheadAllowed=1"));
        int inOrder = 0;
        for (int number = 1; number <= 40; number++) {
            inOrder += ((TextMessage) consumer.receive(WAIT_MS)).getText().equals("" + number) ? 1 : 0;
        }
        say("in order " + inOrder);
        stop();
        session.close();
    }

    // The client does not wait for puts in a transaction: more than it reserves identifiers for at once.
    private static void async(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1?putAsyncAllowed=1"));
        for (int number = 1; number <= 300; number++) {
            producer.send(session.createTextMessage("" + number));
        }
        session.commit();
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///Q1"));
        Set<String> identifiers = new HashSet<>();
        int inOrder = 0;
        for (int number = 1; number <= 300; number++) {
            TextMessage message = (TextMessage) consumer.receive(WAIT_MS);
            identifiers.add(message.getJMSMessageID());
            inOrder += message.getText().equals("" + number) ? 1 : 0;
        }
        session.commit();
        say("in order " + inOrder + ", identifiers " + identifiers.size());
        producer = session.createProducer(session.createQueue("queue:///ONE?putAsyncAllowed=1"));
        try {
            producer.send(session.createTextMessage("fits"));
            producer.send(session.createTextMessage("does not fit"));
            session.commit();
            say("committed");
        } catch (JMSException error) {
            say("commit " + reason(error));
        }
        session.close();
    }
}

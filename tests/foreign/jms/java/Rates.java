// The rates of a producer and a consumer: rate-put:MESSAGES:UNIT and rate-get:MESSAGES:UNIT say the time in microseconds.
import java.util.Arrays;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;

final class Rates {
    private static final int BODY_BYTES = 500;

    static boolean run(Connection connection, String scenario) throws JMSException {
        if (!scenario.startsWith("rate-")) {
            return false;
        }
        String[] parts = scenario.split(":");
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("queue:///Q1");
        int messages = Integer.parseInt(parts[1]);
        int unit = Integer.parseInt(parts[2]);
        long began = System.nanoTime();
        if (parts[0].equals("rate-put")) {
            put(session, session.createProducer(queue), messages, unit);
        } else {
            get(session, session.createConsumer(queue), messages, unit);
        }
        Scenarios.say((System.nanoTime() - began) / 1000);
        session.close();
        return true;
    }

    private static void put(Session session, MessageProducer producer, int messages, int unit) throws JMSException {
        byte[] body = new byte[BODY_BYTES];
        Arrays.fill(body, (byte) 'x');
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        for (int number = 1; number <= messages; number++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(body);
            producer.send(message);
            if (number % unit == 0) {
                session.commit();
            }
        }
        session.commit();
    }

    private static void get(Session session, MessageConsumer consumer, int messages, int unit) throws JMSException {
        for (int number = 1; number <= messages; number++) {
            if (consumer.receive(Scenarios.WAIT_MS) == null) {
                throw new JMSException("there is no message " + number);
            }
            if (number % unit == 0) {
                session.commit();
            }
        }
        session.commit();
    }
}

// Calls that the queue manager refuses. The test chooses a reason each time the program says "stop". reasons-put:COUNT:MODE puts on
// connections that can reconnect, with the delivery mode 1 (not persistent) or 2; reasons-connect:COUNT:SECOND_PORT connects with two addresses, and the first one refuses.
import com.ibm.msg.client.jms.JmsConnectionFactory;
import com.ibm.msg.client.wmq.WMQConstants;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MessageProducer;
import javax.jms.Session;

final class Reasons {
    static boolean run(String scenario, String port, String user, String password) throws JMSException {
        if (!scenario.startsWith("reasons-")) {
            return false;
        }
        String[] parts = scenario.split(":");
        for (int times = 0; times < Integer.parseInt(parts[1]); times++) {
            JmsConnectionFactory factory = Scenarios.factory(port);
            if (parts[0].equals("reasons-connect")) {
                factory.setStringProperty(
                        WMQConstants.WMQ_CONNECTION_NAME_LIST, "127.0.0.1(" + port + "),127.0.0.1(" + parts[2] + ")");
                connect(factory, user, password);
            } else {
                factory.setIntProperty(WMQConstants.WMQ_CLIENT_RECONNECT_OPTIONS, WMQConstants.WMQ_CLIENT_RECONNECT);
                put(factory, user, password, Integer.parseInt(parts[2]));
            }
        }
        return true;
    }

    private static void connect(JmsConnectionFactory factory, String user, String password) throws JMSException {
        Scenarios.stop();
        try (Connection connection = factory.createConnection(user, password)) {
            Scenarios.say("connected");
        } catch (JMSException error) {
            Scenarios.say(Scenarios.reason(error));
        }
    }

    private static void put(JmsConnectionFactory factory, String user, String password, int deliveryMode)
            throws JMSException {
        try (Connection connection = factory.createConnection(user, password)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
            producer.setDeliveryMode(deliveryMode);
            Scenarios.stop();
            try {
                producer.send(session.createTextMessage("again"));
                Scenarios.say("sent");
            } catch (JMSException error) {
                Scenarios.say(Scenarios.reason(error));
            }
        } catch (JMSException error) {
            Scenarios.say("afterwards " + Scenarios.reason(error));
        }
    }
}

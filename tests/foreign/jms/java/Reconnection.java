// A program of IBM's JMS classes that reconnects by itself: reconnect-list:SECOND_PORT or reconnect-ccdt:URL. With
// reconnect-off:SECOND_PORT it does not. The test moves the queue manager to the second port when the program says "stop".
// Also tls:FILE, draws:COUNT:NAME:URL, modes:MODE:NAME:WHERE with a URL or list=PORT,PORT, and ends:URL.
import com.ibm.msg.client.jms.JmsConnectionFactory;
import com.ibm.msg.client.wmq.WMQConstants;
import java.io.FileInputStream;
import java.io.InputStream;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

final class Reconnection {
    private static final Map<String, Integer> MODES = Map.of(
            "ANY", WMQConstants.WMQ_CLIENT_RECONNECT,
            "QMGR", WMQConstants.WMQ_CLIENT_RECONNECT_Q_MGR,
            "ASDEF", WMQConstants.WMQ_CLIENT_RECONNECT_AS_DEF);

    static boolean run(String scenario, String port, String user, String password) throws Exception {
        if (scenario.startsWith("tls:")) {
            tls(port, user, password, scenario.split(":", 2)[1]);
            return true;
        }
        if (scenario.startsWith("draws:")) {
            draws(port, user, password, scenario.split(":", 4));
            return true;
        }
        if (scenario.startsWith("modes:")) {
            modes(port, user, password, scenario.split(":", 4));
            return true;
        }
        if (scenario.startsWith("ends:")) {
            ends(port, user, password, scenario.split(":", 2)[1]);
            return true;
        }
        if (!scenario.startsWith("reconnect-")) {
            return false;
        }
        JmsConnectionFactory factory = Scenarios.factory(port);
        String where = scenario.substring(scenario.indexOf(':') + 1);
        if (scenario.startsWith("reconnect-ccdt")) {
            readTable(factory, where);
        } else {
            factory.setStringProperty(WMQConstants.WMQ_CONNECTION_NAME_LIST, "127.0.0.1(" + port + "),127.0.0.1(" + where + ")");
        }
        boolean off = scenario.startsWith("reconnect-off");
        factory.setIntProperty(
                WMQConstants.WMQ_CLIENT_RECONNECT_OPTIONS,
                off ? WMQConstants.WMQ_CLIENT_RECONNECT_DISABLED : WMQConstants.WMQ_CLIENT_RECONNECT);
        factory.setIntProperty(WMQConstants.WMQ_CLIENT_RECONNECT_TIMEOUT, 300);
        try (Connection connection = factory.createConnection(user, password)) {
            CountDownLatch reported = new CountDownLatch(1);
            connection.setExceptionListener(error -> {
                Scenarios.say("exception " + Scenarios.reason(error));
                reported.countDown();
            });
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            Queue queue = session.createQueue("queue:///Q1");
            MessageProducer producer = session.createProducer(queue);
            MessageConsumer consumer = session.createConsumer(queue);
            producer.send(session.createTextMessage("committed"));
            session.commit();
            producer.send(session.createTextMessage("undone"));
            Scenarios.stop();
            try {
                session.commit();
                Scenarios.say("committed again");
            } catch (JMSException error) {
                Scenarios.say("commit " + Scenarios.reason(error));
                if (off) { // a thread of the client calls the exception listener, unless the connection is closed before
                    reported.await(30, TimeUnit.SECONDS);
                }
                session.rollback();
            }
            // The unit of work that was open at the outage can fail once more (2003): the program receives the message again.
            String text = null;
            for (int times = 1; text == null && times <= 3; times++) {
                Message message = consumer.receive(Scenarios.WAIT_MS);
                try {
                    session.commit();
                    text = ((TextMessage) message).getText();
                } catch (JMSException error) {
                    if (!Scenarios.reason(error).equals("2003")) {
                        throw error;
                    }
                }
            }
            Scenarios.say("received " + text);
            Scenarios.say("left " + consumer.receive(Scenarios.NONE_MS));
        }
        return true;
    }

    private static void readTable(JmsConnectionFactory factory, String url) throws JMSException {
        factory.remove(WMQConstants.WMQ_CHANNEL);
        factory.remove(WMQConstants.WMQ_HOST_NAME);
        factory.remove(WMQConstants.WMQ_PORT);
        factory.setStringProperty(WMQConstants.WMQ_CCDTURL, url);
    }

    // modes:MODE:NAME:WHERE: puts a message after the outage.
    private static void modes(String port, String user, String password, String[] parts) throws JMSException {
        JmsConnectionFactory factory = Scenarios.factory(port);
        if (parts[3].startsWith("list=")) {
            String further = parts[3].substring("list=".length()).replace(",", "),127.0.0.1(");
            factory.setStringProperty(
                    WMQConstants.WMQ_CONNECTION_NAME_LIST, "127.0.0.1(" + port + "),127.0.0.1(" + further + ")");
        } else {
            readTable(factory, parts[3]);
        }
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, parts[2]);
        factory.setIntProperty(WMQConstants.WMQ_CLIENT_RECONNECT_OPTIONS, MODES.get(parts[1]));
        try (Connection connection = factory.createConnection(user, password)) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
            Scenarios.stop();
            for (String said = null; said == null; ) {
                try {
                    producer.send(session.createTextMessage("sent"));
                    said = "sent";
                    Scenarios.say(said);
                } catch (JMSException error) {
                    if (!Scenarios.reason(error).equals("2549")) { // the outcome of the put is unknown, so the program repeats it
                        throw error;
                    }
                }
            }
        }
    }

    // ends:URL: a listener waits while the queue manager ends.
    private static void ends(String port, String user, String password, String url) throws Exception {
        JmsConnectionFactory factory = Scenarios.factory(port);
        readTable(factory, url);
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, "*QM1");
        factory.setIntProperty(WMQConstants.WMQ_CLIENT_RECONNECT_OPTIONS, WMQConstants.WMQ_CLIENT_RECONNECT);
        try (Connection connection = factory.createConnection(user, password)) {
            CountDownLatch heard = new CountDownLatch(1);
            connection.setExceptionListener(error -> {
                Scenarios.say("exception " + Scenarios.reason(error));
                heard.countDown();
            });
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            session.createConsumer(session.createQueue("queue:///Q1")).setMessageListener(message -> {
                try {
                    Scenarios.say("heard " + ((TextMessage) message).getText());
                } catch (JMSException error) {
                    Scenarios.say("heard " + error);
                }
                heard.countDown();
            });
            connection.start();
            Scenarios.stop();
            if (!heard.await(20, TimeUnit.SECONDS)) {
                Scenarios.say("heard nothing");
            }
        }
    }

    // draws:COUNT:NAME:URL: connects again and again with a channel table, and says the reasons of the refusals.
    private static void draws(String port, String user, String password, String[] parts) throws JMSException {
        JmsConnectionFactory factory = Scenarios.factory(port);
        readTable(factory, parts[3]);
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, parts[2]);
        Set<String> reasons = new TreeSet<>();
        for (int draw = 0; draw < Integer.parseInt(parts[1]); draw++) {
            try {
                factory.createConnection(user, password).close();
                reasons.add("connected");
            } catch (JMSException error) {
                reasons.add(Scenarios.reason(error));
            }
        }
        Scenarios.say(reasons);
    }

    // tls:FILE: connects with TLS, and trusts the certificate authority in this file.
    private static void tls(String port, String user, String password, String authority) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        try (InputStream file = new FileInputStream(authority)) {
            trusted.setCertificateEntry("authority", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        JmsConnectionFactory factory = Scenarios.factory(port);
        factory.setObjectProperty(WMQConstants.WMQ_SSL_SOCKET_FACTORY, context.getSocketFactory());
        factory.setStringProperty(WMQConstants.WMQ_SSL_CIPHER_SUITE, "*TLS12ORHIGHER");
        try (Connection connection = factory.createConnection(user, password)) {
            Scenarios.say("connected");
        }
    }
}

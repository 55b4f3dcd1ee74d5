// Single statements of the documents: xa, outside, broken:QUEUE, take-back, other-name.
import com.ibm.msg.client.jms.JmsConnectionFactory;
import com.ibm.msg.client.jms.JmsFactoryFactory;
import com.ibm.msg.client.jms.JmsXAConnectionFactory;
import com.ibm.msg.client.wmq.WMQConstants;
import java.nio.charset.StandardCharsets;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

final class Statements {
    static boolean run(String scenario, String port, String user, String password) throws Exception {
        switch (scenario.split(":")[0]) {
            case "xa": xa(port, user, password); return true;
            case "other-name": otherName(port, user, password); return true;
            default: return false;
        }
    }

    static boolean run(Connection connection, String scenario) throws Exception {
        switch (scenario.split(":")[0]) {
            case "outside": outside(connection); return true;
            case "broken": broken(connection, scenario.split(":")[1]); return true;
            case "take-back": takeBack(connection); return true;
            default: return false;
        }
    }

    private static Xid transaction() {
        return new Xid() {
            @Override
            public int getFormatId() {
                return 1;
            }

            @Override
            public byte[] getGlobalTransactionId() {
                return "global".getBytes(StandardCharsets.US_ASCII);
            }

            @Override
            public byte[] getBranchQualifier() {
                return "branch".getBytes(StandardCharsets.US_ASCII);
            }
        };
    }

    private static void xa(String port, String user, String password) throws Exception {
        JmsXAConnectionFactory factory = JmsFactoryFactory.getInstance(WMQConstants.WMQ_PROVIDER).createXAConnectionFactory();
        factory.setStringProperty(WMQConstants.WMQ_HOST_NAME, "127.0.0.1");
        factory.setIntProperty(WMQConstants.WMQ_PORT, Integer.parseInt(port));
        factory.setStringProperty(WMQConstants.WMQ_CHANNEL, "DEV.APP.SVRCONN");
        factory.setIntProperty(WMQConstants.WMQ_CONNECTION_MODE, WMQConstants.WMQ_CM_CLIENT);
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, "QM1");
        try (XAConnection connection = factory.createXAConnection(user, password)) {
            Scenarios.say("connected");
            XASession session = connection.createXASession();
            Scenarios.say("session");
            XAResource resource = session.getXAResource();
            try {
                resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN);
                Scenarios.say("recovered");
            } catch (XAException error) {
                Scenarios.say("recover " + error.errorCode);
            }
            try {
                resource.start(transaction(), XAResource.TMNOFLAGS);
                Scenarios.say("started");
            } catch (XAException error) {
                Scenarios.say("start " + error.errorCode);
            }
        }
    }

    private static void otherName(String port, String user, String password) throws JMSException {
        JmsConnectionFactory factory = Scenarios.factory(port);
        factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, "OTHER");
        factory.createConnection(user, password).close();
    }

    // A message that was got outside a transaction does not come back, whatever the program does with it.
    private static void outside(Connection connection) throws JMSException {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Queue queue = session.createQueue("queue:///Q1");
        session.createProducer(queue).send(session.createTextMessage("once"));
        MessageConsumer consumer = session.createConsumer(queue);
        Scenarios.say(Scenarios.shown(consumer.receive(Scenarios.WAIT_MS)));
        session.close();
        session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Scenarios.say(Scenarios.shown(session.createConsumer(queue).receive(Scenarios.NONE_MS)));
        session.close();
    }

    // The classes cannot read the headers of the message.
    private static void broken(Connection connection, String name) throws JMSException {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageConsumer consumer = session.createConsumer(session.createQueue("queue:///" + name));
        for (int times = 1; times <= 4; times++) {
            try {
                Message message = consumer.receive(times == 1 ? Scenarios.WAIT_MS : Scenarios.NONE_MS);
                Scenarios.say(message == null ? "none" : "received " + message.getClass().getSimpleName());
                if (message == null) {
                    break;
                }
                Scenarios.say(Scenarios.shown(message));
            } catch (JMSException error) {
                Scenarios.say("receive " + Scenarios.reason(error).split("[:\\n]")[0]);
            }
            session.rollback();
        }
        session.close();
    }

    private static void takeBack(Connection connection) throws JMSException {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("queue:///Q1"));
        producer.setDeliveryDelay(60_000);
        Message message = session.createTextMessage("later");
        producer.send(message);
        producer.send(session.createTextMessage("stays"));
        Queue staging = session.createQueue("queue:///SYSTEM.DDELAY.LOCAL.QUEUE");
        MessageConsumer consumer = session.createConsumer(staging, "JMSCorrelationID = '" + message.getJMSMessageID() + "'");
        Message staged = consumer.receive(Scenarios.WAIT_MS);
        Scenarios.say(staged == null ? "none" : "taken back " + staged.getJMSCorrelationID().equals(message.getJMSMessageID()));
        session.close();
    }
}

// Messages whose fields are compared with those of mqflow's messages: hand-on, reports, reports-taken.
import com.ibm.mq.constants.CMQC;
import com.ibm.msg.client.jms.JmsConstants;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;

final class Fields {
    private static final Set<String> NAMES = Set.of("hand-on", "reports", "reports-taken");

    static boolean run(Connection connection, String scenario) throws JMSException {
        if (!NAMES.contains(scenario)) {
            return false;
        }
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        Queue queue = session.createQueue("queue:///Q1");
        if (scenario.equals("hand-on")) {
            handOn(session, session.createConsumer(queue));
        } else {
            reports(session, queue);
        }
        if (scenario.equals("reports-taken")) {
            session.createConsumer(queue).receive(Scenarios.WAIT_MS);
        }
        session.commit();
        session.close();
        return true;
    }

    private static void handOn(Session session, MessageConsumer consumer) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue("queue:///OUT"));
        for (int count = 0; count < Scenarios.TYPES; count++) {
            producer.send(consumer.receive(Scenarios.WAIT_MS));
        }
    }

    private static void reports(Session session, Queue queue) throws JMSException {
        Message message = session.createTextMessage("tell me");
        message.setJMSCorrelationIDAsBytes("C".repeat(24).getBytes(StandardCharsets.US_ASCII));
        message.setJMSReplyTo(session.createQueue("queue:///REPLY"));
        message.setIntProperty(JmsConstants.JMS_IBM_REPORT_COA, CMQC.MQRO_COA_WITH_FULL_DATA);
        message.setIntProperty(JmsConstants.JMS_IBM_REPORT_COD, CMQC.MQRO_COD_WITH_FULL_DATA);
        message.setIntProperty(JmsConstants.JMS_IBM_REPORT_EXPIRATION, CMQC.MQRO_EXPIRATION_WITH_FULL_DATA);
        MessageProducer producer = session.createProducer(queue);
        producer.setTimeToLive(60_000);
        producer.setPriority(7);
        producer.send(message);
        session.commit();
    }
}

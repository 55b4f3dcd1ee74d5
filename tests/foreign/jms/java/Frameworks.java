// Programs of Spring (its listener container) and Camel (its JMS component), with IBM's connection factory: spring:QUEUE:TEXT,TEXT or
// camel:QUEUE:TEXT,TEXT. Each gets the texts in a transacted session, and copies them to OUT in the same transaction. It fails after
// the copy of a text with "bad" in it. At the first delivery of a text with "look" in it, the test looks at the queues.
import com.ibm.msg.client.jms.JmsConnectionFactory;
import com.ibm.msg.client.wmq.WMQConstants;
import java.io.BufferedReader;
import java.util.concurrent.Semaphore;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.camel.Exchange;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.component.jms.JmsComponent;
import org.apache.camel.component.jms.JmsMessage;
import org.apache.camel.impl.DefaultCamelContext;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.SessionAwareMessageListener;

final class Frameworks {
    private static final long RECEIVE_MS = 250;
    // Longer than a receive, so the commit after an empty receive has come too.
    private static final long QUIET_MS = 3 * RECEIVE_MS;
    private static final Semaphore DELIVERED = new Semaphore(0);

    static void perform(BufferedReader input, String[] given) {
        Scenarios.perform(input, () -> run(given[0], given[1], given[2], given[3].split(":")));
    }

    private static void run(String port, String user, String password, String[] parts) throws Exception {
        JmsConnectionFactory factory = Scenarios.factory(port);
        factory.setStringProperty(WMQConstants.USERID, user);
        factory.setStringProperty(WMQConstants.PASSWORD, password);
        factory.remove(WMQConstants.CLIENT_ID);
        send(factory, parts[1], parts[2].split(","));
        DELIVERED.drainPermits();
        int expected = 0;
        for (String text : parts[2].split(",")) {
            expected += text.contains("bad") ? 2 : 1;
        }
        if (parts[0].equals("spring")) {
            spring(factory, parts[1], expected);
        } else {
            camel(factory, parts[1], expected);
        }
    }

    private static void send(JmsConnectionFactory factory, String queue, String[] texts) throws Exception {
        try (Connection connection = factory.createConnection()) {
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue(queue));
            for (String text : texts) {
                producer.send(session.createTextMessage(text));
            }
        }
    }

    // The copy has changed the headers of the message, so the caller read the number of the delivery before.
    private static void handle(Message message, int delivery) throws JMSException {
        String text = ((TextMessage) message).getText();
        Scenarios.say(text + " " + delivery);
        if (text.contains("look") && delivery == 1) {
            Scenarios.stop();
        }
        DELIVERED.release();
        if (text.contains("bad")) {
            throw new IllegalStateException("cannot handle " + text);
        }
    }

    private static void spring(JmsConnectionFactory factory, String queue, int expected) throws Exception {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(factory);
        container.setDestinationName(queue);
        container.setSessionTransacted(true);
        container.setReceiveTimeout(RECEIVE_MS);
        container.setMessageListener((SessionAwareMessageListener<Message>) (message, session) -> {
            int delivery = message.getIntProperty("JMSXDeliveryCount");
            MessageProducer producer = session.createProducer(session.createQueue("OUT"));
            producer.send(message);
            producer.close();
            handle(message, delivery);
        });
        container.afterPropertiesSet();
        container.start();
        Scenarios.awaitQuiet(DELIVERED, expected, QUIET_MS);
        container.shutdown();
    }

    private static void camel(JmsConnectionFactory factory, String queue, int expected) throws Exception {
        try (DefaultCamelContext camel = new DefaultCamelContext()) {
            JmsComponent component = JmsComponent.jmsComponent(factory);
            component.getConfiguration().setTransacted(true);
            component.getConfiguration().setLazyCreateTransactionManager(false);
            component.getConfiguration().setReceiveTimeout(RECEIVE_MS);
            camel.addComponent("jms", component);
            camel.addRoutes(new RouteBuilder() {
                @Override
                public void configure() {
                    from("jms:queue:" + queue).process(Frameworks::received).to("jms:queue:OUT").process(Frameworks::handled);
                }
            });
            camel.start();
            Scenarios.awaitQuiet(DELIVERED, expected, QUIET_MS);
            camel.stop();
        }
    }

    private static void received(Exchange exchange) throws JMSException {
        Message message = exchange.getIn(JmsMessage.class).getJmsMessage();
        exchange.setProperty("received", message);
        exchange.setProperty("delivery", message.getIntProperty("JMSXDeliveryCount"));
    }

    private static void handled(Exchange exchange) throws JMSException {
        handle(exchange.getProperty("received", Message.class), exchange.getProperty("delivery", Integer.class));
    }
}

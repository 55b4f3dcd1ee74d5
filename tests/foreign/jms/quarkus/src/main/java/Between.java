// A Quarkus application: its pooled connections are those of IBM's connection factory. It copies messages from Q1 to OUT in
// transactions, and fails after the copy of a message with "bad" in its text. Its argument is the port.
import com.ibm.msg.client.jakarta.jms.JmsConnectionFactory;
import com.ibm.msg.client.jakarta.jms.JmsFactoryFactory;
import com.ibm.msg.client.jakarta.wmq.WMQConstants;
import io.quarkus.runtime.QuarkusApplication;
import io.quarkus.runtime.annotations.CommandLineArguments;
import io.quarkus.runtime.annotations.QuarkusMain;
import jakarta.enterprise.context.ApplicationScoped;
import jakarta.enterprise.inject.Produces;
import jakarta.inject.Inject;
import jakarta.jms.ConnectionFactory;
import jakarta.jms.JMSContext;
import jakarta.jms.JMSException;
import jakarta.jms.TextMessage;
import org.messaginghub.pooled.jms.JmsPoolConnectionFactory;

@QuarkusMain
public class Between implements QuarkusApplication {
    @ApplicationScoped
    static class Factories {
        @Produces
        @ApplicationScoped
        ConnectionFactory factory(@CommandLineArguments String[] arguments) throws JMSException {
            JmsConnectionFactory factory =
                    JmsFactoryFactory.getInstance(WMQConstants.JAKARTA_WMQ_PROVIDER).createConnectionFactory();
            factory.setStringProperty(WMQConstants.WMQ_CONNECTION_NAME_LIST, "127.0.0.1(" + arguments[0] + ")");
            factory.setStringProperty(WMQConstants.WMQ_CHANNEL, "DEV.APP.SVRCONN");
            factory.setIntProperty(WMQConstants.WMQ_CONNECTION_MODE, WMQConstants.WMQ_CM_CLIENT);
            factory.setStringProperty(WMQConstants.WMQ_QUEUE_MANAGER, "QM1");
            factory.setStringProperty(WMQConstants.USERID, "app");
            factory.setStringProperty(WMQConstants.PASSWORD, "secret");
            JmsPoolConnectionFactory pool = new JmsPoolConnectionFactory();
            pool.setConnectionFactory(factory);
            return pool;
        }
    }

    @Inject
    ConnectionFactory factory;

    @Override
    public int run(String... arguments) throws JMSException {
        try (JMSContext put = factory.createContext(JMSContext.SESSION_TRANSACTED)) {
            for (String text : new String[] {"one", "bad", "two"}) {
                put.createProducer().send(put.createQueue("queue:///POISON"), text);
            }
            put.commit();
        }
        while (copied()) {
        }
        return 0;
    }

    // Takes a context from the pool for each message.
    private boolean copied() throws JMSException {
        try (JMSContext context = factory.createContext(JMSContext.SESSION_TRANSACTED);
                var consumer = context.createConsumer(context.createQueue("queue:///POISON"))) {
            TextMessage message = (TextMessage) consumer.receive(1000);
            if (message == null) {
                context.commit();
                return false;
            }
            System.out.println(message.getText() + " " + message.getIntProperty("JMSXDeliveryCount"));
            context.createProducer().send(context.createQueue("queue:///OUT"), message.getText());
            if (message.getText().equals("bad")) {
                context.rollback();
            } else {
                context.commit();
            }
            return true;
        }
    }
}

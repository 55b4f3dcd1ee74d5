"""mqflow: consume IBM MQ from Python as safely as the IBM MQ classes for JMS do."""

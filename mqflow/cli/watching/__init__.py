"""Status, metrics, probes and control sockets of running applications, and the orders of operators to them."""

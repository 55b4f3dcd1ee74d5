"""The application's end of the wire: offers a queue manager that another process serves."""

"""The application's end of the wire: a queue manager behind the seam that another process serves."""

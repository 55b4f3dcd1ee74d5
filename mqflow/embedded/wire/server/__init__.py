"""The queue manager's end of the wire: accepts connections, checks who they are, carries out their calls."""

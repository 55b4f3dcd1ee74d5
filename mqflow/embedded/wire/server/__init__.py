"""The queue manager's end of the wire: accepts connections, checks their users, and carries out their calls."""

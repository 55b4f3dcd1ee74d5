"""Message properties: names, types, and their places in an RFH2 and in the descriptor."""

"""The MQI calls as steps on the state, one file for a call; each runs under the lock. Knows no connection and no wire."""

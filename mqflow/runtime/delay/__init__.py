"""Stages delayed messages, and delivers them when their delay is over."""

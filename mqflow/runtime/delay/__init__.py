"""Delayed messages: staging, and delivery when the delay is over."""

"""Handlers: their signatures, codecs, messages and context, and the messages that they put."""

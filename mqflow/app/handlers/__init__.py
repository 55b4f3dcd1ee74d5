"""Handlers and what they receive: signatures, codecs, messages, context, and what is put."""

"""The two client packages, each behind one small protocol. Only these files import ibmmq and pymqi.

Must not import `mqflow.verbs` or `mqflow.policy`.
"""

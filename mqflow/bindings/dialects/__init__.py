"""The two client packages, each behind one small protocol. Only these files import ibmmq and pymqi.

No module here imports `mqflow.verbs` or `mqflow.policy`.
"""

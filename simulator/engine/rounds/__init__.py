"""Rounds of messages: how long an exchange takes on the wires, folded or followed flow by flow."""

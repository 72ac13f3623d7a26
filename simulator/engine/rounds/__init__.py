"""How long the rounds of messages of an exchange take on the network: by the fold, or by following flows."""

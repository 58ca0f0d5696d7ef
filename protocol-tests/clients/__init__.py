"""Real clients against a broker: what `protocol-tests/run` runs.

`suite` is the vocabulary of a test, `brokers` starts and ends brokers, `machine` installs the clients once. The other modules hold the
tests, one for each client or question.
"""

"""The ledger: every customer's money, in double entry and whole nano-USD."""

"""The stores of claim checks: one suite for all, and what is particular to each."""

"""How fast the toolkit is, beside the drivers under it.

Every number is a ratio of two measurements taken one after the other in the same run, on the same
broker: machines differ, and so does one machine from minute to minute, but both sides of a ratio
meet the same. ``make bench`` prints the table. It reports and does not judge: its exit code is 0
whatever the ratios are.
"""

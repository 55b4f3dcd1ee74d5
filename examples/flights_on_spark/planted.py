"""The planted errors of this example, as data for the application and for the count that checks it.

This file has only numbers and names. The application and the count each have their own version of the rules.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

#: Every 499th record, from number 250, is cut after 40 characters before it is put, so that it is not JSON.
CUT_EVERY: Final = 499
CUT_AT: Final = 250
CUT_CHARS: Final = 40

#: After three quarters of the days, the gates of this carrier have names that the handler does not know.
GATES_CARRIER: Final = "US"

#: A flight that is at least CLAIM_MINUTES late makes a claim, with a delay of CLAIM_DELAY_S seconds.
CLAIM_MINUTES: Final = 180
CLAIM_DELAY_S: Final = 5
#: If the flight number modulo 4 is CLAIM_SECOND, the second delivery settles the claim, CLAIM_AGAIN_S seconds after the first.
CLAIM_SECOND: Final = 2
CLAIM_AGAIN_S: Final = 6
#: With CLAIM_THIRD, the third delivery settles the claim. Claims of flight numbers divisible by CLAIM_NEVER always fail.
CLAIM_THIRD: Final = 3
CLAIM_NEVER: Final = 25

#: The night office gets the flights from this hour on; it has no rule for these airports.
NIGHT_HOUR: Final = 22
NIGHT_UNKNOWN: Final = ("BQN", "PSE", "SJU")
#: The number of messages that the backout queue of the night office takes; further messages find this queue full.
NIGHT_BACKOUT_DEPTH: Final = 15

#: The Hawaii office gets the flights of more miles, and refuses the flights of this carrier.
HAWAII_MILES: Final = 4_500
HAWAII_CARRIER: Final = "HA"

#: The number of messages without a header on the dead-letter queue, put there by hand.
STRAYS: Final = 3


def gates_change(days: Sequence[date]) -> date:
    """Return the first day with new names of gates. `days` are the days with flights, in order."""
    return days[len(days) * 3 // 4]

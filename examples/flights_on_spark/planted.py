"""What is wrong in this example, as data: read by the application that has the trouble and by the count that checks it.

Numbers and names only, no rule: the application and the count each write the rules in their own way.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

#: Every 499th record, from the 250th on, is cut after 40 characters before it is put: no JSON.
CUT_EVERY: Final = 499
CUT_AT: Final = 250
CUT_CHARS: Final = 40

#: After three quarters of the days the gates of this carrier are named in a way that the handler does not know.
GATES_CARRIER: Final = "US"

#: A flight that was so late makes a claim, which is looked at so many seconds later.
CLAIM_MINUTES: Final = 180
CLAIM_DELAY_S: Final = 5
#: Claims of flights whose number leaves this remainder by 4 are settled by a second delivery, asked for in so many seconds ...
CLAIM_SECOND: Final = 2
CLAIM_AGAIN_S: Final = 6
#: ... with this one by a third; the rest at once. Those of flights whose number divides by this never are.
CLAIM_THIRD: Final = 3
CLAIM_NEVER: Final = 25

#: Flights from this hour on are told to the night office, which knows no rule for these airports.
NIGHT_HOUR: Final = 22
NIGHT_UNKNOWN: Final = ("BQN", "PSE", "SJU")
#: Its backout queue takes so many; the others find it full.
NIGHT_BACKOUT_DEPTH: Final = 15

#: Flights that are longer than this many miles go over Hawaii, and this carrier's are refused there.
HAWAII_MILES: Final = 4_500
HAWAII_CARRIER: Final = "HA"

#: Messages that somebody put on the dead-letter queue by hand, without a header.
STRAYS: Final = 3


def gates_change(days: Sequence[date]) -> date:
    """Return the day from which on the gates have other names, of the days there are flights of, in order."""
    return days[len(days) * 3 // 4]

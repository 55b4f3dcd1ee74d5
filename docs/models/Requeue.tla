------------------------------ MODULE Requeue ------------------------------
(* The consumers of a listener move a poison message in the unit of work of its delivery. The handler of a message can complete, fail or
   reject the message. The queue manager can refuse a move, and consumers are killed at any step. Source: docs/decisions/0063. *)
EXTENDS Naturals, FiniteSets
CONSTANTS Messages, Consumers, Threshold, Crashes, Refusals, Defect

Nobody == "nobody"
Idle == [step |-> "idle", message |-> "none"]
VARIABLES copies,   \* the committed copies of each message on its queue, on the backout queue, and of its handler: its end and its put
          count,    \* BackoutCount
          holder,   \* the consumer whose unit of work has the message
          doing,    \* the step of each consumer, and its message
          decided,  \* messages for which a move was decided: consumers share notes about them
          called,   \* the calls of the handler for each message
          poisoned, \* poison messages that a handler received
          crashes, refusals  \* the number of kills and of refused moves that are left
vars == <<copies, count, holder, doing, decided, called, poisoned, crashes, refusals>>

Init == /\ copies = [m \in Messages |-> [in |-> 1, boq |-> 0, done |-> 0, put |-> 0]]
        /\ count = [m \in Messages |-> 0] /\ called = [m \in Messages |-> 0]
        /\ holder = [m \in Messages |-> Nobody] /\ doing = [c \in Consumers |-> Idle]
        /\ decided = {} /\ poisoned = {} /\ crashes = Crashes /\ refusals = Refusals

At(c, step) == doing[c].step = step
Goes(c, step, m) == doing' = [doing EXCEPT ![c] = [step |-> step, message |-> m]]
Rests(c) == doing' = [doing EXCEPT ![c] = Idle]
Frees(m) == holder' = [holder EXCEPT ![m] = Nobody]
BackOut(m) == Frees(m) /\ count' = [count EXCEPT ![m] = @ + 1]
IsPoison(m) == count[m] >= Threshold \/ m \in decided
IsKnown(m) == (count[m] >= Threshold /\ Defect # "threshold ignored") \/ (m \in decided /\ Defect # "no note")

Get(c, m) == /\ At(c, "idle") /\ copies[m].in = 1 /\ holder[m] = Nobody
             /\ holder' = [holder EXCEPT ![m] = c]
             /\ IF IsKnown(m)
                THEN Goes(c, "moving", m) /\ UNCHANGED <<called, poisoned>>
                ELSE /\ Goes(c, "handling", m) /\ called' = [called EXCEPT ![m] = @ + 1]
                     /\ poisoned' = IF IsPoison(m) THEN poisoned \union {m} ELSE poisoned
             /\ UNCHANGED <<copies, count, decided, crashes, refusals>>

Completed(c) == LET m == doing[c].message IN
    /\ At(c, "handling") /\ Rests(c) /\ Frees(m)
    /\ copies' = [copies EXCEPT ![m] = [@ EXCEPT !.in = 0, !.done = 1, !.put = 1]]
    /\ UNCHANGED <<count, decided, called, poisoned, crashes, refusals>>

FailedOrRejected(c) == LET m == doing[c].message IN
    /\ At(c, "handling")
    /\ \/ Rests(c) /\ count[m] + 1 < Threshold /\ BackOut(m) /\ UNCHANGED decided
       \/ /\ Goes(c, "moving", m) /\ decided' = decided \union {m}
          /\ IF Defect = "backed out before the move" THEN BackOut(m) ELSE UNCHANGED <<holder, count>>
    /\ UNCHANGED <<copies, called, poisoned, crashes, refusals>>

Move(c) == LET m == doing[c].message IN
    /\ At(c, "moving") /\ Defect \notin {"put first", "get first"}
    /\ copies' = [copies EXCEPT ![m] = [@ EXCEPT !.in = 0, !.boq = @ + 1, !.put = IF Defect = "puts not kept back" THEN 1 ELSE @]]
    /\ Rests(c) /\ Frees(m) /\ UNCHANGED <<count, decided, called, poisoned, crashes, refusals>>

Refused(c) == /\ At(c, "moving") /\ refusals > 0 /\ refusals' = refusals - 1
              /\ BackOut(doing[c].message) /\ Rests(c) /\ UNCHANGED <<copies, decided, called, poisoned, crashes>>

\* The same in two units of work, in either order: wrong.
FirstHalf(c) == LET m == doing[c].message IN
    /\ At(c, "moving") /\ Defect \in {"put first", "get first"}
    /\ copies' = [copies EXCEPT ![m] = IF Defect = "put first" THEN [@ EXCEPT !.boq = @ + 1] ELSE [@ EXCEPT !.in = 0]]
    /\ Goes(c, "half moved", m) /\ UNCHANGED <<count, holder, decided, called, poisoned, crashes, refusals>>
SecondHalf(c) == LET m == doing[c].message IN
    /\ At(c, "half moved") /\ Rests(c) /\ Frees(m)
    /\ copies' = [copies EXCEPT ![m] = IF Defect = "put first" THEN [@ EXCEPT !.in = 0] ELSE [@ EXCEPT !.boq = @ + 1]]
    /\ UNCHANGED <<count, decided, called, poisoned, crashes, refusals>>

Killed(c) == /\ crashes > 0 /\ crashes' = crashes - 1
             /\ IF Defect = "locks outlive a crash" THEN UNCHANGED <<holder, count>>
                ELSE /\ holder' = [m \in Messages |-> IF holder[m] = c THEN Nobody ELSE holder[m]]
                     /\ count' = [m \in Messages |-> IF holder[m] = c THEN count[m] + 1 ELSE count[m]]
             /\ Rests(c) /\ UNCHANGED <<copies, decided, called, poisoned, refusals>>

Step(c) == \/ \E m \in Messages : Get(c, m)
           \/ Completed(c) \/ FailedOrRejected(c) \/ Move(c) \/ FirstHalf(c) \/ SecondHalf(c)
Next == \E c \in Consumers : Step(c) \/ Refused(c) \/ Killed(c)
Spec == Init /\ [][Next]_vars /\ \A c \in Consumers : WF_vars(Step(c))

NeverLostNeverTwice == \A m \in Messages : copies[m].in + copies[m].boq + copies[m].done = 1
HeldIsThere == \A m \in Messages : holder[m] # Nobody => copies[m].in = 1
NoPoisonDelivered == poisoned = {}
CalledAsOftenAsTheThreshold == \A m \in Messages : called[m] <= Threshold
PutsOnlyOfTheCompleted == \A m \in Messages : copies[m].put = copies[m].done
EveryMessageEnds == <>[](\A m \in Messages : copies[m].in = 0)
=============================================================================

------------------------------ MODULE Requeue ------------------------------
(* A listener's consumers and the requeue of poison messages on a session of its own: back out, get again by its identifier,
   decide again, put and commit in one unit of work. Consumers are killed at any step. Source: IBM q032280 and docs/decisions/0005. *)
EXTENDS Naturals, FiniteSets
CONSTANTS Messages, Consumers, Threshold, Crashes, Defect

Nobody == "nobody"
Idle == [step |-> "idle", message |-> "none"]
VARIABLES copies,   \* of each message, how many lie durably on each queue
          count,    \* BackoutCount
          holder,   \* in whose unit of work it is
          doing,    \* where each consumer is
          crashes,  \* how many more consumers may be killed
          poisoned  \* messages that a handler was given although their count had reached the threshold
vars == <<copies, count, holder, doing, crashes, poisoned>>

Init == /\ copies = [m \in Messages |-> [in |-> 1, boq |-> 0, done |-> 0]]
        /\ count = [m \in Messages |-> 0]
        /\ holder = [m \in Messages |-> Nobody]
        /\ doing = [c \in Consumers |-> Idle]
        /\ crashes = Crashes
        /\ poisoned = {}

Counted(n) == IF n > Threshold THEN n ELSE n + 1    \* more makes no difference
At(c, step) == doing[c].step = step
Goes(c, step, m) == doing' = [doing EXCEPT ![c] = [step |-> step, message |-> m]]
Rests(c) == doing' = [doing EXCEPT ![c] = Idle]
Moves(m, to) == copies' = [copies EXCEPT ![m] = [@ EXCEPT !.in = 0, ![to] = @ + 1]]

Get(c, m) == /\ At(c, "idle") /\ copies[m].in = 1 /\ holder[m] = Nobody
             /\ holder' = [holder EXCEPT ![m] = c]
             /\ Goes(c, IF count[m] >= Threshold /\ Defect # "threshold ignored" THEN "poison" ELSE "handling", m)
             /\ poisoned' = IF count[m] >= Threshold /\ Defect = "threshold ignored" THEN poisoned \union {m} ELSE poisoned
             /\ UNCHANGED <<copies, count, crashes>>

Handled(c) == LET m == doing[c].message IN
              /\ At(c, "handling") /\ Moves(m, "done") /\ Rests(c)
              /\ holder' = [holder EXCEPT ![m] = Nobody]
              /\ UNCHANGED <<count, crashes, poisoned>>

BackOut(c, m) == /\ holder' = [holder EXCEPT ![m] = Nobody]
                 /\ count' = [count EXCEPT ![m] = Counted(@)]

Failed(c) == /\ At(c, "handling") /\ BackOut(c, doing[c].message) /\ Rests(c)
             /\ UNCHANGED <<copies, crashes, poisoned>>

HandOver(c) == /\ At(c, "poison") /\ BackOut(c, doing[c].message) /\ Goes(c, "requeue", doing[c].message)
               /\ UNCHANGED <<copies, crashes, poisoned>>

RequeueGet(c) == LET m == doing[c].message IN
    /\ At(c, "requeue")
    /\ IF (copies[m].in = 1 /\ holder[m] = Nobody) \/ Defect = "requeued unseen"
       THEN holder' = [holder EXCEPT ![m] = c] /\ Goes(c, "moving", m)
       ELSE UNCHANGED holder /\ IF copies[m].in = 0 \/ Defect = "too late and no step back"
                                 THEN Rests(c)           \* somebody else has dealt with it
                                 ELSE Goes(c, "late", m) \* somebody else deals with it: out of the way
    /\ UNCHANGED <<copies, count, crashes, poisoned>>

\* Pauses of listeners are long against a requeue: who stepped back is back when it is over.
StepsForward(c) == /\ At(c, "late")
                   /\ \A d \in Consumers : doing[d].message = doing[c].message => doing[d].step \in {"late", "handling"}
                   /\ Rests(c) /\ UNCHANGED <<copies, count, holder, crashes, poisoned>>

Move(c) == LET m == doing[c].message IN
    /\ At(c, "moving") /\ Defect \notin {"put first", "get first"}
    /\ Moves(m, "boq") /\ Rests(c)
    /\ holder' = [holder EXCEPT ![m] = Nobody] /\ count' = [count EXCEPT ![m] = 0]
    /\ UNCHANGED <<crashes, poisoned>>

\* The same in two units of work, in either order: wrong.
FirstHalf(c) == LET m == doing[c].message IN
    /\ At(c, "moving") /\ Defect \in {"put first", "get first"}
    /\ copies' = [copies EXCEPT ![m] = IF Defect = "put first" THEN [@ EXCEPT !.boq = @ + 1] ELSE [@ EXCEPT !.in = 0]]
    /\ Goes(c, "half moved", m) /\ UNCHANGED <<count, holder, crashes, poisoned>>
SecondHalf(c) == LET m == doing[c].message IN
    /\ At(c, "half moved")
    /\ copies' = [copies EXCEPT ![m] = IF Defect = "put first" THEN [@ EXCEPT !.in = 0] ELSE [@ EXCEPT !.boq = @ + 1]]
    /\ holder' = [holder EXCEPT ![m] = Nobody] /\ count' = [count EXCEPT ![m] = 0]
    /\ Rests(c) /\ UNCHANGED <<crashes, poisoned>>

Killed(c) == /\ crashes > 0 /\ crashes' = crashes - 1
             /\ IF Defect = "locks outlive a crash" THEN UNCHANGED <<holder, count>>
                ELSE /\ holder' = [m \in Messages |-> IF holder[m] = c THEN Nobody ELSE holder[m]]
                     /\ count' = [m \in Messages |-> IF holder[m] = c THEN Counted(count[m]) ELSE count[m]]
             /\ Rests(c) /\ UNCHANGED <<copies, poisoned>>

Step(c) == \/ \E m \in Messages : Get(c, m)
           \/ Handled(c) \/ Failed(c) \/ HandOver(c) \/ RequeueGet(c) \/ StepsForward(c) \/ Move(c) \/ FirstHalf(c) \/ SecondHalf(c)
Next == \E c \in Consumers : Step(c) \/ Killed(c)
Spec == Init /\ [][Next]_vars /\ \A c \in Consumers : WF_vars(Step(c))

Copies(m) == copies[m].in + copies[m].boq + copies[m].done
NeverLostNeverTwice == \A m \in Messages : Copies(m) = 1
HeldIsThere == \A m \in Messages : holder[m] # Nobody => copies[m].in = 1
NoPoisonDelivered == poisoned = {}
EveryMessageEnds == <>[](\A m \in Messages : copies[m].in = 0)
=============================================================================

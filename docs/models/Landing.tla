------------------------------ MODULE Landing ------------------------------
(* Landers move messages from a queue into segments, files of a lane. The unit of work of the gets also puts a marker
   message, which has the name of the segment and the epoch of the lander that owns the lane. Landers are killed at any step. A lander
   can lose its connection, not notice it, and continue. Source: docs/decisions/0027. *)
EXTENDS Naturals, FiniteSets
CONSTANTS Landers, Messages, Kills, Cuts, Defect

Nobody == "nobody"
Numbers == 0..Cardinality(Messages)
VARIABLES queue,      \* the messages on the queue
          marker,     \* an epoch, and the last landed segment: its number, and the epoch in the name of its pending file
          holder,     \* the lander whose unit of work has the marker
          taken,      \* of each lander, the messages in its unit of work
          pending,    \* files that were written and not renamed: epoch, number, messages
          published,  \* of each number, the messages in the segment of that name
          state,      \* of each lander: starts, recovers, ready, got, wrote, committed, ended
          own,        \* the epoch of each lander
          number,     \* the number of the last segment that each lander knows as landed
          filling,    \* the messages that each lander writes into its segment, even if they are on the queue again
          kills, cuts
vars == <<queue, marker, holder, taken, pending, published, state, own, number, filling, kills, cuts>>

Init == /\ queue = Messages /\ marker = [epoch |-> 0, number |-> 0, file |-> 0] /\ holder = Nobody
        /\ taken = [l \in Landers |-> {}] /\ pending = {} /\ published = [n \in Numbers |-> {}]
        /\ state = [l \in Landers |-> "starts"] /\ own = [l \in Landers |-> 0] /\ number = [l \in Landers |-> 0]
        /\ filling = [l \in Landers |-> {}] /\ kills = Kills /\ cuts = Cuts

Becomes(l, what) == state' = [state EXCEPT ![l] = what]
Free == queue \ UNION {taken[l] : l \in Landers}
Name(l) == IF Defect = "files without epochs" THEN 0 ELSE own[l]
Named(e, n) == {f \in pending : f.epoch = e /\ f.number = n}

\* A new owner of the lane raises the epoch and commits. Only then it looks at a file.
TakeLane(l) == /\ state[l] = "starts" /\ holder = Nobody
               /\ marker' = [marker EXCEPT !.epoch = @ + 1] /\ own' = [own EXCEPT ![l] = marker.epoch + 1]
               /\ number' = [number EXCEPT ![l] = marker.number] /\ Becomes(l, "recovers")
               /\ UNCHANGED <<queue, holder, taken, pending, published, filling, kills, cuts>>

Rename(f) == published' = [published EXCEPT ![f.number] = f.messages] /\ pending' = pending \ {f}

\* The unit of work of the segment in the marker was committed, so the segment is published. Other files of earlier owners stay unpublished.
Recover(l) == /\ state[l] = "recovers" /\ Becomes(l, "ready")
              /\ LET left == Named(marker.file, number[l]) IN
                 IF left # {} /\ marker.number = number[l] /\ Defect # "marker not read"
                 THEN \E f \in left : Rename(f)
                 ELSE UNCHANGED <<pending, published>>
              /\ UNCHANGED <<queue, marker, holder, taken, own, number, filling, kills, cuts>>

Get(l) == /\ state[l] = "ready" /\ holder = Nobody /\ Free # {}
          /\ IF marker.epoch = own[l] \/ Defect = "epoch not looked at"
             THEN /\ \E s \in SUBSET Free \ {{}} : taken' = [taken EXCEPT ![l] = s] /\ filling' = [filling EXCEPT ![l] = s]
                  /\ holder' = l /\ Becomes(l, "got")
             ELSE Becomes(l, "ended") /\ UNCHANGED <<taken, filling, holder>>        \* backed out: another lander owns the lane
          /\ UNCHANGED <<queue, marker, pending, published, own, number, kills, cuts>>

Write(l) == /\ state[l] = "got"
            /\ pending' = (pending \ Named(Name(l), number[l] + 1))
                          \union {[epoch |-> Name(l), number |-> number[l] + 1, messages |-> filling[l]]}
            /\ IF Defect = "published before the commit"
               THEN published' = [published EXCEPT ![number[l] + 1] = filling[l]] ELSE UNCHANGED published
            /\ Becomes(l, "wrote")
            /\ UNCHANGED <<queue, marker, holder, taken, own, number, filling, kills, cuts>>

\* Without a connection the commit fails, or it is in doubt. In both cases the lander reads the marker again.
Commit(l) == /\ state[l] = "wrote"
             /\ IF holder = l
                THEN /\ queue' = queue \ taken[l]
                     /\ marker' = IF Defect = "marker in a unit of its own" THEN marker
                                  ELSE [epoch |-> marker.epoch, number |-> number[l] + 1, file |-> Name(l)]
                     /\ \/ Becomes(l, "committed") /\ number' = [number EXCEPT ![l] = @ + 1] /\ UNCHANGED cuts
                        \/ Becomes(l, "starts") /\ cuts > 0 /\ cuts' = cuts - 1 /\ UNCHANGED number    \* no answer
                     /\ holder' = Nobody /\ taken' = [taken EXCEPT ![l] = {}]
                ELSE Becomes(l, "starts") /\ UNCHANGED <<queue, marker, number, holder, taken, cuts>>
             /\ UNCHANGED <<pending, published, own, filling, kills>>

Publish(l) == /\ state[l] = "committed" /\ Becomes(l, "ready")
              /\ LET mine == Named(Name(l), number[l]) IN
                 IF mine # {} THEN \E f \in mine : Rename(f) ELSE UNCHANGED <<pending, published>>    \* another lander has renamed it
              /\ UNCHANGED <<queue, marker, holder, taken, own, number, filling, kills, cuts>>

BackedOut(l) == /\ taken' = [taken EXCEPT ![l] = {}] /\ holder' = IF holder = l THEN Nobody ELSE holder
Killed(l) == /\ kills > 0 /\ kills' = kills - 1 /\ state[l] \notin {"starts", "ended"} /\ BackedOut(l) /\ Becomes(l, "starts")
             /\ UNCHANGED <<queue, marker, pending, published, own, number, filling, cuts>>
\* The unit of work of the lander is backed out, and the lander does not notice it.
Cut(l) == /\ cuts > 0 /\ cuts' = cuts - 1 /\ holder = l /\ BackedOut(l)
          /\ UNCHANGED <<queue, marker, pending, published, state, own, number, filling, kills>>

Step(l) == TakeLane(l) \/ Recover(l) \/ Get(l) \/ Write(l) \/ Commit(l) \/ Publish(l)
Next == \E l \in Landers : Step(l) \/ Killed(l) \/ Cut(l)
Spec == Init /\ [][Next]_vars /\ \A l \in Landers : WF_vars(Step(l))

Segments(m) == {n \in Numbers : m \in published[n]}
Recoverable(m) == \E f \in Named(marker.file, marker.number) : m \in f.messages
NeverTwice == \A m \in Messages : Cardinality(Segments(m)) + (IF m \in queue THEN 1 ELSE 0) <= 1
NeverLost == \A m \in Messages : m \in queue \/ Segments(m) # {} \/ Recoverable(m)
EveryMessageLands == <>(\A m \in Messages : Segments(m) # {})
=============================================================================
